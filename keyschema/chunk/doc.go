// Package chunk packs the samples of one series and hour into a cell, and merges the cells of a row into columns.
//
// A chunk holds 1 to 3.6 million samples bit by bit: any NaN payload, infinities, −0 and denormals, at any strictly
// ascending milliseconds of the hour. Equal intervals cost nothing for each sample. If all values are exact decimals of one
// exponent, they become whole numbers, otherwise bit patterns. Package column packs these numbers. FORMAT.md of package
// keyschema describes all bytes.
//
// [Encoder] and [Decoder] convert columns. [Row] merges single samples and chunks; the later write wins. The package
// knows no series, tables or files. Chunks have no checksum, because the engine has one.
//
// # Invariants
//
//   - Decoding what was encoded gives the same bits; encoding is deterministic and does not depend on what an Encoder
//     did before.
//   - No bytes make decoding panic. For bytes that are not a chunk, it returns [ErrCorrupt] and leaves the caller's
//     columns unchanged. Memory is bounded by the input, or by the number of milliseconds in an hour for runs of equal values.
//   - The first byte carries the version; all bytes of a chunk are used.
//
// # Concurrency
//
// Append, Decode and Stat are safe for concurrent use. An Encoder, Decoder or Row belongs to one goroutine at a time.
package chunk
