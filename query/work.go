package query

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/stats"

	"halite/query/resultcache"
)

// work is the evaluation of a question, as a whole or by the parts that the cache does not have.
type work struct {
	engine *Engine
	question
	explainer *explainer
	listed    *activeEntry
	timeout   time.Duration
	consumed  *consumed
}

// do waits for a place and evaluates.
func (w *work) do(ctx context.Context, in *resultcache.Lookup) (*Result, error) {
	e := w.engine
	kind := e.kindOf(ctx, in.Uncached(w.Expression))
	// An expression that cannot be evaluated fails without waiting.
	qry, err := e.prepare(ctx, w.Expression, w.Params)
	if err != nil {
		return nil, err
	}
	queued := time.Now()
	leave, err := e.gate.enter(ctx, kind)
	w.explainer.queued(time.Since(queued))
	if err != nil {
		qry.Close()
		return nil, e.opts.limited(classify(ctx, err), w.timeout)
	}
	defer leave()
	defer e.opts.Log.Begin(w.record(w.listed.Start))()
	w.listed.evaluating.Store(true)
	if in.Partial() {
		result, err := w.parts(ctx, in)
		if result != nil || err != nil {
			qry.Close()
			return result, err
		}
		in.EvaluateAll()
	}
	res, err := w.evaluate(ctx, qry)
	if err != nil {
		return nil, err
	}
	if res.local != resultcache.RefusedNone {
		in.Demote(res.local)
	}
	if w.Stats || w.StatsPerStep {
		res.Stats = stats.NewQueryStats(qry.Stats())
	}
	return res, nil
}

// evaluate runs a query. It is the result's to close, or closed after an error.
func (w *work) evaluate(ctx context.Context, qry promql.Query) (*Result, error) {
	h, columns := qry.(*hybridQuery)
	if columns {
		w.listed.figures.Store(h)
	}
	began := time.Now()
	res := qry.Exec(ctx)
	w.explainer.add(qry, time.Since(began))
	w.consumed.add(qry)
	w.engine.metrics.samples.Add(float64(qry.Stats().Samples.SamplesRead))
	if res.Err != nil {
		qry.Close()
		return nil, w.engine.opts.limited(classify(ctx, res.Err), w.timeout)
	}
	out := &Result{Value: res.Value, Warnings: res.Warnings, queries: []promql.Query{qry}, local: resultcache.RefusedEngine}
	switch {
	case columns && h.alone() && h.typed:
		out.local = resultcache.RefusedNames
	case columns && h.alone():
		out.local = resultcache.RefusedNone
	}
	return out, nil
}

// parts evaluates what the cache does not have and joins all parts. The result is nil if the parts cannot be joined:
// then everything has to be evaluated.
func (w *work) parts(ctx context.Context, in *resultcache.Lookup) (*Result, error) {
	joined := &Result{}
	matrices := make([]promql.Matrix, 0, len(in.Parts))
	for _, p := range in.Parts {
		if p.Cached {
			matrices = append(matrices, p.Matrix)
			continue
		}
		s := w.Expression
		s.Start, s.End = time.UnixMilli(in.At(p.From)), time.UnixMilli(in.At(p.To-1))
		qry, err := w.engine.prepare(ctx, s, w.Params)
		if err != nil {
			joined.Close()
			return nil, err
		}
		res, err := w.evaluate(ctx, qry)
		if err != nil {
			joined.Close()
			return nil, err
		}
		joined.queries = append(joined.queries, res.queries...)
		joined.Warnings.Merge(res.Warnings)
		m, ok := res.Value.(promql.Matrix)
		if !ok || res.local != resultcache.RefusedNone {
			joined.Close()
			in.Demote(res.local)
			return nil, nil
		}
		matrices = append(matrices, m)
	}
	joined.Value = resultcache.Merged(matrices)
	return joined, nil
}
