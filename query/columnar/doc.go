// Package columnar evaluates PromQL expressions over whole columns: the shapes that dashboards use, much cheaper than an
// engine that goes sample by sample, and with exactly its results.
//
// [Build] looks at a parsed and preprocessed expression. If all of it is supported the [Plan] needs no engine; if only
// parts are, the plan holds a rewritten expression in which each of the largest supported parts has become a selector,
// and answers those selectors ([Plan.Queryable]) with series that have a sample at every step of the query's grid, a
// stale marker where there is no value. The rest is left to the reference engine. What is only seen to be unsupported
// while evaluating, a duplicate label set for example, ends with [ErrUndecided]: the caller asks the engine instead,
// which finds the words for the error or the rare result.
//
// Inside, operators hand series on one at a time: labels and a slice with one value for each step, the stale marker
// meaning "no value". A sum over a rate holds one such slice a group, never one a series. Operators that need more at
// once (joins, quantiles, classic histograms) collect what they need and charge it to the budget of the query.
//
// Invariants: a series that is handed on has at least one value, and series come in the order in which the engine
// would have them in an instant query. Floating point operations are done in the engine's order, so that results are
// equal to the last bit except where windows of many samples are summed block by block (see sumOverTime).
//
// The limit on samples: every value that a selector or function hands on counts until the operator above it has its
// result, whether it is still in memory or not, and so do the samples of the largest window of the series being read.
// That is at least what the engine counts. Where the engine evaluates a part of the query it counts its own samples,
// apart from ours.
//
// Concurrency: a Plan is used by one goroutine, once.
package columnar
