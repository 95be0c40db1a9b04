// Package compactor turns the single samples of rows into chunks once their hour has closed.
//
// In mode direct each sample is a cell of its own before it is acknowledged, which takes tens of bytes. Some minutes after the
// end of an hour the compactor reads the rows of the hour. One conditional mutation per row replaces its single samples by a
// chunk.
//
// The following holds for any number of writers and compactors, which may pause, crash or lose replies at any point:
//
//   - No sample is lost. The mutation deletes exactly the cells whose samples the chunk holds. It fails if the row has a mark or
//     a chunk that the compactor has not read. A write that comes more than [Options.MarkAfter] after the end of the hour adds
//     a mark to the row in the same mutation. A separate mutation removes marks and adds a new chunk. So a compactor that read
//     the row before the late samples finds a mark or an unknown chunk.
//   - No sample is doubled: one mutation writes the chunk and deletes the samples.
//   - The later write of a sample wins. A new chunk has a higher number than all other chunks left in the row. A single sample
//     wins over chunks. Either it was written after the compactor read the row, or the chunk holds the same value.
//
// A writer also leaves a note of the hour (see [Note]), so that the compactor packs it. It does so before it acknowledges
// the first samples of the hour, and again after it has written late ones.
//
// The clocks of all servers may differ by less than [Options.Delay] − [Options.MarkAfter].
package compactor
