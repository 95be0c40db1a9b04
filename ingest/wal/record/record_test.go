package record

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

func randomSamples(rng *rand.Rand, count int) []Sample {
	samples := make([]Sample, count)
	ref, tsMs := rng.Uint32(), rng.Int64()
	for i := range samples {
		switch rng.IntN(4) {
		case 0:
			ref, tsMs = rng.Uint32(), int64(rng.Uint64())
		case 1:
			ref++
		default:
			ref++
			tsMs += int64(rng.IntN(200)) - 100
		}
		samples[i] = Sample{ref, tsMs, math.Float64frombits(rng.Uint64())}
	}
	return samples
}

// sameSamples compares bit by bit: NaN payloads and the sign of zero count.
func sameSamples(t testing.TB, want, got []Sample) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Ref, got[i].Ref)
		require.Equal(t, want[i].TsMs, got[i].TsMs)
		require.Equal(t, math.Float64bits(want[i].Value), math.Float64bits(got[i].Value))
	}
}

func TestSamplesRoundTrip(t *testing.T) {
	edges := []Sample{
		{0, 0, 0}, {math.MaxUint32, math.MaxInt64, math.Inf(1)}, {0, math.MinInt64, math.Copysign(0, -1)},
		{1, math.MaxInt64, math.Float64frombits(0x7ff0000000000002)}, {math.MaxUint32, -1, math.NaN()},
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		samples := append(randomSamples(rng, rng.IntN(50)), edges[:rng.IntN(len(edges)+1)]...)
		prefix := make([]byte, rng.IntN(5))
		b := AppendSamples(prefix, samples)
		got, err := DecodeSamples(nil, b[len(prefix):])
		require.NoError(t, err, "seed %d", seed)
		sameSamples(t, samples, got)
		for cut := range len(b) - len(prefix) {
			_, err := DecodeSamples(nil, b[len(prefix):len(prefix)+cut])
			require.ErrorIs(t, err, ErrMalformed, "seed %d, %d bytes", seed, cut)
		}
		_, err = DecodeSamples(nil, append(b[len(prefix):], 0))
		require.ErrorIs(t, err, ErrMalformed, "seed %d", seed)
	}
}

func TestSamplesTakeTenBytes(t *testing.T) {
	var e SamplesEncoder
	e.Reset(nil)
	for i := range 2000 {
		e.Add(uint32(5000+i), 1_700_000_000_000, float64(i))
	}
	require.InDelta(t, 10, float64(e.Len())/2000, 0.02)
}

func TestSamplesDoNotAllocate(t *testing.T) {
	payload := AppendSamples(nil, randomSamples(rand.New(rand.NewPCG(1, 1)), 1000))
	buf := make([]byte, 0, len(payload)+64)
	samples, err := DecodeSamples(nil, payload)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for it := ReadSamples(payload); it.Next(); {
			_ = it.Value
		}
		buf = AppendSamples(buf[:0], samples)
	}))
}

func TestSamplesCountIsNotTrusted(t *testing.T) {
	_, err := DecodeSamples(nil, []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	require.ErrorIs(t, err, ErrMalformed)
	it := ReadSamples([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	require.Zero(t, it.Left())
}

type seriesRecord struct {
	ref uint32
	ls  labels.Labels
}

func parseAllSeries(payload []byte) (got []seriesRecord, err error) {
	err = ParseSeries(payload, func(ref uint32, ls []labels.Label) error {
		got = append(got, seriesRecord{ref, labels.New(ls...)})
		return nil
	})
	return got, err
}

func TestSeriesRoundTrip(t *testing.T) {
	want := []seriesRecord{
		{1, labels.FromStrings("__name__", "up", "instance", "a:9090", "job", "x")},
		{math.MaxUint32, labels.FromStrings("__name__", "größe", "empty\x00", "")},
		{7, labels.EmptyLabels()},
	}
	var b []byte
	for _, s := range want {
		b = AppendSeries(b, s.ref, s.ls)
	}
	got, err := parseAllSeries(b)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].ref, got[i].ref)
		require.True(t, labels.Equal(want[i].ls, got[i].ls), "%s", got[i].ls)
	}
	for i := range b {
		b[i] = 0xff
	}
	require.Equal(t, "up", got[0].ls.Get("__name__"), "the labels must not alias the payload")

	unsorted := []byte{1, 2, 1, 'b', 0, 1, 'a', 0}
	twice := []byte{1, 2, 1, 'a', 0, 1, 'a', 0}
	hugeRef := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 1, 0}
	for _, bad := range [][]byte{unsorted, twice, hugeRef, {1}, {1, 1}, {1, 1, 5, 'a'}, {0x80}} {
		_, err := parseAllSeries(bad)
		require.ErrorIs(t, err, ErrMalformed, "%v", bad)
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	want := []Metadata{{"up", "gauge", "Is it up?", ""}, {"", "", "", ""}, {"b", "counter", "line\nbreak", "bytes"}}
	var b []byte
	for _, m := range want {
		b = AppendMetadata(b, m)
	}
	var got []Metadata
	require.NoError(t, ParseMetadata(b, func(m Metadata) error { got = append(got, m); return nil }))
	require.Equal(t, want, got)
	require.ErrorIs(t, ParseMetadata(b[:len(b)-1], func(Metadata) error { return nil }), ErrMalformed)
}
