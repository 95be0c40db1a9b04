// Package compactor turns the single samples of rows into chunks once their hour has closed.
//
// Where samples are acknowledged by the tables, each is a cell of its own: tens of bytes. Some minutes after the end of an
// hour the compactor reads the rows of the hour and replaces their single samples by a chunk, in one conditional mutation a row.
//
// Invariants, for any number of writers and compactors, which may sleep, crash or lose answers at any point:
//
//   - No sample is lost. The mutation removes exactly the cells that the chunk holds, and only if nothing came since the row
//     was read: who writes samples later than [Options.MarkAfter] behind the end of their hour adds a mark to the row in the
//     same mutation, and the condition is that there is no mark and no chunk that was not read. Marks go before, together with
//     a new chunk, so that nobody who read the row without the late samples finds it without mark and chunk.
//   - None is doubled: chunk and deletions are one mutation.
//   - The later write of a sample wins: a chunk takes a number above those of the row's chunks that are left, and a single
//     sample, which wins over chunks, is written after the compactor has read the row or goes into the chunk.
//
// What a writer must do beside the marks: leave a note of the hour (see [Note]), so that the compactor comes; before it has
// acknowledged samples, and again after it has written late ones.
//
// The clocks of all servers may differ by less than [Options.Delay] − [Options.MarkAfter].
package compactor
