// Package promadapter implements the storage interfaces of Prometheus over package read: queriers, series sets, iterators and
// chunks.
//
// Concurrency: a Queryable is safe for concurrent use. A querier, its sets and iterators belong to one query; several
// goroutines may iterate over series of one set, each with its own iterator.
package promadapter
