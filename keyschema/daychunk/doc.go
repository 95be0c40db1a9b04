// Package daychunk packs the chunks of one series and day into one value. The chunks of consecutive hours have nearly the
// same headers. So a day chunk stores the headers as columns, and each body unchanged.
//
// [Append] packs values. [Decoder] returns the exact bytes of any value. Values may be any bytes: a value that is not a
// chunk is stored verbatim. FORMAT.md of package keyschema describes the bytes in section 4. Package chunk splits chunks
// into headers and bodies; package column packs the columns of headers.
//
// # Invariants
//
//   - Unpacking returns the identical bytes. Append checks each day chunk that it makes.
//   - A day chunk is never larger than its values and their lengths.
//   - No bytes make decoding panic. Allocations are bounded by the number of values and the length of the input.
//
// # Concurrency
//
// Append is safe for concurrent use. A Decoder belongs to one goroutine at a time.
package daychunk
