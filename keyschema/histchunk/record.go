package histchunk

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// wholeLimit bounds whole numbers that float64 holds exactly.
const wholeLimit = 1 << 53

// AppendRecord appends one histogram that [Validate] accepts. Its size is not stored: DecodeRecord finds the end.
//
//	byte flags, varint time; a stale marker ends here
//	shape; 8 bytes sum
//	uvarint number of positive spans, uvarint number of negative spans, the spans
//	counts: the total, of the zero bucket, of all buckets
//
// Integer counts are a varint of the total minus the sum of the other counts, a uvarint, and varints of the differences
// between buckets. Float counts are eight bytes each, or uvarints if all are whole numbers.
func AppendRecord(dst []byte, s Sample) []byte {
	v := viewOf(&s)
	first := v.flags() | byte(v.hint&hintMask)<<hintShift
	if v.stale {
		first |= flagStale
	} else if v.float && isWhole(s.FH) {
		first |= flagWhole
	}
	dst = binary.AppendVarint(append(dst, first), s.TsMs)
	if v.stale {
		return dst
	}
	dst = appendFloat(v.append(dst), v.sum)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(len(v.positiveSpans))), uint64(len(v.negativeSpans)))
	dst = appendSpans(appendSpans(dst, v.positiveSpans), v.negativeSpans)
	if !v.float {
		return appendIntegers(dst, s.H)
	}
	return appendFloats(dst, s.FH, first&flagWhole != 0)
}

func appendIntegers(dst []byte, h *histogram.Histogram) []byte {
	rest := h.Count - h.ZeroCount - sumOfDeltas(h.PositiveBuckets) - sumOfDeltas(h.NegativeBuckets)
	dst = binary.AppendUvarint(binary.AppendVarint(dst, int64(rest)), h.ZeroCount)
	for _, side := range [2][]int64{h.PositiveBuckets, h.NegativeBuckets} {
		for _, d := range side {
			dst = binary.AppendVarint(dst, d)
		}
	}
	return dst
}

// sumOfDeltas returns the sum of counts modulo 2^64. deltas holds the differences of the counts.
func sumOfDeltas(deltas []int64) (sum uint64) {
	var count uint64
	for _, d := range deltas {
		count += uint64(d)
		sum += count
	}
	return sum
}

func isWhole(h *histogram.FloatHistogram) bool {
	whole := wholeNumber(h.Count) && wholeNumber(h.ZeroCount)
	for _, side := range [2][]float64{h.PositiveBuckets, h.NegativeBuckets} {
		for _, c := range side {
			whole = whole && wholeNumber(c)
		}
	}
	return whole
}

// wholeNumber reports whether v is 0, 1, … 2^53 − 1, and not −0.
func wholeNumber(v float64) bool {
	return v >= 0 && v < wholeLimit && math.Float64bits(float64(uint64(v))) == math.Float64bits(v)
}

func appendFloats(dst []byte, h *histogram.FloatHistogram, whole bool) []byte {
	dst = appendCount(appendCount(dst, h.Count, whole), h.ZeroCount, whole)
	for _, side := range [2][]float64{h.PositiveBuckets, h.NegativeBuckets} {
		for _, c := range side {
			dst = appendCount(dst, c, whole)
		}
	}
	return dst
}

func appendCount(dst []byte, c float64, whole bool) []byte {
	if whole {
		return binary.AppendUvarint(dst, uint64(c))
	}
	return appendFloat(dst, c)
}

// DecodeRecord reads the record at the start of b and returns the bytes after it. s does not refer to b and takes at most a
// few times the memory of the record. An error wraps [ErrCorrupt].
func DecodeRecord(b []byte) (s Sample, rest []byte, err error) {
	r := newReader(b)
	first := r.byte("flags")
	s.TsMs = r.varint("time")
	hint := histogram.CounterResetHint(first >> hintShift & hintMask)
	if first&flagStale != 0 {
		s.setStale(first, hint)
		if rest := first &^ (flagFloat | hintMask<<hintShift); rest != flagStale|thresholdZero<<thresholdShift {
			r.fail("bad flags %#x of a stale marker", first)
		}
		return s, r.src, r.err
	}
	sh := r.shape(first)
	sum := r.float("sum")
	positive, negative := r.count("positive spans", 2), r.count("negative spans", 2)
	if positive+negative > min(len(r.src)/2, BucketsMax) {
		r.fail("%d spans in %d bytes", positive+negative, len(r.src))
	}
	if r.err != nil {
		return Sample{}, nil, r.err
	}
	spans := make([]histogram.Span, positive+negative)
	r.spans(spans)
	positiveSpans, negativeSpans := nonEmpty(spans[:positive:positive]), nonEmpty(spans[positive:])
	positives, negatives := r.buckets(positiveSpans), r.buckets(negativeSpans)
	if n := positives + negatives; n > min(len(r.src), BucketsMax) {
		r.fail("%d buckets in %d bytes", n, len(r.src))
	}
	if r.err != nil {
		return Sample{}, nil, r.err
	}
	if sh.float {
		s.FH = &histogram.FloatHistogram{CounterResetHint: hint, Schema: sh.schema, ZeroThreshold: sh.threshold, Sum: sum,
			PositiveSpans: positiveSpans, NegativeSpans: negativeSpans, CustomValues: sh.custom}
		r.floats(s.FH, positives, negatives, first&flagWhole != 0)
	} else {
		s.H = &histogram.Histogram{CounterResetHint: hint, Schema: sh.schema, ZeroThreshold: sh.threshold, Sum: sum,
			PositiveSpans: positiveSpans, NegativeSpans: negativeSpans, CustomValues: sh.custom}
		if first&flagWhole != 0 {
			r.fail("bad flags %#x of an integer histogram", first)
		}
		r.integers(s.H, positives, negatives)
	}
	if r.err != nil {
		return Sample{}, nil, r.err
	}
	return s, r.src, nil
}

// setStale makes s a stale marker.
func (s *Sample) setStale(first byte, hint histogram.CounterResetHint) {
	stale := math.Float64frombits(value.StaleNaN)
	if first&flagFloat != 0 {
		s.FH = &histogram.FloatHistogram{CounterResetHint: hint, Sum: stale}
	} else {
		s.H = &histogram.Histogram{CounterResetHint: hint, Sum: stale}
	}
}

// nonEmpty returns s, or nil if it is empty.
func nonEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

func (r *reader) integers(h *histogram.Histogram, positives, negatives int) {
	rest := uint64(r.varint("count"))
	h.ZeroCount = r.uvarint("zero count")
	counts := make([]int64, positives+negatives)
	for i := range counts {
		counts[i] = r.varint("count of a bucket")
	}
	h.PositiveBuckets, h.NegativeBuckets = nonEmpty(counts[:positives:positives]), nonEmpty(counts[positives:])
	h.Count = rest + h.ZeroCount + sumOfDeltas(h.PositiveBuckets) + sumOfDeltas(h.NegativeBuckets)
}

func (r *reader) floats(h *histogram.FloatHistogram, positives, negatives int, whole bool) {
	h.Count, h.ZeroCount = r.floatCount(whole), r.floatCount(whole)
	counts := make([]float64, positives+negatives)
	for i := range counts {
		counts[i] = r.floatCount(whole)
	}
	h.PositiveBuckets, h.NegativeBuckets = nonEmpty(counts[:positives:positives]), nonEmpty(counts[positives:])
}

func (r *reader) floatCount(whole bool) float64 {
	if !whole {
		return r.float("count")
	}
	n := r.uvarint("count")
	if n >= wholeLimit {
		r.fail("count %d is too large for a float", n)
	}
	return float64(n)
}
