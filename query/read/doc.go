// Package read reads the series and samples of selectors from the head and the data table.
//
// A [Session] is the reads of one query. Its input is matchers and a window of time. It selects series as a [Selection],
// which is divided into batches of adjacent series. A [Batch] has the times and values of each series as columns. A
// [BatchReader] reads the head first, then the row cache. Then it reads the data table, once for each day, with the sorted
// row ranges of all series and only the hours of the window. It merges the samples of the head into the rows. On equal
// times the head wins. A flushed row leaves the head only after it is in the table. So a batch that reads the head first
// misses no sample, and the merge returns no sample twice. If the head holds no samples of the window ([Head.Holds]), the
// check counts as the read. If the table has no rows of the batch's hours (Options.NewestRow), the batch has only the
// samples of the head.
//
// If a query needs a large part of one of the latest two hours, the row cache keeps the decoded rows that the head has of this
// hour. The head then adds later samples.
//
// A [Stream] reads series of many hours in slices of time, so that memory does not grow with the range.
//
// A column with evenly spaced samples may refer to the memory of the row cache, without a copy. Its times are computed only
// if a caller needs them. A column over several long entries of the cache has these entries as segments, and copies of the
// samples between them.
//
// Invariants: times in a column ascend strictly. No batch has samples outside the window or older than their retention. A
// failed read fails the whole query. The budget of a query accounts for all its memory.
//
// Concurrency: Reader and Session are safe for concurrent use. A Selection may read several batches concurrently, unless they
// are streamed.
package read
