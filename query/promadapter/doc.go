// Package promadapter gives package read the storage interfaces of Prometheus: queriers, series sets, iterators and chunks. It is
// the only importer of Prometheus's storage package for that.
//
// Concurrency: a Queryable is safe for concurrent use. A querier, its sets and iterators belong to one query; several
// goroutines may iterate over series of one set, each with its own iterator.
package promadapter
