// Package column encodes columns of integers in few bytes. The codecs of chunks, day chunks and rollup cells share it.
//
// [Encoder.Plan] analyses a column and chooses a [Mode], which turns the numbers into small differences. The column stores a
// common divisor of the differences once, as the step. Blocks of 256 numbers are packed, each at its own [Width], which may
// be a fraction of a bit. A few numbers of a block may exceed its width. They are exceptions and follow the block. Package
// keyschema describes all bytes in FORMAT.md, sections 3.4 and 3.5.
//
// The caller stores the column's length and its kind byte; only a [TaggedEncoder] stores the kind byte itself.
//
// Encoders and decoders belong to one goroutine at a time.
package column
