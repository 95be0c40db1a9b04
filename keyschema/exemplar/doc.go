// Package exemplar encodes exemplars: single ones as records, and all exemplars of one series and hour as a list in a cell.
//
// The log and the head hold records. A list stores the times and values of its exemplars as columns, and then their labels.
// Label values of lower-case hexadecimal digits, such as trace IDs, take half their length. FORMAT.md describes all bytes.
//
// Decoding returns the encoded bits. No bytes make decoding panic. For other bytes it returns [ErrCorrupt] with the position
// of the fault. A small multiple of the input bounds the memory.
//
// The functions for records are safe for concurrent use. An Encoder or Decoder belongs to one goroutine at a time.
package exemplar
