// Package operator evaluates PromQL expressions as trees of operators over whole columns.
//
// A [Compiler] makes the tree of an expression. It returns nil if an operator for a part is missing. An [Eval] is one
// evaluation of a tree.
//
// Operators emit one series at a time: its labels, and a slice with one value for each step. A stale marker means "no
// value". A sum over a rate holds one such slice for each group, not for each series. Operators that need more at once
// (joins, quantiles, classic histograms) collect rows and charge them to the budget of the query.
//
// # Invariants
//
//   - An emitted series has at least one value. Series come in the engine's order for an instant query.
//   - Floating point operations have the engine's order, so results have the same bits. The exceptions are long windows
//     that are summed by blocks (see [window.SumOverTime]).
//
// # Columns
//
// Series with many hours come in time slices. Each slice fills the steps whose windows end in it. Only the samples of
// windows that continue are carried over to the next slice. So a query holds results and some days of samples, however
// long its range is. A column may have several segments. Steps that need one segment are evaluated in place. Other steps
// need a copy of their samples.
//
// Several workers read and evaluate batches of series. One goroutine emits the rows in order, so results do not depend
// on the number of workers. If samples are evenly spaced and a step is a whole number of sample intervals, the bounds of
// windows are computed instead of searched.
//
// # Rollups and subqueries
//
// Functions over windows of several hours may use states of hours and days in place of samples (rollupRun). A two-stack
// sliding aggregate joins the states of a window's intervals, so a step costs a few joins. If the order of additions
// could change a result (see [window.Exactly]), the samples are evaluated.
//
// The operand of a subquery is evaluated once, on a grid of multiples of the subquery's step. Each of its rows becomes a
// column, and functions over windows treat it like samples. Some functions amplify a difference in the last bits of their
// operand (a difference, a count of changes). Inside these, windows are summed in the engine's order.
//
// # Limits
//
// The limit on samples is the engine's. Every emitted value counts until the operator above has its result, even if it is
// no longer in memory. The samples of the largest window of the current series count too. So the count is never below the
// engine's. If it exceeds the limit but the engine's count may not, the engine evaluates the query ([ErrUndecided]).
//
// # Selections
//
// A count of series of any metric runs metric by metric if all series together do not fit. Aggregations by labels select
// series with these labels only. Equal label sets have one number, so a number identifies the group. topk reads the other
// labels of the series that it emits. If the right operand of a join is a plain selector, the join reads only series that
// match a series on the left.
package operator
