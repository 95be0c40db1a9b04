// Package histchunk packs the native histograms of one series and hour into a cell, and single histograms into records.
//
// A [Sample] is a histogram with integer or float counts in the types of Prometheus, and its time. A chunk stores the times
// and sums as a chunk of package chunk does. It splits the samples into groups with one schema, zero threshold and list of
// custom bounds. A group stores spans where they change. Then it stores one column over time for each bucket of any of its
// samples. FORMAT.md describes all bytes.
//
// A record is one histogram without context. The log and the head hold records until a chunk is packed.
//
// # Invariants
//
//   - Decoding what was encoded gives the same bits: reset hints, empty spans, NaN payloads and −0, counts that differ from
//     the sum of the buckets. Empty slices become nil.
//   - No bytes make decoding panic. For bytes that are not a chunk or a record, it returns [ErrCorrupt] with the position
//     of the fault. Memory is bounded by [NumbersMax] for a chunk, and by the length of a record.
//   - The first byte of a chunk carries the version; all bytes of a chunk are used.
//
// # Concurrency
//
// AppendRecord, DecodeRecord and Validate are safe for concurrent use. An Encoder or Decoder belongs to one goroutine at a
// time.
package histchunk
