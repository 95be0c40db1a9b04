// Package compactor turns the single samples of rows into chunks once their hour has closed.
//
// In mode direct each sample is a cell of its own before it is acknowledged, which takes tens of bytes. Some minutes after the
// end of an hour the compactor reads the rows of the hour. One conditional mutation per row replaces its single samples by a
// chunk.
//
// The following holds for any number of writers and compactors, which may sleep, crash or lose answers at any point:
//
//   - No sample is lost. The mutation deletes exactly the cells whose samples the chunk holds, and only if the row has no mark
//     and no chunk that the compactor has not read. A writer of samples that come more than [Options.MarkAfter] after the end
//     of their hour adds a mark to the row in the same mutation. Marks are removed in a mutation of their own that adds a new
//     chunk. So a compactor that read the row before the late samples finds a mark or a chunk that it does not know.
//   - No sample is doubled: one mutation writes the chunk and deletes the samples.
//   - The later write of a sample wins. A chunk has a higher number than all other chunks left in the row. A single sample wins
//     over chunks. It was written after the compactor read the row, or its value is in the chunk.
//
// A writer also leaves a note of the hour (see [Note]), so that the compactor packs it: before it acknowledges the first
// samples of the hour, and again after it has written late ones.
//
// The clocks of all servers may differ by less than [Options.Delay] − [Options.MarkAfter].
package compactor
