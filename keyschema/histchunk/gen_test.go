package histchunk

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"

	"halite/keyschema/chunktest"
)

var schemas = []int32{-9, -4, 0, 3, 8, 9, 52, histogram.CustomBucketsSchema}

// oddFloat returns a float that a careless codec loses, or a plain one.
func oddFloat(r *rand.Rand) float64 {
	switch r.IntN(4) {
	case 0:
		return math.Float64frombits(chunktest.OddValues[r.IntN(len(chunktest.OddValues))])
	case 1:
		return float64(r.IntN(1000)) / 8
	case 2:
		return float64(r.IntN(100_000))
	default:
		return r.NormFloat64()
	}
}

// randomSpans returns spans, some of them empty, and their number of buckets.
func randomSpans(r *rand.Rand) (spans []histogram.Span, buckets int) {
	for i := range r.IntN(4) {
		s := histogram.Span{Offset: int32(r.IntN(20)), Length: uint32(r.IntN(6))}
		if i == 0 {
			s.Offset -= 10
		}
		if r.IntN(50) == 0 {
			s.Offset = math.MaxInt32
		}
		spans, buckets = append(spans, s), buckets+int(s.Length)
	}
	return spans, buckets
}

// randomLayout returns a histogram with random spans, schema and threshold and without counts.
func randomLayout(r *rand.Rand) histogram.FloatHistogram {
	h := histogram.FloatHistogram{Schema: schemas[r.IntN(len(schemas))], ZeroThreshold: usualThreshold}
	if r.IntN(3) == 0 {
		h.ZeroThreshold = oddFloat(r)
	}
	var n int
	h.PositiveSpans, n = randomSpans(r)
	h.PositiveBuckets = make([]float64, n)
	h.NegativeSpans, n = randomSpans(r)
	h.NegativeBuckets = make([]float64, n)
	if h.Schema == histogram.CustomBucketsSchema || r.IntN(20) == 0 {
		for range 1 + r.IntN(8) {
			h.CustomValues = append(h.CustomValues, oddFloat(r))
		}
	}
	return h
}

// randomSample changes h a little and returns it as a sample.
func randomSample(r *rand.Rand, h *histogram.FloatHistogram, float bool, mode int) Sample {
	hint := histogram.CounterResetHint(0)
	if r.IntN(3) == 0 {
		hint = histogram.CounterResetHint(r.IntN(4))
	}
	if r.IntN(20) == 0 {
		if stale := math.Float64frombits(value.StaleNaN); float {
			return Sample{FH: &histogram.FloatHistogram{Sum: stale, CounterResetHint: hint}}
		} else {
			return Sample{H: &histogram.Histogram{Sum: stale, CounterResetHint: hint}}
		}
	}
	if r.IntN(10) == 0 {
		length := len(h.PositiveSpans)
		if length > 0 && r.IntN(4) > 0 { // one bucket more
			h.PositiveSpans = append([]histogram.Span(nil), h.PositiveSpans...)
			h.PositiveSpans[r.IntN(length)].Length++
			h.PositiveBuckets = append(h.PositiveBuckets, 0)
		} else {
			*h = randomLayout(r)
		}
	}
	if !float {
		return Sample{H: randomInteger(r, h, hint, mode)}
	}
	c := h.Copy()
	c.ZeroThreshold, c.NegativeSpans, c.CustomValues = h.ZeroThreshold, h.NegativeSpans, h.CustomValues // Copy drops some
	c.NegativeBuckets = append([]float64(nil), h.NegativeBuckets...)
	c.CounterResetHint, c.ZeroCount, c.Count, c.Sum = hint, oddFloat(r), oddFloat(r), oddFloat(r)
	for _, side := range [2][]float64{c.PositiveBuckets, c.NegativeBuckets} {
		for i := range side {
			if side[i] = float64(r.IntN(1000)); mode > 0 {
				side[i] = oddFloat(r)
			}
		}
	}
	if mode == 0 {
		c.ZeroCount, c.Count = 3, sumOfFloats(sumOfFloats(3, c.PositiveBuckets), c.NegativeBuckets)
	}
	return Sample{FH: c}
}

func randomInteger(r *rand.Rand, h *histogram.FloatHistogram, hint histogram.CounterResetHint, mode int) *histogram.Histogram {
	c := &histogram.Histogram{CounterResetHint: hint, Schema: h.Schema, ZeroThreshold: h.ZeroThreshold, Sum: oddFloat(r),
		PositiveSpans: h.PositiveSpans, NegativeSpans: h.NegativeSpans, CustomValues: h.CustomValues,
		PositiveBuckets: make([]int64, len(h.PositiveBuckets)), NegativeBuckets: make([]int64, len(h.NegativeBuckets))}
	if mode == 2 {
		c.Count, c.ZeroCount = r.Uint64(), r.Uint64()
	}
	for _, side := range [2][]int64{c.PositiveBuckets, c.NegativeBuckets} {
		for i := range side {
			if side[i] = r.Int64N(1000) - 500; mode == 2 {
				side[i] = int64(r.Uint64())
			}
		}
	}
	if mode == 0 {
		c.Count = sumOfDeltas(c.PositiveBuckets) + sumOfDeltas(c.NegativeBuckets)
	}
	return c
}

// randomSamples returns samples of one hour.
func randomSamples(r *rand.Rand, hourStartMs int64, n int) []Sample {
	h, float, mode := randomLayout(r), r.IntN(2) == 0, r.IntN(3)
	samples := make([]Sample, 0, n)
	for _, ts := range chunktest.RandomTimes(r, hourStartMs, n) {
		if r.IntN(100) == 0 {
			float = !float
		}
		s := randomSample(r, &h, float, mode)
		s.TsMs = ts
		samples = append(samples, s)
	}
	return samples
}

// text formats a sample so that equal texts mean equal bits: floats are bit patterns, and empty slices are nil.
type text struct {
	tsMs                        int64
	float                       bool
	hint                        histogram.CounterResetHint
	schema                      int32
	threshold, zero, count, sum uint64
	positive, negative          []histogram.Span
	counts, custom              []uint64
	positives                   int
}

func textOf(s Sample) text {
	v := viewOf(&s)
	out := text{tsMs: s.TsMs, float: v.float, hint: v.hint, schema: v.schema, threshold: math.Float64bits(v.threshold),
		sum: math.Float64bits(v.sum), positive: nonEmpty(v.positiveSpans), negative: nonEmpty(v.negativeSpans),
		positives: v.positiveBuckets}
	for _, bound := range v.custom {
		out.custom = append(out.custom, math.Float64bits(bound))
	}
	if s.H != nil {
		out.zero, out.count = s.H.ZeroCount, s.H.Count
		for _, side := range [2][]int64{s.H.PositiveBuckets, s.H.NegativeBuckets} {
			for _, d := range side {
				out.counts = append(out.counts, uint64(d))
			}
		}
		return out
	}
	out.zero, out.count = math.Float64bits(s.FH.ZeroCount), math.Float64bits(s.FH.Count)
	for _, side := range [2][]float64{s.FH.PositiveBuckets, s.FH.NegativeBuckets} {
		for _, c := range side {
			out.counts = append(out.counts, math.Float64bits(c))
		}
	}
	return out
}

func textsOf(samples []Sample) (out []text) {
	for _, s := range samples {
		out = append(out, textOf(s))
	}
	return out
}

// seedSamples are samples with which fuzzing starts.
func seedSamples(t testing.TB) (out [][]Sample) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		out = append(out, randomSamples(r, 0, 1+r.IntN(20)))
	}
	return out
}
