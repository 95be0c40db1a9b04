package query

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/query/budget"
	"halite/query/expression"
)

// budgeted is a query with a budget, which its Close ends.
type budgeted interface{ budget() *budget.Budget }

// budget implements budgeted.
func (q *hybridQuery) budget() *budget.Budget { return q.held }

// engineOnly is a query that Prometheus's engine evaluates alone.
type engineOnly struct {
	promql.Query
	held *budget.Budget
}

// budget implements budgeted.
func (q *engineOnly) budget() *budget.Budget { return q.held }

// Close implements promql.Query.
func (q *engineOnly) Close() {
	q.Query.Close()
	q.held.Close()
}

// newBudget makes the budget of a query; nil if the Queryable counts nothing.
func newBudget(q promstorage.Queryable) *budget.Budget {
	if r := readerOf(q); r != nil {
		return r.Budget()
	}
	return nil
}

// alone makes a query that the engine evaluates alone.
func (h *hybrid) alone(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, s expression.Expression,
) (promql.Query, error) {
	held := newBudget(q)
	if held == nil {
		return h.engineQuery(ctx, q, opts, s, s.Text)
	}
	qry, err := h.engineQuery(ctx, withBudget(q, held), opts, s, s.Text)
	if err != nil {
		return nil, err
	}
	return &engineOnly{qry, held}, nil
}

// hold counts the value of a result until its Close, instead of everything that the evaluation has counted. A result of
// the cache is counted as well: it is a copy. If there is no room for the value, the result is closed.
func (e *Engine) hold(ctx context.Context, r *Result) error {
	for _, q := range r.queries {
		b, ok := q.(budgeted)
		switch {
		case !ok:
		case r.held == nil:
			r.held = b.budget()
		default:
			b.budget().Close()
		}
	}
	if r.held == nil {
		r.held = newBudget(e.opts.Queryable)
	}
	if r.held == nil {
		return nil
	}
	if err := r.held.Reset(valueBytes(r.Value)); err != nil {
		r.Close()
		return e.opts.limited(classify(ctx, err), e.opts.Timeout)
	}
	return nil
}

// Memory of a series and of a sample of a result, beside labels and points.
const (
	resultSeriesBytes = 80
	resultSampleBytes = 48
	resultPointBytes  = 16
)

// valueBytes is the memory of a value.
func valueBytes(v parser.Value) (bytes int64) {
	labelBytes := func(ls labels.Labels) int64 { return int64(ls.ByteSize()) }
	switch v := v.(type) {
	case promql.Matrix:
		for i := range v {
			points := int64(cap(v[i].Floats)) + int64(cap(v[i].Histograms))
			bytes += resultSeriesBytes + labelBytes(v[i].Metric) + points*resultPointBytes
		}
	case promql.Vector:
		for i := range v {
			bytes += resultSampleBytes + labelBytes(v[i].Metric)
		}
	case promql.String:
		bytes = int64(len(v.V))
	}
	return bytes
}
