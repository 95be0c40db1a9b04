// Package query evaluates PromQL: Prometheus' own engine behind limits, a queue and a list of what is running.
//
// An [Engine] takes an expression and times, checks every limit that can be checked before work begins (length of the
// query, number of points, step), waits for one of a fixed number of places, and lets the engine evaluate over the
// Queryable it was given. Errors are always *[Error] with the type that Prometheus' HTTP API would report, so that a
// front end only has to print them.
//
// The package knows nothing of tables, heads or HTTP; reading samples is the affair of query/promql below it.
//
// Invariants: no query runs without holding a place; a place is given back exactly once; a [Result] keeps pooled
// memory until Close.
//
// Concurrency: an Engine may be used by any number of goroutines; a Result belongs to one.
package query
