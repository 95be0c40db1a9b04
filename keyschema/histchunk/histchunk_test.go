package histchunk

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
)

const testHourMs = 1_700_000_000_000 / 3_600_000 * 3_600_000

// checkChunk encodes samples and compares what is decoded bit by bit.
func checkChunk(t testing.TB, e *Encoder, d *Decoder, hourStartMs int64, samples []Sample) []byte {
	t.Helper()
	prefix := []byte("before")
	encoded, err := e.Append(prefix, hourStartMs, samples)
	require.NoError(t, err)
	require.Equal(t, "before", string(encoded[:len(prefix)]))
	encoded = encoded[len(prefix):]
	got, err := d.Decode(encoded, hourStartMs, []Sample{{TsMs: 7}})
	require.NoError(t, err)
	require.Equal(t, textsOf(samples), textsOf(got[1:]))
	info, err := d.Stat(encoded, hourStartMs)
	require.NoError(t, err)
	require.Equal(t, len(samples), info.Count)
	require.Equal(t, samples[0].TsMs, info.FirstMs)
	require.Equal(t, samples[len(samples)-1].TsMs, info.LastMs)
	return encoded
}

func TestChunkRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	var e Encoder
	var d Decoder
	for range 400 {
		n := []int{1, 2, 3, 16, 60, 240, 300}[r.IntN(7)]
		samples := randomSamples(r, testHourMs, n)
		encoded := checkChunk(t, &e, &d, testHourMs, samples)
		again, err := new(Encoder).Append(nil, testHourMs, samples)
		require.NoError(t, err)
		require.Equal(t, again, encoded, "encoding depends on what the encoder did before")
	}
}

func TestRecordRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	for range 100 {
		samples := randomSamples(r, testHourMs, 50)
		var encoded []byte
		for _, s := range samples {
			encoded = AppendRecord(encoded, s)
		}
		for _, want := range samples {
			s, rest, err := DecodeRecord(encoded)
			require.NoError(t, err)
			require.Equal(t, textOf(want), textOf(s))
			encoded = rest
		}
		require.Empty(t, encoded)
	}
}

// TestDamaged cuts chunks and records off and changes their bytes. Nothing panics, and each error names a byte.
func TestDamaged(t *testing.T) {
	r := chunktest.NewRand(t)
	var e Encoder
	var d Decoder
	check := func(err error) {
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Contains(t, err.Error(), "byte ")
		}
	}
	for range 40 {
		samples := randomSamples(r, 0, 1+r.IntN(30))
		encoded, err := e.Append(nil, 0, samples)
		require.NoError(t, err)
		record := AppendRecord(nil, samples[0])
		for n := range encoded {
			_, err := d.Decode(encoded[:n], 0, nil)
			require.ErrorIs(t, err, ErrCorrupt, "%d bytes of %d", n, len(encoded))
			check(err)
			damaged := append([]byte(nil), encoded...)
			damaged[n] ^= 1 << r.IntN(8)
			_, err = d.Decode(damaged, 0, nil)
			check(err)
		}
		for n := range record {
			_, _, err := DecodeRecord(record[:n])
			require.ErrorIs(t, err, ErrCorrupt, "%d bytes of %d", n, len(record))
			check(err)
			damaged := append([]byte(nil), record...)
			damaged[n] ^= 1 << r.IntN(8)
			_, _, err = DecodeRecord(damaged)
			check(err)
		}
		_, err = d.Decode(append(encoded, 0), 0, nil)
		require.ErrorContains(t, err, "1 trailing bytes")
	}
	_, err := d.Decode([]byte{2}, 0, nil)
	require.EqualError(t, err, "corrupt encoding: byte 0: version 2 is unknown")
}

func TestBadSamples(t *testing.T) {
	plain := func() *histogram.Histogram {
		return &histogram.Histogram{Count: 3, PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []int64{1, 1}}
	}
	one := plain()
	for name, c := range map[string]struct {
		samples []Sample
		err     string
	}{
		"none":       {nil, "0 timestamps"},
		"no kind":    {[]Sample{{}}, "sample 0 must have exactly one histogram"},
		"both kinds": {[]Sample{{H: one, FH: &histogram.FloatHistogram{}}}, "sample 0 must have exactly one histogram"},
		"hour":       {[]Sample{{TsMs: 3_600_000, H: one}}, "outside the hour"},
		"order":      {[]Sample{{TsMs: 5, H: one}, {TsMs: 5, H: one}}, "is not above its predecessor"},
		"schema":     {[]Sample{{H: &histogram.Histogram{Schema: 53}}}, "got schema 53"},
		"hint":       {[]Sample{{H: &histogram.Histogram{CounterResetHint: 4}}}, "counter reset hint 4"},
		"buckets":    {[]Sample{{H: &histogram.Histogram{PositiveBuckets: []int64{1}}}}, "spans need 0 buckets, have 1"},
		"second":     {[]Sample{{H: one}, {TsMs: 1, H: &histogram.Histogram{Schema: -10}}}, "sample at 1: "},
	} {
		var e Encoder
		dst, err := e.Append([]byte("x"), 0, c.samples)
		require.ErrorIs(t, err, ErrBadSamples, name)
		require.ErrorContains(t, err, c.err, name)
		require.Equal(t, "x", string(dst), name)
	}
}

// TestLimits checks that the largest histograms fit, and that encoder and decoder refuse the same chunks.
func TestLimits(t *testing.T) {
	large := &histogram.Histogram{Count: BucketsMax, PositiveSpans: []histogram.Span{{Length: BucketsMax}},
		PositiveBuckets: make([]int64, BucketsMax)}
	large.PositiveBuckets[0] = 1
	var samples []Sample
	for i := range int64(240) {
		samples = append(samples, Sample{TsMs: i * 15_000, H: large})
	}
	require.NoError(t, Validate(samples[0]))
	var e Encoder
	var d Decoder
	encoded, err := e.Append(nil, 0, samples)
	require.NoError(t, err)
	got, err := d.Decode(encoded, 0, nil)
	require.NoError(t, err)
	require.Equal(t, large, got[239].H)

	for i := range int64(60) {
		samples = append(samples, Sample{TsMs: 3_590_000 + i, H: large})
	}
	_, err = e.Append(nil, 0, samples)
	require.ErrorIs(t, err, ErrTooLarge)

	wide := &histogram.Histogram{PositiveSpans: []histogram.Span{{Length: BucketsMax + 1}},
		PositiveBuckets: make([]int64, BucketsMax+1)}
	require.ErrorContains(t, Validate(Sample{H: wide}), "65537 buckets, at most 65536")
	_, _, err = DecodeRecord(AppendRecord(nil, Sample{H: wide}))
	require.ErrorIs(t, err, ErrCorrupt)
}

// TestValidate compares Validate with Prometheus's rules, and checks the contents of the errors.
func TestValidate(t *testing.T) {
	r := chunktest.NewRand(t)
	accepted := 0
	for range 10_000 {
		h := randomLayout(r)
		s := randomSample(r, &h, r.IntN(2) == 0, r.IntN(3))
		v := viewOf(&s)
		if !histogram.IsValidSchema(v.schema) {
			continue
		}
		var want error
		if s.H != nil {
			want = s.H.Validate()
		} else {
			want = s.FH.Validate()
		}
		got := Validate(s)
		require.Equal(t, want == nil, got == nil, "Prometheus: %v, we: %v", want, got)
		if got == nil {
			accepted++
		}
	}
	require.Greater(t, accepted, 500)
	custom := func(bounds ...float64) *histogram.Histogram {
		return &histogram.Histogram{Schema: -53, CustomValues: bounds}
	}
	for want, h := range map[string]*histogram.Histogram{
		"got schema 53":                  {Schema: 53},
		"got schema -10":                 {Schema: -10},
		"got schema -54":                 {Schema: -54},
		"must be finite":                 custom(1, math.Inf(1)),
		"strictly increasing":            custom(1, 1),
		"must not be NaN":                custom(math.NaN()),
		"zero count of 0":                {Schema: -53, ZeroCount: 1, Count: 1},
		"must not have custom bounds":    {CustomValues: []float64{1}},
		"span number 2 with offset -1":   {PositiveSpans: []histogram.Span{{}, {Offset: -1}}},
		"spans need 1 buckets, have 0":   {PositiveSpans: []histogram.Span{{Length: 1}}},
		"the Count field is 5":           {Count: 5},
		"bucket number 1 has":            {PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{-1}},
		"counter reset hint 7":           {CounterResetHint: 7},
		"positive side: spans need 1":    {Schema: 52, PositiveSpans: []histogram.Span{{Length: 1}}},
		"negative side: spans need 1000": {NegativeSpans: []histogram.Span{{Length: 1000}}},
	} {
		err := Validate(Sample{H: h})
		require.ErrorContains(t, err, want)
		require.NotContains(t, strings.ToLower(err.Error()), "panic")
	}
	require.NoError(t, Validate(Sample{H: &histogram.Histogram{Schema: 52}}))
	require.NoError(t, Validate(Sample{H: &histogram.Histogram{Sum: math.NaN(), Count: 3}}), "NaN observations")
	require.Error(t, Validate(Sample{}))
}
