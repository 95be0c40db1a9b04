// Package index is the series index: it records which label sets exist, and in which hours each has samples.
//
// The row key is the only index of the wide-column model, but matchers need another one. For each metric the index keeps a
// table with a column of value ids per label name. A look-up evaluates a matcher once per distinct value, in the dictionary
// of the label. Then it scans columns of small integers. There are no postings. The tables exist in three forms:
//
//   - In memory: the active series ([Index.Add]), in append-only columns over dictionaries that all metrics share. Readers
//     take no locks. Each open day has a word per [Ref] with its active hours ([Index.MarkActive]).
//   - As a journal: [Index.Persist] writes the days that are not yet compacted, so that a restart can restore them.
//   - As segments: [Index.Maintain] compacts each closed day into a segment. A segment has a block of columns for each large
//     metric, a block for several small ones, and dictionaries that all metrics share. A cache holds decoded parts.
//     A compaction also makes a segment of each month from the segments of its days. Look-ups of long time ranges use it.
//
// Rows never change. So the index sorts the rows of a table once and picks the rows of large results from that order. A query
// that needs few labels of many series gets only these labels ([Index.SelectProjected]).
//
// The index stores no samples, uses only the keys of rows, and starts no goroutines.
//
// # Invariants
//
//   - Reads see an active hour as soon as MarkActive has returned. A compaction installs a segment before it clears the
//     hours in memory, and readers look at memory first. So no series is missed; duplicates are joined.
//   - After Persist and a Sync of the store, every hour marked before survives. Later hours must be marked again; the replay
//     of the log does so. The hours of a series are exact until a deletion removes samples; then RemoveHours has to follow.
//   - A month's manifest names the generation of each day that the month contains. Look-ups read a day with a newer
//     generation from the day's own segment. So a late, damaged or missing month costs time, but no result is wrong.
//   - Only two operations remove hours. [Index.RemoveHours] rewrites days without the hours that have no samples. A
//     [MetricDrop] marks a metric as dropped in the manifests of days; the next compaction omits the metric.
//   - One cell switches the generation of a day. After a crash, either the old or the new generation is complete. A
//     later Maintain deletes the other cells.
//   - The checksum of a stored value covers its row key and qualifier. Open rebuilds a damaged journal from the keys of the
//     data rows. If a damaged block of the table holds the manifest and the journal of a day, Open rebuilds that day in
//     memory. Reads of a damaged segment fail with storage.ErrCorrupt, which names row and qualifier, until [Index.Rebuild].
//   - The rows of a segment are in the order of labels.Compare. So results are merged, not sorted.
//
// # Several processes
//
// With [Options.Writer] any number of processes may share the tables. Each process writes journal records under its own name and
// reads the records of the others with [Index.Refresh]. One process at a time compacts, with [Index.Compact]. A reservation in
// the manifest's row fences compactions, so two concurrent ones only waste work. In this mode a series may list an hour
// without samples. A process may fail after it adds a series and before it stores the samples. Other processes may still
// hold removed hours in memory; [Index.IsPersisted] ignores those.
//
// # Concurrency
//
// All methods may be called concurrently. Add, MarkActive, Retire and reads never wait for Persist, Maintain or Rebuild,
// which exclude each other. A series is identified by an id within the table of its metric. Across days, queries identify it
// by a seeded 128-bit hash of its labels.
//
// FORMAT.md draws the stored bytes.
package index
