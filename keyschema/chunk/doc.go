// Package chunk packs the samples of one series and hour into a cell, and folds the cells of a row into columns.
//
// A chunk holds 1 to 3.6 million samples bit by bit: any NaN payload, infinities, −0 and denormals, at any strictly
// ascending milliseconds of the hour. Values become whole numbers with one decimal exponent where that is exact, else
// bit patterns; numbers become differences, whichever kind is smallest; these are packed in blocks of 256, in
// fractions of bits where that is smaller, with outliers patched in. Equal intervals cost nothing for
// each sample. FORMAT.md of package keyschema draws all bytes.
//
// [Encoder] and [Decoder] convert columns; [Row] joins single samples and chunks, the later write winning. The package
// knows no series, tables or files, and chunks carry no checksum: what stores them has one.
//
// # Invariants
//
//   - Decoding what was encoded gives the same bits; encoding is deterministic and does not depend on what an Encoder
//     did before.
//   - No bytes make decoding panic. Bytes that are not a chunk give [ErrCorrupt] and leave the caller's columns as they
//     were. Memory is bounded by the input, or by the number of milliseconds in an hour for runs of equal values.
//   - The first byte carries the version; all bytes of a chunk are used.
//
// # Concurrency
//
// Append, Decode and Stat are safe for concurrent use. An Encoder, Decoder or Row belongs to one goroutine at a time.
package chunk
