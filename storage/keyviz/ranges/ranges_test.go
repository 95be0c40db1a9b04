package ranges_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage/keyviz/heat"
	"halite/storage/keyviz/ranges"
)

// keyOf is the key of a row of series ref. There are 16 salts of 10 metrics.
func keyOf(ref uint32) string {
	return fmt.Sprintf("metric%d#%02d#instance=%06d#9500000", ref%10, ref/10%16, ref)
}

func newSet(t testing.TB, rangesMax int) (*ranges.Set, *ranges.Series) {
	set, err := ranges.New(ranges.Options{RangesMax: rangesMax, Key: keyOf}, nil)
	require.NoError(t, err)
	return set, ranges.NewSeries(set, func(ref uint32, _ int64) string { return keyOf(ref) })
}

// columns collects drained columns.
type columns []*heat.Column

func (x *columns) add(c *heat.Column) {
	*x = append(*x, &heat.Column{StartMs: c.StartMs, SpanMs: c.SpanMs, Starts: c.Starts, Counts: slices.Clone(c.Counts)})
}

func (x *columns) total() (sum heat.Counts) {
	for _, c := range *x {
		t := c.Total()
		sum.Add(&t, 1)
	}
	return sum
}

func drain(set *ranges.Set) (out columns) {
	set.Drain(out.add)
	return out
}

func discard(*heat.Column) {}

func count(s *ranges.Series, refs []uint32, tsMs int64) {
	b := s.Begin(tsMs, len(refs))
	if b == nil {
		return
	}
	samples := make([]written, len(refs))
	for i, ref := range refs {
		samples[i] = written{Ref: ref, TsMs: tsMs}
	}
	ranges.Add(b, samples)
	b.End()
}

// written is a sample.
type written struct {
	Ref   uint32
	TsMs  int64
	Value float64
}

// TestHotSeriesGetsItsOwnRange: the ranges follow the load, and move when it moves.
func TestHotSeriesGetsItsOwnRange(t *testing.T) {
	set, series := newSet(t, 64)
	all := make([]uint32, 5000)
	for i := range all {
		all[i] = uint32(i)
	}
	for _, hot := range []uint32{4321, 17} {
		load := append(slices.Repeat([]uint32{hot}, 5000), all...)
		for range 12 {
			count(series, load, 600_000)
			var last columns
			set.Divide(last.add)
			require.InDelta(t, len(load), last.total()[heat.WriteCells], 1e-6)
		}
		require.LessOrEqual(t, set.Current().Len(), 64)
		require.Greater(t, set.Current().Len(), 32)
		count(series, load, 600_000)
		c := drain(set)[0]
		at := heat.Find(c.Starts, keyOf(hot))
		require.Less(t, c.Counts[at][heat.WriteCells], 5600.0, "little besides the hot series: %v", c.Starts)
		require.GreaterOrEqual(t, c.Counts[at][heat.WriteCells], 5000.0)
		require.Contains(t, set.Keys(keyOf(hot)), keyOf(hot))
	}
}

// TestNothingIsLost: counts of concurrent requests stay complete while the ranges change.
func TestNothingIsLost(t *testing.T) {
	set, series := newSet(t, 32)
	const writers, requests, samples = 4, 60, 200
	var sum heat.Counts
	add := func(c *heat.Column) { // the set calls it for one column at a time
		got := c.Total()
		sum.Add(&got, 1)
	}
	var writing, dividing sync.WaitGroup
	stop := make(chan struct{})
	dividing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			set.Divide(add)
			if n%3 == 0 {
				set.Renumber()
			}
		}
	})
	for w := range writers {
		writing.Go(func() {
			for n := range requests {
				b := series.Begin(int64(n+1)*30_000, 1000)
				for i := range samples {
					at := int64(n)*30_000 + int64(i%3)*60_000
					ranges.Add(b, []written{{Ref: uint32((w*7919 + n*131 + i*17) % 3000), TsMs: at}})
				}
				b.End()
				work := set.Begin()
				for i := range 10 {
					work.Row([]byte(keyOf(uint32(i*w))), &heat.Counts{heat.ReadRows: 1, heat.ReadBytes: 10})
				}
				work.End(int64(n)*30_000, nil, 1000, n%10 == 0)
			}
		})
	}
	writing.Wait()
	close(stop)
	dividing.Wait()
	set.Drain(add)
	require.InDelta(t, writers*requests*samples, sum[heat.WriteCells], 1e-6)
	require.InDelta(t, writers*requests*10, sum[heat.ReadRows], 1e-6)
	require.InDelta(t, writers*requests*100, sum[heat.ReadBytes], 1e-6)
	require.InDelta(t, writers*requests*1000, sum[heat.ReadNanos], 1e-6)
	require.InDelta(t, writers*requests/10, sum[heat.Errors], 1e-6)
	require.Equal(t, 1000.0, sum[heat.ReadNanosMax])
}

// TestMinutes: samples count for the minute of their timestamps, and samples of the future for the current minute.
func TestMinutes(t *testing.T) {
	set, series := newSet(t, 32)
	b := series.Begin(600_000, 1)
	for _, tsMs := range []int64{0, 59_999, 60_000, 600_000, 999_999} {
		ranges.Add(b, []written{{Ref: 7, TsMs: tsMs}})
	}
	b.End()
	got := map[int64]float64{}
	for _, c := range drain(set) {
		got[c.StartMs] = c.Total()[heat.WriteCells]
	}
	require.Equal(t, map[int64]float64{0: 2, 60_000: 1, 600_000: 2}, got)
	require.Empty(t, drain(set))
}

// TestUnknownSeries: a series without a key counts nothing, and is looked up again.
func TestUnknownSeries(t *testing.T) {
	set, err := ranges.New(ranges.Options{Key: keyOf}, []string{"a", "a", "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"", "a", "b"}, set.Current().Starts())
	known := false
	series := ranges.NewSeries(set, func(ref uint32, _ int64) string {
		if !known {
			return ""
		}
		return keyOf(ref)
	})
	count(series, []uint32{1}, 0)
	require.Empty(t, drain(set))
	known = true
	count(series, []uint32{1}, 0)
	last := drain(set)
	require.Equal(t, 1.0, last.total()[heat.WriteCells])
	_, err = ranges.New(ranges.Options{RangesMax: 1, Key: keyOf}, nil)
	require.ErrorContains(t, err, "RangesMax")
}

// TestLevels: old samples count for the columns of the levels that keep their time, so a backfill of two years has few columns.
func TestLevels(t *testing.T) {
	const minute, hour, nowMs = ranges.MinuteMs, 60 * ranges.MinuteMs, 20_000 * 60 * ranges.MinuteMs
	levels := []ranges.Level{{SpanMs: minute, Keep: 10}, {SpanMs: hour, Keep: 24}}
	set, err := ranges.New(ranges.Options{RangesMax: 32, Key: keyOf, Levels: levels}, nil)
	require.NoError(t, err)
	series := ranges.NewSeries(set, func(ref uint32, _ int64) string { return keyOf(ref) })
	want := map[int64]float64{}
	const requests, samples, stepMs = 500, 40, nowMs / 500 / 40
	for n := range int64(requests) {
		b := series.Begin(nowMs, samples)
		for i := range int64(samples) {
			tsMs := (n*samples + i) * stepMs
			ranges.Add(b, []written{{Ref: uint32(i), TsMs: tsMs}})
			startMs := int64(0)
			for _, l := range slices.Backward(levels) {
				if first := l.FirstMs(nowMs); tsMs >= first {
					startMs = tsMs - tsMs%l.SpanMs
				}
			}
			want[startMs]++
		}
		b.End()
	}
	for tsMs := levels[0].FirstMs(nowMs) - hour; tsMs <= nowMs; tsMs += minute / 2 {
		count(series, []uint32{3}, nowMs) // other requests do not disturb
		want[nowMs]++
		b := series.Begin(nowMs, 1)
		ranges.Add(b, []written{{Ref: 3, TsMs: tsMs}})
		b.End()
		if tsMs >= levels[0].FirstMs(nowMs) {
			want[tsMs-tsMs%minute]++
		} else {
			want[tsMs-tsMs%hour]++
		}
	}
	got := map[int64]float64{}
	for _, c := range drain(set) {
		got[c.StartMs] += c.Total()[heat.WriteCells]
	}
	require.Equal(t, want, got)
	require.LessOrEqual(t, len(got), 10+24+1)
}

// TestLoad: under high load, a counted sample represents several samples. The size and the pattern of a request do not
// change the chance of a sample to count. Under low load each sample counts.
func TestLoad(t *testing.T) {
	set, series := newSet(t, 64)
	for range 4 { // the first two of 3000 series have a quarter of the load each
		count(series, append(slices.Repeat([]uint32{1, 2}, 1000), 500, 1500, 2500), 60_000)
		set.Divide(discard)
	}
	drain(set)
	for _, requestSamples := range []int{1, 3, 8, 13, 400} {
		for _, perMinute := range []float64{0, 1 << 16, 1 << 18, 1 << 40} {
			series.SetLoad(perMinute)
			refs := make([]uint32, requestSamples)
			want, wantOfOne := 0.0, 0.0
			for n := range 48_000 / requestSamples {
				for i := range refs {
					refs[i] = []uint32{1, 2, 100 + uint32(n)%2900, 100 + uint32(i)%2900}[(i+n)%4]
					want++
					if refs[i] == 1 {
						wantOfOne++
					}
				}
				count(series, refs, 60_000)
			}
			var counted, ofOne float64
			for _, c := range drain(set) {
				counted += c.Total()[heat.WriteCells]
				ofOne += c.Counts[heat.Find(c.Starts, keyOf(1))][heat.WriteCells]
			}
			if perMinute <= 1<<16 {
				require.InDelta(t, want, counted, 1e-6)
			}
			// A sample counts with a chance of an eighth at least, so the deviation is below √(7·samples).
			require.InDelta(t, want, counted, 6*math.Sqrt(7*want))
			require.InDelta(t, wantOfOne, ofOne, 6*math.Sqrt(7*wantOfOne))
		}
	}
}

// BenchmarkAdd adds samples while the Series knows a million. exact counts each sample, as under low load.
func BenchmarkAdd(b *testing.B) {
	b.Run("exact", func(b *testing.B) { benchAdd(b, 0) })
	b.Run("much", func(b *testing.B) { benchAdd(b, 1<<40) })
}

func benchAdd(b *testing.B, samplesPerMinute float64) {
	set, series := newSet(b, 512)
	refs := make([]uint32, 1_000_000)
	for i := range refs {
		refs[i] = uint32(i)
	}
	for range 6 {
		count(series, refs, 60_000)
		set.Divide(discard)
	}
	count(series, refs, 60_000)
	b.ReportMetric(float64(set.Current().Len()), "ranges")
	b.ResetTimer()
	samples := make([]written, 32_000) // few enough to stay in the CPU cache, as the samples of a request do
	for i := range samples {
		samples[i] = written{Ref: refs[i], TsMs: 60_000}
	}
	series.SetLoad(samplesPerMinute)
	for n := 0; n < b.N; n += 2000 {
		batch := series.Begin(60_000, 2000)
		ranges.Add(batch, samples[n%30_000:][:2000])
		batch.End()
	}
}

func BenchmarkFind(b *testing.B) {
	set, series := newSet(b, 512)
	refs := make([]uint32, 100_000)
	for i := range refs {
		refs[i] = uint32(i)
	}
	for range 8 {
		count(series, refs, 60_000)
		set.Divide(discard)
	}
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = []byte(keyOf(uint32(i * 7919 % 100_000)))
	}
	snapshot := set.Current()
	b.ReportMetric(float64(snapshot.Len()), "ranges")
	b.ResetTimer()
	for n := range b.N {
		snapshot.Find(keys[n%len(keys)])
	}
}
