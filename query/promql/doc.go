// Package promql reads samples for PromQL: it answers selectors from the head and the data table together.
//
// A [Queryable] implements Prometheus' storage interfaces. Beneath them lies a columnar core that does not know those
// interfaces: a [Selection] is the series that match, cut into batches; reading a batch gives each series' times and
// values as two slices. The iterators, series sets and chunks that Prometheus' engine wants are thin covers over that,
// and operators that work on whole columns can use the core alone.
//
// How a batch is read: the head first, series by series; then, for each day, one read of the data table with the row
// ranges of all series of the batch, sorted, for only those hours that meet the window. Rows are folded into columns,
// the hours joined, and the head laid over them: on equal times the head wins. Because a flushed row leaves the head
// only after it is in the table, head first means that nothing is missed, and merging by time that nothing is doubled. A
// head that denies at that moment to have anything of the window ([Head.Holds]) has been read by that.
//
// Rows that are kept decoded lie anywhere in a large memory. What a batch needs of it is touched in one go, before it is
// looked at or copied: the processor then waits for many at once, not for one after the other.
//
// Series of many hours are read as a [Stream] of pieces, so that memory does not grow with the range. Decoded rows are
// kept ([Options.RowCacheBytes]) and taken instead of those in the table as long as no row of their hour was written:
// a [RowWatch] sees each write before its samples leave the head. Days and quarters of days of which all was read are
// kept as one entry each, and used only if nothing of them was written since the series were selected: an entry of
// several hours must not have an hour that the selection does not know, nor lack one. A column also tells what was known of
// its rows when they were kept: that they are evenly spaced, free of stale markers, rising.
//
// A column of a [Session] whose samples are one entry, evenly spaced, is that entry itself, lent until the batch is
// released, and its times are not made unless somebody asks. Columns of several long entries have these as places, one
// behind the other, with what is between them and what the head has, copied. Hours of a series that were asked for
// together are therefore kept together once more, where the rows of a selector are a small part of the cache.
//
// Windows of several hours may be read from states of hours and days ([Session.TierPlan], [Session.SelectTiered]). The
// bounds of all windows cut time into atoms. A state stands for its bucket if all of its samples lie in one atom, as the
// times of the first and the last tell, if the head has none of the bucket, and if it is known; days are asked first, then
// hours, then rows for what is left. Of samples that are retired a state is all there is: it stands where its last sample
// lies.
//
// Decoded states are kept in the table of the rows: those of a day's hours, of a month's days, and what the hours of a day
// join to where a window has the whole day, which are one look-up and one join then. An entry has the versions that
// AppendVersions of rollup/store returned before it was read. Versions are read after the head, like those of rows.
//
// Invariants: times in a column ascend strictly; no sample outside the window or older than retention is returned; a
// failed read fails the whole query, a short answer is never given; what a query holds in memory at once is counted
// and bounded.
//
// Concurrency: a Queryable may be used by any number of goroutines. A querier, its sets and iterators belong to one
// query; series of one set may be iterated by several goroutines, each with an iterator of its own.
package promql
