// Package exemplar encodes exemplars: single ones as records, and all of one series and hour as a list in a cell.
//
// The log and the head hold records. A list stores the times and values of its exemplars as columns and their labels one
// after the other. Label values of lower-case hexadecimal digits, like trace IDs, take half their length. FORMAT.md
// describes all bytes.
//
// Decoding what was encoded gives the same bits. No bytes make decoding panic. For other bytes it returns [ErrCorrupt] with
// the position of the fault. Memory is bounded by a small multiple of the input.
//
// Records are safe for concurrent use. An Encoder or Decoder belongs to one goroutine at a time.
package exemplar
