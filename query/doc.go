// Package query evaluates PromQL within limits. Columnar operators evaluate the expressions that dashboards use, and
// Prometheus's engine evaluates the rest. Results equal the results of Prometheus's engine.
//
// An [Engine] takes an expression and times, and returns a [Result]. First it checks the limits that need no data: the length
// of the query, the number of points, the step. Then the query waits for one of a fixed number of slots; cheap queries do not
// wait for large ones. The engine evaluates the query over the Queryable. Errors are always *[Error] with the type that
// Prometheus's HTTP API would report, so that a front end only prints them.
//
// For each query, the Engine decides which of the two evaluates each part (see query/columnar). Results, annotations and
// errors are those that Prometheus's engine would return. [Params.Columnar] and [Options.Columnar] turn the operators off.
// [Params.Explain] describes the evaluation.
//
// Package resultcache keeps results. It returns a result only if the samples of the result have not changed since. The
// write path reports changes through [resultcache.Changes]. The engine evaluates steps near a change and steps that the
// cache lacks, and joins them to the cached steps. It reuses a part of a result only if no value depends on the range of the
// query. To the last bit, each value must depend only on the samples around its step. Any other result is reused only for
// the same query and the same range.
//
// The package does not depend on tables, heads or HTTP. Package query/read below it reads samples.
//
// Invariants: each running query holds a slot, and gives it back exactly once. A [Result] keeps pooled memory until Close.
//
// Concurrency: any number of goroutines may use an Engine. A Result belongs to one goroutine.
package query
