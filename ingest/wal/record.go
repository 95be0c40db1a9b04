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
	// Kinds 4 (native histograms), 5 (float histograms), 6 (exemplars) and 7 (deletions) are spoken for.
	kindReservedFirst, kindReservedLast = 4, 7
	// KindMax is the highest kind that Append takes; those above are the log's own.
	KindMax byte = 0xef
	// kindEnd ends a checkpoint; its payload is the number of frames before it.
	kindEnd byte = 0xff
)

// stringsReader walks a payload of length-prefixed fields. After the first fault everything it returns is zero.
type stringsReader struct {
	rest []byte
	bad  bool
}

func (r *stringsReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// bytes returns a view into the payload.
func (r *stringsReader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func badRecord(what string, offset int) error {
	return fmt.Errorf("%w: %s at byte %d of the payload", ErrBadRecord, what, offset)
}
