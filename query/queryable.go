package query

import (
	promstorage "github.com/prometheus/prometheus/storage"

	"halite/query/budget"
	"halite/query/read"
)

// readable is a Queryable that can read columns; *promadapter.Queryable is one.
type readable interface {
	// Reader returns nil if only Prometheus's engine can read.
	Reader() *read.Reader
	// WithBudget returns a Queryable whose queriers share a budget.
	WithBudget(b *budget.Budget) promstorage.SampleAndChunkQueryable
}

// readerOf returns the column reader of a Queryable; nil if it has none.
func readerOf(q promstorage.Queryable) *read.Reader {
	if ours, ok := q.(readable); ok {
		return ours.Reader()
	}
	return nil
}

// withBudget returns q with a budget that reserves the memory of all its reads. It returns q itself if q is not readable.
func withBudget(q promstorage.Queryable, b *budget.Budget) promstorage.Queryable {
	if ours, ok := q.(readable); ok {
		return ours.WithBudget(b)
	}
	return q
}
