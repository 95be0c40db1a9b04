package query

import (
	"context"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/stats"

	"halite/query/limits"
	"halite/query/resultcache"
	"halite/storage/principal"
)

// evaluation evaluates a request, as a whole or only the parts that the result cache lacks.
type evaluation struct {
	engine *Engine
	inner  *dispatcher // as it was when the request arrived; nil if there is no expression
	request
	rule      *limits.Rule // rule that sends the query through the slow lane; nil if there is none
	explainer *explainer
	listed    *activeEntry
	timeout   time.Duration
	consumed  *consumed
	single    bool // the query uses one CPU
	cpu       *principal.CPUSlot
}

// consumed is the work and memory that a request has used.
type consumed struct{ samples, peakBytes int64 }

// add counts an evaluated query.
func (c *consumed) add(qry promql.Query) {
	c.samples += qry.Stats().Samples.SamplesRead
	if h, ok := qry.(*columnarQuery); ok && h.session != nil {
		c.peakBytes = max(c.peakBytes, h.session.Figures().BytesPeak)
	}
}

// begin lists the request as active and bounds its time, until end is called.
func (ev *evaluation) begin(ctx context.Context) (running context.Context, end func()) {
	e := ev.engine
	ev.timeout = e.opts.Timeout
	if ev.Timeout > 0 {
		ev.timeout = min(ev.timeout, ev.Timeout)
	}
	ev.timeout = e.opts.Limits.Timeout(ctx, ev.timeout)
	running, stop := context.WithTimeout(ctx, ev.timeout)
	running, cancel := context.WithCancelCause(running)
	ev.listed = e.active.add(ev.request, e.opts.Now(), cancel)
	return running, func() {
		e.active.remove(ev.listed)
		cancel(nil)
		stop()
	}
}

// do waits for a slot and evaluates.
func (ev *evaluation) do(ctx context.Context, lookup *resultcache.Lookup) (*Result, error) {
	e := ev.engine
	kind := e.opts.kindOf(ctx, e.parser, lookup.Uncached(ev.Expression), ev.inner.subqueryStepMs)
	// prepare comes before the wait for a slot, so that a bad expression fails at once.
	qry, err := e.prepare(ctx, ev.inner, ev.Expression, ev.Params)
	if err != nil {
		return nil, err
	}
	queued := time.Now()
	release, err := ev.acquireSlot(ctx, kind)
	ev.explainer.queued(time.Since(queued))
	if err != nil {
		qry.Close()
		return nil, e.opts.limited(classify(ctx, err), ev.timeout)
	}
	defer release()
	defer e.opts.Log.Begin(ev.record(ev.listed.Start))()
	ev.listed.evaluating.Store(true)
	if lookup.Partial() {
		result, err := ev.parts(ctx, lookup)
		if result != nil || err != nil {
			qry.Close()
			return result, err
		}
		lookup.EvaluateAll()
	}
	res, err := ev.evaluate(ctx, qry)
	if err != nil {
		return nil, err
	}
	if res.local != resultcache.SkipNone {
		lookup.Demote(res.local)
	}
	if ev.Stats || ev.StatsPerStep {
		res.Stats = stats.NewQueryStats(qry.Stats())
	}
	return res, nil
}

// acquireSlot waits for the slow lane, if a rule requires it, and for a slot.
func (ev *evaluation) acquireSlot(ctx context.Context, kind costKind) (release func(), err error) {
	leaveLane, err := ev.engine.opts.Limits.Enter(ctx, ev.rule, ev.engine.opts.QueueWait)
	if err != nil {
		return nil, err
	}
	releaseSlot, single, err := ev.engine.slots.acquire(ctx, kind)
	if err != nil {
		leaveLane()
		return nil, err
	}
	ev.single = single
	leaveBoth := func() {
		releaseSlot()
		leaveLane()
	}
	ev.cpu, err = principal.From(ctx).AcquireCPU(ctx)
	if err != nil {
		leaveBoth()
		return nil, err
	}
	return func() {
		ev.cpu.Release()
		leaveBoth()
	}, nil
}

// evaluate runs a query. Result.Close closes the query. After an error, evaluate has closed it.
func (ev *evaluation) evaluate(ctx context.Context, qry promql.Query) (*Result, error) {
	h, columns := qry.(*columnarQuery)
	if columns {
		ev.listed.session.Store(h.session)
		if ev.single {
			h.session.UseOneCPU(ev.cpu.Yield)
		}
	}
	began := time.Now()
	res := qry.Exec(ctx)
	if columns {
		ev.explainer.add(&h.explain)
	} else {
		ev.explainer.engineOnly(time.Since(began))
	}
	ev.consumed.add(qry)
	ev.engine.metrics.samples.Add(float64(qry.Stats().Samples.SamplesRead))
	if res.Err != nil {
		qry.Close()
		return nil, ev.engine.opts.limited(classify(ctx, res.Err), ev.timeout)
	}
	out := &Result{Value: res.Value, Warnings: res.Warnings, queries: []promql.Query{qry}, local: resultcache.SkipEngine}
	switch {
	case columns && h.withoutEngine() && h.typed:
		out.local = resultcache.SkipNames
	case columns && h.withoutEngine():
		out.local = resultcache.SkipNone
	}
	return out, nil
}

// parts evaluates the missing parts and joins them to the cached parts. It returns nil if it cannot join them, and the caller
// then evaluates the whole range.
func (ev *evaluation) parts(ctx context.Context, lookup *resultcache.Lookup) (*Result, error) {
	joined := &Result{}
	matrices := make([]promql.Matrix, 0, len(lookup.Parts))
	for _, p := range lookup.Parts {
		if p.Cached {
			matrices = append(matrices, p.Matrix)
			continue
		}
		s := ev.Expression
		s.Start, s.End = time.UnixMilli(lookup.At(p.From)), time.UnixMilli(lookup.At(p.To-1))
		qry, err := ev.engine.prepare(ctx, ev.inner, s, ev.Params)
		if err != nil {
			joined.Close()
			return nil, err
		}
		res, err := ev.evaluate(ctx, qry)
		if err != nil {
			joined.Close()
			return nil, err
		}
		joined.queries = append(joined.queries, res.queries...)
		joined.Warnings.Merge(res.Warnings)
		m, ok := res.Value.(promql.Matrix)
		if !ok || res.local != resultcache.SkipNone {
			joined.Close()
			lookup.Demote(res.local)
			return nil, nil
		}
		matrices = append(matrices, m)
	}
	joined.Value = resultcache.Merged(matrices)
	return joined, nil
}
