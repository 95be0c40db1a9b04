// Package operator evaluates PromQL expressions as trees of operators over whole columns.
//
// A [Compiler] makes the tree of an expression, or nil if an operator for a part of it is missing. An [Eval] is one
// evaluation of a tree.
//
// Operators hand series on one at a time: labels and a slice with one value for each step, the stale marker
// meaning "no value". A sum over a rate holds one such slice a group, never one a series. Operators that need more at
// once (joins, quantiles, classic histograms) collect what they need and charge it to the budget of the query.
//
// Invariants: a series that is handed on has at least one value, and series come in the order in which the engine
// would have them in an instant query. Floating point operations are done in the engine's order, so that results are
// equal to the last bit except where windows of many samples are summed block by block (see [window.SumOverTime]).
//
// Series with many hours come piece by piece, in spans of time. Each piece fills the steps whose windows end in it; only
// the samples of windows that go on are carried over to the next. So a query holds results and some days of samples,
// however long its range is.
//
// Columns may lie in several places. Steps that need one of them are evaluated there; only samples of windows that have some
// of two are copied.
//
// Batches of series are read and made into rows on several processors; the rows are handed on by one, in order, so that
// results do not depend on it. Where samples are known to be evenly spaced and a step is a number of them, the bounds of
// windows are computed instead of searched.
//
// Functions over windows of several hours may take states of hours and days for samples (rollupRun). States of intervals,
// pieces of time that a window has or has not as a whole, are joined by a queue of two stacks, so that windows that slide
// cost some joins each. What the order of additions could show in, see [window.Exactly], is evaluated from the samples.
//
// A subquery's operand is evaluated once, on a grid of multiples of the subquery's step, whatever the windows share. Each of
// its rows becomes a column, and functions over windows work on it as they do on samples. Where a function shows other last
// bits of its operand (a difference, a count of changes), the windows inside are added up in the engine's order.
//
// The limit on samples is the engine's. Every value that a selector or function hands on counts until the operator above
// it has its result, whether it is still in memory or not, and so do the samples of the largest window of the series
// being read: never less than the engine counts. Where that is too much, but not for certain by the engine's count, the
// engine is asked ([ErrUndecided]).
//
// Counts of series of any metric are made metric by metric where all those series at once are too many to hold.
//
// Aggregations by labels select series with these labels only, numbered where they are the same: a group is found by a number,
// and topk asks for the other labels of those that it hands on.
//
// The right operand of a join is read without the series that match none on the left, if it is a plain selector.
package operator
