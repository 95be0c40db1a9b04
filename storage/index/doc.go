// Package index is the series index: which label sets exist, and in which hours each has samples.
//
// The wide-column model has one index, the row key; matchers need more. The index keeps, for each metric, a table
// with a column of value ids per label name. A matcher is evaluated once per distinct value of its label, in the
// dictionary of that label; then columns of small integers are scanned. There are no postings. The same shape exists
// three times:
//
//   - active, in memory: the series being written ([Index.Add]), append-only columns over dictionaries shared by all
//     metrics, read without locks. Beside it each open day has a word per [Ref] with the hours touched ([Index.Touch]).
//   - as a journal: what [Index.Persist] writes of days that are not folded yet, so that a restart knows them.
//   - as a segment: what [Index.Maintain] folds a closed day into, one block of columns for each large metric and one
//     for several small ones, with dictionaries shared by all metrics of the day, read on demand through a cache. The
//     segments of a month's days are folded on into one of the month, to date, in which long windows are looked up.
//
// Rows never change, so the order of labels of a table's rows is kept once somebody has asked for most of them: large answers
// are picked from it instead of sorted. Who needs few labels of many series gets these only, made once for each combination
// of values ([Index.SelectPart]).
//
// It is not a store of samples, knows no rows but their keys, and starts no goroutines.
//
// # Invariants
//
//   - A touch is seen by reads from the moment Touch has returned. A fold installs a day's segment before it clears the
//     day's touches from memory, and readers look at memory first: no series is missed, duplicates are joined.
//   - After Persist and a Sync of the store every touch made before survives; later ones must be touched again, as a
//     replay of the log does. Presence is exact by the hour: never narrower than the touches. It is wider for hours whose samples
//     were deleted, until RemoveHours.
//   - A month repeats what its days hold and says which generation of each; a day that has been folded since is read by
//     itself. A month that is late, damaged or gone costs time, never an answer.
//   - Hours leave only by [Index.RemoveHours], which rewrites days without hours that have no samples, and by a [MetricDrop],
//     which notes in the roots of days that a metric is gone, until the next fold leaves it out.
//   - A day's generation is switched by one cell. Whatever a crash leaves, either the old or the new generation is
//     whole, and everything else is swept up later.
//   - Stored values are checksummed together with their place. Open rebuilds a damaged journal from the keys of the data
//     rows. It also rebuilds, in memory, the days whose roots and journals lie in damaged blocks of the table. A damaged
//     segment makes reads of its day fail with storage.ErrCorrupt, naming row and qualifier, until [Index.Rebuild].
//   - The order of a segment's rows is that of labels.Compare, so that results need merging, not sorting.
//
// # Several processes
//
// With [Options.Writer] any number of processes share the tables. Each writes parts of journals under its own name, takes in
// those of the others with [Index.Refresh], and leaves folding to one process at a time, which calls [Index.Fold]; a fold
// is fenced in the root row, so that two of them cost work and nothing else. Presence is never narrower than the touches,
// but may be wider: a process may have failed between telling of a series and storing its samples. Hours that a removal takes out
// of the tables may stay in the memory of others; [Index.Stored] goes by what they wrote since, not by what they have read.
//
// # Concurrency
//
// All methods may be called at once. Add, Touch, Retire and reads never wait for Persist, Maintain or Rebuild, which
// exclude each other. Series are identified by ids within their metric's table and across days, in queries, by a seeded
// 128-bit hash of their labels.
//
// FORMAT.md draws what is stored.
package index
