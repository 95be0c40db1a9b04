// Package rowcache caches decoded rows of the data table and decoded rollup states, so that repeated queries need no table.
//
// A [Lookup] finds the rows of a batch of series. The caller reads the other rows from the table and gives them to a [Writer].
// Days and quarters of days that were read as a whole become one entry each (PutBlocks). Hours that one selector reads
// together become one entry as well (Request.Merge), so that a later query needs one look-up for each series.
//
// A [Watch] sees each write to the data table before its samples leave the head. It gives the written hours a new version,
// and no look-up finds an entry of an old version. A look-up uses a block of hours only if none of its rows was written
// after the selection of the series. Only then does the selection know all hours of the block.
//
// [HeadRows] are decoded rows of the head. They have the same versions. The head reports late samples, which make an entry
// useless. Later queries add new samples to an entry in place.
//
// Entries lie in regions outside the Go heap. The cache fills one region after the other and evicts the oldest region as a
// whole. It does not copy long entries, or the only entry of a series: [Pins] keep the region unchanged until the batch is
// released. A column may consist of several such segments.
//
// A look-up first prefetches the cache lines of many series, so that the processor waits for many lines at once.
//
// Concurrency: a Cache is safe for concurrent use. A Lookup or a Writer belongs to one goroutine.
package rowcache
