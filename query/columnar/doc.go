// Package columnar evaluates PromQL expressions over whole columns: the shapes that dashboards use, much cheaper than an
// engine that goes sample by sample, and with exactly its results.
//
// [Build] looks at a parsed and preprocessed expression. If all of it is supported, the [Plan] needs no engine. If only
// parts are supported, the plan holds a rewritten expression: each of the largest supported parts has become a selector.
// The plan answers those selectors ([Run.Queryable]) with series that have a sample at every step of the query's grid, a
// stale marker where there is no value. The engine evaluates the rest.
//
// Some unsupported cases show only during the evaluation, a duplicate label set for example. Then it ends with
// [operator.ErrUndecided] and the caller asks the engine, which finds the error or the rare result.
//
// The work is done below: package operator has the operators and makes a tree of them, package window has the functions
// over the samples of a window, package accumulate the aggregations of rows, package grid the steps, series and rows.
//
// Concurrency: a Plan is used by one goroutine, once.
package columnar
