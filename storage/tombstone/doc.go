// Package tombstone stores deletions until the rows are rewritten without the deleted samples.
//
// A [Tombstone] names series by matchers, a span of time, and a sequence number. It deletes the samples of the span in
// chunks of the data table with a lower number. Chunks with a higher number were written later and keep their samples. The
// [Set] keeps the current tombstones in the meta table and in memory. Its store ([Set.Store]) has a data table that reads
// as if the samples were gone. So queries, rollups and a rebuild of the index need no code for deletions. The caller of
// [Set.Add] makes sure that a tombstone survives a crash until [Set.Save].
//
// # Invariants
//
//   - Every read that begins after [Set.Add] has returned sees the tombstone. No read with an older [View] sees it.
//   - A reader sees samples in memory and rows at one moment, if it reads memory within [Set.Read] and rows with the View that
//     Read returns.
//   - If no tombstone overlaps the time range of a read, the read costs one more atomic load.
//   - Single samples (keyschema.KindSample) have the number of the last deletion before them. A tombstone hides single samples
//     with a lower number than its own, or with none.
//   - No id is used twice, even after its tombstone was dropped.
//
// # Several processes
//
// In a shared set ([Options.Shared]) [Set.Publish] puts a tombstone in force for all processes at one moment. Each process sees
// it after its next [Set.Refresh]. shared.go lists the duties of writers, and cleanuplock.go lists the duties of a process that
// removes hours from the index.
//
// # Concurrency
//
// Any number of goroutines may call the methods of Set and View. Views and their tombstones are immutable.
//
// FORMAT.md describes the stored bytes.
package tombstone
