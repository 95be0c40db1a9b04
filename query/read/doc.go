// Package read answers selectors from the head and the data table together.
//
// A [Session] is one query. It selects series: a [Selection], divided into batches of neighbours. Reading a batch gives the
// times and values of each series as columns. A batch is read in this order: the head ([BatchReader]); the row cache; then,
// for each day, one read of the data table with the row ranges of all series of the batch, sorted, for only those hours that
// meet the window. Rows become columns, and the samples of the head are laid over them: on equal times the head wins. A
// flushed row leaves the head only after it is in the table. Reading the head first thus misses nothing, and merging by time
// returns nothing twice. If the head holds no samples of the window ([Head.Holds]), it has been read by that. If the table has
// no rows of the batch's hours (Options.NewestRow), the samples of the head are the batch.
//
// Series of many hours are read as a [Stream] of time slices, so that memory does not grow with the range.
//
// A column whose samples are evenly spaced may lie in the row cache, without a copy. Its times are not made unless somebody
// needs them. A column of several long entries of the cache has these as segments, and copies of the samples between them.
//
// Invariants: times in a column ascend strictly; no sample outside the window or older than its retention is returned; a
// failed read fails the whole query; the memory that a query holds is in its budget.
//
// Concurrency: Reader and Session are safe for concurrent use. A Selection may read several batches concurrently, unless they
// are streamed.
package read
