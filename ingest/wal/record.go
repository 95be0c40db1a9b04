package wal

import (
	"encoding/binary"
	"fmt"
)

// Kinds of payload. The numbers are on disk: they never change and are never given to anything else.
const (
	// KindSeries gives series their numbers: see AppendSeries.
	KindSeries byte = 1
	// KindSamples holds float samples: see SamplesEncoder.
	KindSamples byte = 2
	// KindMetadata describes metrics: see AppendMetadata.
	KindMetadata byte = 3
	// KindPackedSeries is a KindSeries payload compressed by SeriesPacker; former checkpoints have it.
	KindPackedSeries byte = 8
	// KindSeriesColumns is what SeriesColumns makes, compressed by SeriesPacker, for checkpoints.
	KindSeriesColumns byte = 9
	// KindDeletion takes samples back: see AppendDeletion.
	KindDeletion byte = 7
	// Kinds 4 (native histograms), 5 (float histograms) and 6 (exemplars) are spoken for.

	// KindMax is the highest kind that Append takes; those above are the log's own.
	KindMax byte = 0xef
	// kindEnd ends a checkpoint; its payload is the number of frames before it.
	kindEnd byte = 0xff
)

// fieldReader walks a payload of varints and length-prefixed strings. After the first fault all it returns is zero.
type fieldReader struct {
	rest string
	bad  bool
}

func (r *fieldReader) fault() {
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
	r.fault()
	return 0
}

// field returns the next string, a view into the payload.
func (r *fieldReader) field() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.fault()
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func badRecord(what string, offset int) error {
	return fmt.Errorf("%w: %s at byte %d of the payload", ErrBadRecord, what, offset)
}
