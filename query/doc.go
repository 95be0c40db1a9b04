// Package query evaluates PromQL: columnar operators for the shapes that dashboards use, Prometheus' own engine for the
// rest, behind limits, a queue and a list of what is running.
//
// An [Engine] takes an expression and times, checks every limit that can be checked before work begins (length of the
// query, number of points, step), waits for one of a fixed number of slots, where cheap queries do
// not wait for large ones, and lets the engine evaluate over the Queryable it was given. Errors are always
// *[Error] with the type that Prometheus' HTTP API would report, so that a front end only has to print them.
//
// Which of the two evaluates what is decided query by query (see query/columnar); results, annotations and errors are
// the engine's in either case. [Params.Columnar] and [Options.Columnar] turn the operators off, [Params.Explain] tells
// what was done.
//
// Results are kept for those who ask again. What is kept is used only if no sample that it depends on has changed since,
// which the write side tells through [Changes]; the steps around those that have changed, and those not asked for before,
// are evaluated and joined to the rest. Parts of a result are used only where each value depends on the samples around
// its step alone and not on the range of the query, to the last bit; the comments of locality say where that is not so.
// Other results answer the same question again, for the same range.
//
// The package knows nothing of tables, heads or HTTP; package query/read below it reads samples.
//
// Invariants: no query runs without holding a slot; a slot is given back exactly once; a [Result] keeps pooled
// memory until Close.
//
// Concurrency: an Engine may be used by any number of goroutines; a Result belongs to one.
package query
