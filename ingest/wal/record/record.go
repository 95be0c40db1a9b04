package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kinds of records. The numbers are on disk: they never change, and a number is never reused.
const (
	// KindSeries gives numbers to series; see AppendSeries.
	KindSeries byte = 1
	// KindSamples holds float samples; see SamplesEncoder.
	KindSamples byte = 2
	// KindMetadata describes metrics; see AppendMetadata.
	KindMetadata byte = 3
	// KindHistograms holds native histograms, integer and float; see EncodedEncoder.
	KindHistograms byte = 4
	// KindStartTimes holds start timestamps in milliseconds since 1970 as values; see SamplesEncoder.
	KindStartTimes byte = 5
	// KindExemplars holds exemplars; see EncodedEncoder.
	KindExemplars byte = 6
	// KindDeletion deletes samples of records before it; see AppendDeletion.
	KindDeletion byte = 7
	// KindSeriesColumns also gives numbers to series. SeriesColumns encodes it and SeriesPacker compresses it. Only
	// checkpoints have it.
	KindSeriesColumns byte = 9
)

// BytesMax is the size of the largest record in bytes: a frame stores it in 24 bits.
const BytesMax = 1<<24 - 1

// ErrMalformed reports a payload that does not parse as a record of its kind.
var ErrMalformed = errors.New("malformed record")

func malformed(what string, offset int) error {
	return fmt.Errorf("%w: %s at byte %d of the payload", ErrMalformed, what, offset)
}

// fieldReader reads a payload of varints and length-prefixed strings. After the first error it returns only zero values.
type fieldReader struct {
	rest string
	bad  bool
}

func (r *fieldReader) fail() {
	r.bad, r.rest = true, ""
}

func (r *fieldReader) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		b := r.rest[i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 {
				break
			}
			r.rest = r.rest[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	r.fail()
	return 0
}

// field returns the next string, which aliases the payload.
func (r *fieldReader) field() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fail()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
