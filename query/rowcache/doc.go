// Package rowcache holds decoded rows of the data table, and decoded rollup states, for the queries that come next.
//
// A [Lookup] finds the rows of a batch of series. Rows that it does not find are read from the table and given to a
// [Writer]. Days and quarters of days that were read as a whole become one entry each (PutBlocks). Hours that one selector
// reads together become one entry as well (Request.Merge): a later query then needs one look-up a series.
//
// A [Watch] sees each write to the data table before its samples leave the head. It gives the hours of these rows a new
// version, so that entries of the old version are not found. A block of hours is used only if no row of it was written since
// the series were selected: the selection then knows all hours of the block.
//
// [HeadRows] are rows of the head, decoded up to almost their newest sample. They obey the same versions. The head says whether
// late samples make an entry useless.
//
// Entries lie in regions outside the Go heap, which are filled one after the other: the oldest region is evicted as a whole.
// A column whose samples are long or the only ones is not copied; [Pins] keep its region unchanged until the batch is
// released. Such a column may consist of several segments.
//
// Look-ups of a batch first prefetch the cache lines of many series, so that the processor waits for many at once.
//
// Concurrency: a Cache is safe for concurrent use; look-ups and writers belong to one goroutine each.
package rowcache
