package remotewrite

import (
	"encoding/binary"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
)

// Field numbers of Histogram, the same in both versions; 1.0 has no start timestamp.
const (
	histogramCount          = 1
	histogramCountFloat     = 2
	histogramSum            = 3
	histogramSchema         = 4
	histogramZeroThreshold  = 5
	histogramZero           = 6
	histogramZeroFloat      = 7
	histogramNegativeSpans  = 8
	histogramNegativeDeltas = 9
	histogramNegativeCounts = 10
	histogramPositiveSpans  = 11
	histogramPositiveDeltas = 12
	histogramPositiveCounts = 13
	histogramResetHint      = 14
	histogramTime           = 15
	histogramCustomValues   = 16
	histogramStart          = 17

	spanOffset = 1
	spanLength = 2
)

// histogramMessage holds the fields of a Histogram message. The last field of a oneof wins.
type histogramMessage struct {
	tsMs, startMs                  int64
	count, zero                    uint64
	countFloat, zeroFloat          float64
	isFloat                        bool
	sum, zeroThreshold             float64
	schema, resetHint              int32
	negativeSpans, positiveSpans   []histogram.Span
	negativeDeltas, positiveDeltas []int64
	negativeCounts, positiveCounts []float64
	customValues                   []float64
	starting                       bool // start timestamps are allowed in the message
}

func (m *histogramMessage) reset(starts bool) {
	*m = histogramMessage{
		starting:      starts,
		negativeSpans: m.negativeSpans[:0], positiveSpans: m.positiveSpans[:0],
		negativeDeltas: m.negativeDeltas[:0], positiveDeltas: m.positiveDeltas[:0],
		negativeCounts: m.negativeCounts[:0], positiveCounts: m.positiveCounts[:0],
		customValues: m.customValues[:0],
	}
}

// histogramDecoder decodes the histograms of a series into slices that the next series reuses.
type histogramDecoder struct {
	message histogramMessage
	ints    []histogram.Histogram
	floats  []histogram.FloatHistogram
	spans   []histogram.Span
	deltas  []int64
	counts  []float64
}

func (d *histogramDecoder) reset() {
	if max(cap(d.ints), cap(d.floats), cap(d.spans), cap(d.deltas), cap(d.counts), cap(d.message.positiveDeltas),
		cap(d.message.negativeDeltas), cap(d.message.positiveCounts), cap(d.message.negativeCounts)) > valuesKeepMax {
		*d = histogramDecoder{}
		return
	}
	d.next()
}

// next begins a series.
func (d *histogramDecoder) next() {
	d.ints, d.floats, d.spans, d.deltas, d.counts = d.ints[:0], d.floats[:0], d.spans[:0], d.deltas[:0], d.counts[:0]
}

// decode reads the Histogram in b[from:to]. starts means that the message may have start timestamps.
func (d *histogramDecoder) decode(b []byte, from, to int, starts bool) (Histogram, error) {
	m := &d.message
	m.reset(starts)
	for pos := from; pos < to; {
		at := pos
		field, wire, next, err := tag(b, pos, to)
		if err != nil {
			return Histogram{}, err
		}
		if field >= histogramNegativeSpans && field != histogramResetHint && field != histogramTime && field <= histogramCustomValues {
			pos, err = m.list(b, field, wire, at, next, to)
		} else {
			pos, err = m.scalar(b, field, wire, at, next, to)
		}
		if err != nil {
			return Histogram{}, err
		}
	}
	return d.build(), nil
}

// scalar reads a field that is not a list.
func (m *histogramMessage) scalar(b []byte, field int32, wire, at, pos, end int) (next int, err error) {
	var v int64
	switch field {
	case histogramCount:
		v, next, err = integer(b, "a histogram's count", wire, at, pos, end)
		m.count, m.isFloat = uint64(v), false
	case histogramCountFloat:
		m.countFloat, next, err = double(b, "a histogram's count", wire, at, pos, end)
		m.isFloat = true
	case histogramSum:
		m.sum, next, err = double(b, "a histogram's sum", wire, at, pos, end)
	case histogramSchema:
		v, next, err = integer(b, "a histogram's schema", wire, at, pos, end)
		m.schema = zigzag32(uint64(v))
	case histogramZeroThreshold:
		m.zeroThreshold, next, err = double(b, "a histogram's zero threshold", wire, at, pos, end)
	case histogramZero:
		v, next, err = integer(b, "a histogram's zero count", wire, at, pos, end)
		m.zero, m.zeroFloat = uint64(v), 0
	case histogramZeroFloat:
		m.zeroFloat, next, err = double(b, "a histogram's zero count", wire, at, pos, end)
		m.zero = 0
	case histogramResetHint:
		v, next, err = integer(b, "a histogram's reset hint", wire, at, pos, end)
		m.resetHint = int32(v)
	case histogramTime:
		m.tsMs, next, err = integer(b, "a histogram's timestamp", wire, at, pos, end)
	case histogramStart:
		if m.starting {
			m.startMs, next, err = integer(b, "a histogram's start timestamp", wire, at, pos, end)
			break
		}
		fallthrough
	default:
		next, err = skip(b, wire, pos, end)
	}
	return next, err
}

// list reads elements of a repeated field.
func (m *histogramMessage) list(b []byte, field int32, wire, at, pos, end int) (next int, err error) {
	switch field {
	case histogramNegativeSpans:
		m.negativeSpans, next, err = appendSpan(m.negativeSpans, b, wire, at, pos, end)
	case histogramPositiveSpans:
		m.positiveSpans, next, err = appendSpan(m.positiveSpans, b, wire, at, pos, end)
	case histogramNegativeDeltas:
		m.negativeDeltas, next, err = appendDeltas(m.negativeDeltas, b, wire, at, pos, end)
	case histogramPositiveDeltas:
		m.positiveDeltas, next, err = appendDeltas(m.positiveDeltas, b, wire, at, pos, end)
	case histogramNegativeCounts:
		m.negativeCounts, next, err = appendDoubles(m.negativeCounts, b, wire, at, pos, end)
	case histogramPositiveCounts:
		m.positiveCounts, next, err = appendDoubles(m.positiveCounts, b, wire, at, pos, end)
	default: // histogramCustomValues
		m.customValues, next, err = appendDoubles(m.customValues, b, wire, at, pos, end)
	}
	return next, err
}

// build makes the histogram of the message. Its slices alias the decoder's slices.
func (d *histogramDecoder) build() Histogram {
	m := &d.message
	h := Histogram{TsMs: m.tsMs, StartMs: m.startMs}
	if m.isFloat {
		d.floats = append(d.floats, histogram.FloatHistogram{
			CounterResetHint: histogram.CounterResetHint(m.resetHint), Schema: m.schema, ZeroThreshold: m.zeroThreshold,
			ZeroCount: m.zeroFloat, Count: m.countFloat, Sum: m.sum,
			PositiveSpans: appendCopy(&d.spans, m.positiveSpans), NegativeSpans: appendCopy(&d.spans, m.negativeSpans),
			PositiveBuckets: appendCopy(&d.counts, m.positiveCounts), NegativeBuckets: appendCopy(&d.counts, m.negativeCounts),
			CustomValues: appendCopy(&d.counts, m.customValues),
		})
		h.FH = &d.floats[len(d.floats)-1]
		return h
	}
	d.ints = append(d.ints, histogram.Histogram{
		CounterResetHint: histogram.CounterResetHint(m.resetHint), Schema: m.schema, ZeroThreshold: m.zeroThreshold,
		ZeroCount: m.zero, Count: m.count, Sum: m.sum,
		PositiveSpans: appendCopy(&d.spans, m.positiveSpans), NegativeSpans: appendCopy(&d.spans, m.negativeSpans),
		PositiveBuckets: appendCopy(&d.deltas, m.positiveDeltas), NegativeBuckets: appendCopy(&d.deltas, m.negativeDeltas),
		CustomValues: appendCopy(&d.counts, m.customValues),
	})
	h.H = &d.ints[len(d.ints)-1]
	return h
}

// appendCopy copies a list into memory that outlives the list. It returns the copy, or nil if the list is empty. When the memory
// grows, earlier copies stay in the old array.
func appendCopy[T any](memory *[]T, list []T) []T {
	if len(list) == 0 {
		return nil
	}
	from := len(*memory)
	*memory = append(*memory, list...)
	return (*memory)[from:len(*memory):len(*memory)]
}

// appendSpan reads one BucketSpan.
func appendSpan(dst []histogram.Span, b []byte, wire, at, pos, end int) ([]histogram.Span, int, error) {
	if err := expectType("a histogram's span", wire, wireBytes, at); err != nil {
		return dst, 0, err
	}
	pos, end, err := lengthDelimited(b, pos, end)
	if err != nil {
		return dst, 0, err
	}
	var s histogram.Span
	for pos < end {
		at := pos
		field, wire, next, err := tag(b, pos, end)
		if err != nil {
			return dst, 0, err
		}
		var v int64
		switch field {
		case spanOffset:
			v, pos, err = integer(b, "a span's offset", wire, at, next, end)
			s.Offset = zigzag32(uint64(v))
		case spanLength:
			v, pos, err = integer(b, "a span's length", wire, at, next, end)
			s.Length = uint32(v)
		default:
			pos, err = skip(b, wire, next, end)
		}
		if err != nil {
			return dst, 0, err
		}
	}
	return append(dst, s), end, nil
}

// appendDeltas reads one or, packed, many values of type sint64. As the generated decoders do, it lets the last packed value
// run over the end of the field.
func appendDeltas(dst []int64, b []byte, wire, at, pos, end int) ([]int64, int, error) {
	pos, to, err := elements(b, "a histogram's bucket", wireVarint, wire, at, pos, end)
	if err != nil {
		return dst, 0, err
	}
	for pos < to {
		v, next, err := uvarint(b, pos, end)
		if err != nil {
			return dst, 0, err
		}
		dst, pos = append(dst, int64(v>>1)^-int64(v&1)), next
	}
	return dst, pos, nil
}

// appendDoubles reads one or, packed, many values of type double, like appendDeltas.
func appendDoubles(dst []float64, b []byte, wire, at, pos, end int) ([]float64, int, error) {
	pos, to, err := elements(b, "a histogram's list of numbers", wireFixed64, wire, at, pos, end)
	if err != nil {
		return dst, 0, err
	}
	for pos < to {
		if end-pos < 8 {
			return dst, 0, formatError(pos, "a histogram's number is cut off")
		}
		dst, pos = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b[pos:]))), pos+8
	}
	return dst, pos, nil
}

// zigzag32 decodes a sint32 as the generated decoders do: from the lowest 32 bits.
func zigzag32(v uint64) int32 {
	u := uint32(v)
	return int32(u>>1) ^ -int32(u&1)
}
