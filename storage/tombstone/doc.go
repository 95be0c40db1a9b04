// Package tombstone remembers which samples were deleted until their rows have been written anew without them.
//
// A [Tombstone] names series by matchers, a span of time, and a sequence number: in a run of the data table with a lower
// number the samples of the span are deleted, in all others they are not, for those were written later. The [Set] keeps
// the tombstones in force in the meta table and in memory, and gives out a store ([Set.Store]) whose data table reads as
// if the samples were gone already. So nobody who reads rows needs to know of deletions: not queries, nor rollups, nor a
// rebuild of the catalogue. It is not a log: whoever deletes sees to it that a tombstone survives until [Set.Save].
//
// # Invariants
//
//   - A tombstone is seen by all reads that begin after [Set.Add] has returned, and by none of those whose [View] is older.
//   - Samples in memory and rows are seen as of one moment by who reads the former within [Set.Read] and the latter with
//     the View that it returns.
//   - Without tombstones a read costs one atomic load more, and so does one of a time that none of them concerns.
//   - Single samples (keyschema.KindSample) have the number of the last deletion before them. One without, or with a lower
//     one than a tombstone's, is hidden.
//   - An id is never given twice, not even after its tombstone was dropped.
//
// # Several processes
//
// In a shared set ([Options.Shared]) [Set.Publish] puts a tombstone in force for all processes at one moment: each sees it
// with the next [Set.Refresh] that it calls. What those who write must do is said in shared.go, and in cleanuplock.go
// what those who take hours out of the catalogue must.
//
// # Concurrency
//
// All methods of Set and View may be called by any number of goroutines. Views and what they list are never changed.
//
// FORMAT.md draws what is stored.
package tombstone
