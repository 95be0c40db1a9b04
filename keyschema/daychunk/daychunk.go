package daychunk

import "sync"

// Format names the format that [Append] writes. A store records the name with its day chunks.
const Format = "halite.daychunk.1"

// The first byte of a day chunk.
const (
	flagVerbatim     = 0x01 // some values are not chunks: a bitmap says which
	flagTimeHeaders  = 0x02 // there are several time headers
	flagValueHeaders = 0x04 // there are several value headers
	flagExceptions   = 0x08 // a bitmap says in which chunks the first block has exceptions
	flagScaled       = 0x10 // references are in units of the finest exponent, not divided by steps
	flagPredicted    = 0x20 // references are distances from the predictions by slopes and widths
	flagSlopeNumbers = 0x40 // slopes are stored by their numbers
	flagPlain        = 0x80 // all values are verbatim: the lengths of all but the last value follow, then the values

	headersMax = 255
	nibbleStep = 0x08 // in the four bits of a column: the column has a step
)

// The pool holds scratch space only.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// Append appends one day chunk of the values. A [Decoder] returns identical bytes. The values may be any bytes, but only the
// ordered chunks of consecutive hours of one series become smaller. Append is safe for concurrent use.
func Append(dst []byte, values [][]byte) []byte {
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	return e.append(dst, values)
}
