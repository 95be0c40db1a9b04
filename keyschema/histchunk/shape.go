package histchunk

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
)

// The first byte of a record or group.
const (
	flagFloat      = 0x01
	hintShift      = 1 // bits 1–2: the reset hint; records only
	hintMask       = 0x03
	flagStale      = 0x08 // records only: a stale marker; the record ends after its time
	flagWhole      = 0x10 // records only: all counts of a float histogram are whole numbers
	thresholdShift = 5    // bits 5–6: the zero threshold
	thresholdMask  = 0x03
	flagCustom     = 0x80 // custom bounds follow

	recordFlags = flagStale | flagWhole | hintMask<<hintShift
)

// The codes of zero thresholds.
const (
	thresholdUsual = 0 // 2^−128, the default of Prometheus's clients
	thresholdZero  = 1
	thresholdBits  = 2 // eight bytes follow

	usualThreshold = 0x1p-128
	boundScale     = 1000
	boundMax       = 1 << 32
)

// flags returns the bits of the first byte that describe the shape.
func (s *shape) flags() byte {
	flags := byte(thresholdBits) << thresholdShift
	switch math.Float64bits(s.threshold) {
	case 0:
		flags = thresholdZero << thresholdShift
	case math.Float64bits(usualThreshold):
		flags = thresholdUsual << thresholdShift
	}
	if s.float {
		flags |= flagFloat
	}
	if len(s.custom) > 0 {
		flags |= flagCustom
	}
	return flags
}

// append appends the parts of the shape that the flags do not encode.
//
//	varint schema; 8 bytes zero threshold, if it has no code; uvarint number of custom bounds and the bounds, if any
func (s *shape) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, int64(s.schema))
	if s.flags()>>thresholdShift&thresholdMask == thresholdBits {
		dst = appendFloat(dst, s.threshold)
	}
	if len(s.custom) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.custom)))
	for _, bound := range s.custom {
		dst = appendBound(dst, bound)
	}
	return dst
}

// appendBound appends a custom bound. If it is a whole number of thousandths, it appends that number plus 1 as a
// uvarint. Otherwise it appends 0 and the bits.
func appendBound(dst []byte, bound float64) []byte {
	if m := math.RoundToEven(bound * boundScale); m >= 0 && m < boundMax {
		if n := uint64(m); math.Float64bits(float64(n)/boundScale) == math.Float64bits(bound) {
			return binary.AppendUvarint(dst, n+1)
		}
	}
	return appendFloat(append(dst, 0), bound)
}

func appendFloat(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// shape reads a shape. The first byte holds its flags.
func (r *reader) shape(first byte) (s shape) {
	s.float = first&flagFloat != 0
	schema := r.varint("schema")
	if int64(int32(schema)) != schema || !histogram.IsKnownSchema(int32(schema)) {
		r.fail("schema %d is unknown", schema)
	}
	s.schema = int32(schema)
	switch first >> thresholdShift & thresholdMask {
	case thresholdUsual:
		s.threshold = usualThreshold
	case thresholdZero:
	case thresholdBits:
		s.threshold = r.float("zero threshold")
	default:
		r.fail("bad code of the zero threshold")
	}
	if first&flagCustom == 0 {
		return s
	}
	n := r.count("custom bounds", 1)
	if r.charge(uint64(n)); r.err != nil || n == 0 {
		r.fail("no custom bounds")
		return s
	}
	s.custom = make([]float64, n)
	for i := range s.custom {
		if m := r.uvarint("custom bound"); m > 0 {
			s.custom[i] = float64(m-1) / boundScale
		} else {
			s.custom[i] = r.float("custom bound")
		}
	}
	return s
}

// A list of spans has a varint offset and a uvarint length for each span.
func appendSpans(dst []byte, spans []histogram.Span) []byte {
	for _, s := range spans {
		dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(s.Offset)), uint64(s.Length))
	}
	return dst
}

// spans reads len(out) spans.
func (r *reader) spans(out []histogram.Span) {
	for i := range out {
		offset, length := r.varint("offset of a span"), r.uvarint("length of a span")
		if int64(int32(offset)) != offset || length > BucketsMax {
			r.fail("span of %d buckets at offset %d", length, offset)
			return
		}
		out[i] = histogram.Span{Offset: int32(offset), Length: uint32(length)}
	}
}

// buckets returns the number of buckets of spans. Only the first offset may be negative.
func (r *reader) buckets(spans []histogram.Span) int {
	n := 0
	for i, s := range spans {
		if n += int(s.Length); n > BucketsMax || i > 0 && s.Offset < 0 {
			r.fail("span number %d of %d buckets at offset %d", i+1, s.Length, s.Offset)
			return 0
		}
	}
	return n
}
