package query

import (
	"errors"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"halite/query/budget"
	"halite/query/resultcache"
)

// errTruncated is the warning about a result that Params.Limit has shortened, in Prometheus's words.
var errTruncated = errors.New("results truncated due to limit")

// Result is the value of a query. The caller calls Close after it has written the result, because its points are in pooled
// memory.
type Result struct {
	// Value is a promql.Vector, promql.Matrix, promql.Scalar or promql.String.
	Value parser.Value
	// Warnings holds warnings and infos. Its AsStrings separates them.
	Warnings annotations.Annotations
	// Stats is nil unless Params.Stats is set.
	Stats stats.QueryStats
	// Explain is nil unless Params.Explain is set.
	Explain *Explain

	queries []promql.Query
	held    *budget.Budget // nil if memory is not counted
	// settle stores the result in the result cache. It is nil after that.
	settle func()
	// local is empty if columnar operators alone computed the value, step by step.
	local resultcache.SkipReason
}

// Close stores the result in the result cache and releases its memory. Do not use Value afterwards.
func (r *Result) Close() {
	if r.settle != nil {
		r.settle()
		r.settle = nil
	}
	for _, q := range r.queries {
		q.Close()
	}
	r.queries = nil
	if r.held != nil {
		r.held.Close()
	}
}

// Sending reports that the value is being written to a client until Close. If other queries need the memory, they may end a
// slow response; see budget.Response.
func (r *Result) Sending(a budget.Response) {
	if r.held != nil {
		r.held.StartSending(a)
	}
}

// truncate shortens the value to limit series; 0 keeps all.
func (r *Result) truncate(limit int) {
	if limit <= 0 {
		return
	}
	switch v := r.Value.(type) {
	case promql.Matrix:
		if len(v) > limit {
			r.Value = v[:limit]
			r.Warnings.Add(errTruncated)
		}
	case promql.Vector:
		if len(v) > limit {
			r.Value = v[:limit]
			r.Warnings.Add(errTruncated)
		}
	}
}
