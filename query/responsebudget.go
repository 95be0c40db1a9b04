package query

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/budget"
)

// budgeted is a query that reserves its memory in a budget.
type budgeted interface{ budget() *budget.Budget }

// reserve replaces the reservation of the evaluation by one for the value's memory, until Close. A result of the cache is a
// copy, so its memory is reserved too. If the value does not fit, reserve closes the result.
func (r *Result) reserve(ctx context.Context, o Options) error {
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
		reader := readerOf(o.Queryable)
		if reader == nil {
			return nil // the Queryable counts no memory
		}
		r.held = reader.BudgetOf(ctx)
	}
	if err := r.held.Reset(valueBytes(r.Value)); err != nil {
		r.Close()
		return o.limited(classify(ctx, err), o.Timeout)
	}
	return nil
}

// Memory of a series and of a sample in a result, without labels and points.
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
