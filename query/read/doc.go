// Package read answers selectors from the head and the data table together.
//
// A [Session] is one query. It selects series: a [Selection], divided into batches of neighbours. Reading a batch gives the times
// and values of each series as columns. A batch is read in this order: the head ([BatchReader]); the row cache; then, for each
// day, one read of the data table with the row ranges of all series of the batch, sorted, for only those hours that meet the
// window. Rows become columns, and the samples of the head are merged into them: on equal times the head wins. A flushed row
// leaves the head only after it is in the table. So reading the head first misses nothing, and merging by time returns nothing
// twice. If the head holds no samples of the window ([Head.Holds]), that check counts as reading it. If the table has no rows of
// the batch's hours (Options.NewestRow), the batch has only the samples of the head.
//
// If a query needs much of one of the latest two hours, the row cache keeps the rows that the head has of this hour, decoded. The
// head then adds the samples that came since.
//
// Series of many hours are read as a [Stream] of time slices, so that memory does not grow with the range.
//
// A column whose samples are evenly spaced may lie in the row cache, without a copy. Its times are computed only if somebody
// needs them. A column over several long entries of the cache has these entries as segments, with copies of the samples between
// them.
//
// Invariants: times in a column ascend strictly; no sample outside the window or older than its retention is returned; a
// failed read fails the whole query; the memory that a query holds is in its budget.
//
// Concurrency: Reader and Session are safe for concurrent use. A Selection may read several batches concurrently, unless they
// are streamed.
package read
