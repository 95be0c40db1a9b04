// Package columnar evaluates PromQL expressions over whole columns. It evaluates the expressions that dashboards use. It
// returns exactly the results of an engine that works sample by sample, at a fraction of the engine's cost.
//
// [Build] takes a parsed and preprocessed expression and makes a [Plan]. If operators support the whole expression, the plan
// needs no engine. If they support only parts, the plan has a rewritten expression, in which a selector replaces each of the
// largest supported parts. The engine evaluates the rewritten expression. [Run.Queryable] answers its selectors with series
// that have a sample at every step of the query's grid, and a stale marker at a step without a value.
//
// Some unsupported cases appear only during the evaluation, for example a duplicate label set. Then the evaluation ends
// with [operator.ErrUndecided]. Then the caller uses the engine, which finds the error or the rare result.
//
// Packages below do the work. Package operator has the operators and makes a tree of them. Package window has the functions
// over the samples of a window. Package accumulate has the aggregations of rows. Package grid has the steps, series and
// rows.
//
// Concurrency: one goroutine uses a Plan, once.
package columnar
