package chunk

import "sync"

// Info describes a chunk without its values.
type Info struct {
	// Count is the number of samples, at least 1.
	Count int
	// FirstMs and LastMs are the timestamps of the first and last sample.
	FirstMs, LastMs int64
}

// The pools hold scratch space only.
var (
	encoders = sync.Pool{New: func() any { return new(Encoder) }}
	decoders = sync.Pool{New: func() any { return new(Decoder) }}
)

// Append is [Encoder.Append] with a pooled Encoder. It is safe for concurrent use.
func Append(dst []byte, hourStartMs int64, tsMs []int64, values []float64) ([]byte, error) {
	e := encoders.Get().(*Encoder)
	defer encoders.Put(e)
	return e.Append(dst, hourStartMs, tsMs, values)
}

// Decode is [Decoder.Decode] with a pooled Decoder. It is safe for concurrent use.
func Decode(src []byte, hourStartMs int64, tsMs []int64, values []float64) ([]int64, []float64, error) {
	d := decoders.Get().(*Decoder)
	defer decoders.Put(d)
	return d.Decode(src, hourStartMs, tsMs, values)
}
