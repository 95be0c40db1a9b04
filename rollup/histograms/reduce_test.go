package histograms

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/keyschema/histchunk"
	"halite/storage/storagetest/seeds"
)

// counter makes an integer counter of some observations at schema 3.
func counter(tsMs int64, counts ...int64) histchunk.Sample {
	spans := []histogram.Span{{Offset: -3, Length: uint32(len(counts))}}
	h := &histogram.Histogram{Schema: 3, ZeroThreshold: 1e-9, PositiveSpans: spans}
	before := int64(0)
	for _, n := range counts {
		h.PositiveBuckets = append(h.PositiveBuckets, n-before)
		h.Count, before = h.Count+uint64(n), n
		h.Sum += float64(n)
	}
	return histchunk.Sample{TsMs: tsMs, H: h}
}

func stale(tsMs int64) histchunk.Sample {
	return histchunk.Sample{TsMs: tsMs, H: &histogram.Histogram{Sum: math.Float64frombits(value.StaleNaN)}}
}

func timesOf(samples []histchunk.Sample) (out []int64) {
	for _, s := range samples {
		out = append(out, s.TsMs)
	}
	return out
}

func join(t *testing.T, hours ...[]histchunk.Sample) []histchunk.Sample {
	t.Helper()
	var all []Hour
	for _, samples := range hours {
		h, err := Reduce(samples)
		require.NoError(t, err)
		all = append(all, h)
	}
	out, err := Join(all)
	require.NoError(t, err)
	return out
}

// TestKeptHistograms: the last histogram of an hour, those before resets, the first one of all, and a stale marker at the end.
func TestKeptHistograms(t *testing.T) {
	out := join(t,
		[]histchunk.Sample{counter(1, 5, 5), counter(2, 6, 6), counter(3, 1, 0), counter(4, 9, 9)},
		nil,
		[]histchunk.Sample{stale(10), counter(11, 10, 9), counter(12, 10, 10), stale(13)},
		[]histchunk.Sample{stale(20)},
		// A reset before the first histogram, which the last one has outgrown.
		[]histchunk.Sample{counter(31, 2, 0), counter(32, 20, 20)})
	require.Equal(t, []int64{1, 2, 4, 12, 13, 20, 32}, timesOf(out))
	for i, want := range []histogram.CounterResetHint{
		0, 0, histogram.CounterReset, 0, 0, 0, histogram.CounterReset,
	} {
		require.Equal(t, want, out[i].H.CounterResetHint, "at %d", out[i].TsMs)
		require.LessOrEqual(t, out[i].H.Schema, int32(SchemaMax))
	}
	require.Equal(t, uint64(40), out[6].H.Count)
}

// TestGaugesKeepTheLast: gauges have no resets and keep their hint.
func TestGaugesKeepTheLast(t *testing.T) {
	a, b := counter(1, 5, 5), counter(2, 1, 1)
	a.H.CounterResetHint, b.H.CounterResetHint = histogram.GaugeType, histogram.GaugeType
	out := join(t, []histchunk.Sample{a, b})
	require.Equal(t, []int64{2}, timesOf(out))
	require.Equal(t, histogram.GaugeType, out[0].H.CounterResetHint)
}

// TestResetsAreBounded: a series that resets all the time keeps ResetsMax histograms and the last one.
func TestResetsAreBounded(t *testing.T) {
	var samples []histchunk.Sample
	for i := range int64(100) {
		samples = append(samples, counter(i, 1+i%2, 3))
	}
	out := join(t, samples)
	require.Len(t, out, 1+ResetsMax+1)
	require.Equal(t, int64(99), out[len(out)-1].TsMs)
	require.Equal(t, histogram.CounterReset, out[len(out)-1].H.CounterResetHint)
}

// TestStoredHours: if the previous hour has lost its samples, an hour keeps its first histogram.
func TestStoredHours(t *testing.T) {
	first := join(t, []histchunk.Sample{counter(1, 5, 5), counter(2, 6, 6)})
	second, err := Reduce([]histchunk.Sample{counter(11, 7, 7), counter(12, 8, 8)})
	require.NoError(t, err)
	out, err := Join([]Hour{Stored(first), second})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 11, 12}, timesOf(out))
}

// TestIncreasesStay: between the last histograms of two hours, a counter of floats or integers has grown as its samples have.
func TestIncreasesStay(t *testing.T) {
	rng := seeds.Rand(t, 2)
	for range 200 {
		var hours [][]histchunk.Sample
		var all []histchunk.Sample
		counts := []int64{0, 0, 0, 0, 0}
		for hour := range int64(6) {
			var samples []histchunk.Sample
			for i := range int64(30) {
				if rng.IntN(40) == 0 {
					clear(counts)
				}
				counts[rng.IntN(len(counts))] += rng.Int64N(5)
				s := counter(hour*1000+i, counts...)
				if hour%2 == 1 {
					s = histchunk.Sample{TsMs: s.TsMs, FH: s.H.ToFloat(nil)}
				}
				samples = append(samples, s)
			}
			hours, all = append(hours, samples), append(all, samples...)
		}
		out := join(t, hours...)
		require.InDelta(t, growth(all), growth(out), 1e-9)
		requireNoAlias(t, rng, all, out)
	}
}

// growth is the increase of the count as the engine computes it.
func growth(samples []histchunk.Sample) (sum float64) {
	for i := 1; i < len(samples); i++ {
		before, now := floatOf(&samples[i-1]), floatOf(&samples[i])
		sum += now.Count
		if !now.DetectReset(before) {
			sum -= before.Count
		}
	}
	return sum
}

// requireNoAlias checks that kept histograms share no memory with samples.
func requireNoAlias(t *testing.T, rng *rand.Rand, all, kept []histchunk.Sample) {
	t.Helper()
	before := growth(kept)
	for _, s := range all {
		if s.H != nil {
			s.H.PositiveBuckets[0] += rng.Int64N(100)
			s.H.Count = 0
		}
	}
	require.InDelta(t, before, growth(kept), 0)
}
