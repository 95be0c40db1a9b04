// Package column encodes columns of integers in few bytes. The codecs of chunks, day chunks and rollup cells share it.
//
// [Encoder.Plan] looks at a column and chooses a [Mode], which turns the numbers into small differences. A common divisor
// of the differences is stored once, as the step. Blocks of 256 numbers are then packed, each at its own [Width], which may
// be a fraction of a bit. The few numbers of a block that do not fit its width are exceptions and follow the block. Package
// keyschema describes all bytes in FORMAT.md, sections 3.4 and 3.5.
//
// A column stores neither its length nor its kind byte, except for columns of [TaggedEncoder]. Its caller stores both.
//
// Encoders and decoders belong to one goroutine at a time.
package column
