package fleet

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func newFleet(t testing.TB, opts Options) *Fleet {
	t.Helper()
	f, err := New(opts)
	require.NoError(t, err)
	return f
}

func mixed() Options {
	return Options{Seed: 7, Hosts: 12, HotSeries: 250, ZipfSeries: 330, ZipfMetrics: 20, ChurnPercent: 40, ChurnSteps: 3}
}

// transcript returns all series and values of a fleet as text.
func transcript(f *Fleet, steps int) string {
	var b strings.Builder
	for u := range f.Units() {
		unit := f.Unit(u)
		for step := range steps {
			values, renewed := unit.Step()
			if step == 0 || renewed {
				fmt.Fprintln(&b, unit.Series())
			}
			for _, v := range values {
				fmt.Fprintf(&b, "%x ", math.Float64bits(v))
			}
		}
	}
	return b.String()
}

func TestSameSeedSameFleet(t *testing.T) {
	one, two := transcript(newFleet(t, mixed()), 20), transcript(newFleet(t, mixed()), 20)
	require.True(t, one == two, "two fleets with the same options differ")
	other := mixed()
	other.Seed++
	require.False(t, one == transcript(newFleet(t, other), 20), "another seed makes the same fleet")
}

func TestSeriesAreDistinct(t *testing.T) {
	f := newFleet(t, mixed())
	seen := make(map[string]bool)
	replaced := 0
	for u := range f.Units() {
		unit := f.Unit(u)
		for step := range 30 {
			_, renewed := unit.Step()
			require.Equal(t, f.Renewed(u, step), renewed)
			if step > 0 && !renewed {
				continue
			}
			if renewed {
				replaced++
			}
			require.Equal(t, f.SeriesOf(u, unit.Generation()), unit.Series())
			for _, s := range unit.Series() {
				require.True(t, sort.SliceIsSorted(s.Tags, func(i, j int) bool { return s.Tags[i].Name < s.Tags[j].Name }), "%v", s)
				require.GreaterOrEqual(t, len(s.Tags), 8, "%v", s)
				key := fmt.Sprint(s)
				require.False(t, seen[key], key)
				seen[key] = true
			}
		}
	}
	require.Positive(t, replaced)
}

func TestSlots(t *testing.T) {
	f := newFleet(t, mixed())
	total := 0
	for u := range f.Units() {
		require.Equal(t, total, f.SlotsBefore(u))
		values, _ := f.Unit(u).Step()
		total += len(values)
	}
	require.Equal(t, f.Slots(), total)
	require.Equal(t, f.Slots(), f.SlotsBefore(f.Units()))
	require.Len(t, machineSpecs(), machineSeries)
	require.Len(t, serviceSpecs(0, "x"), serviceSeries)
	require.Equal(t, 12*100+250+330, f.Slots())
}

func TestMetricSizes(t *testing.T) {
	f := newFleet(t, Options{HotSeries: 250, ZipfSeries: 1000, ZipfMetrics: 30})
	sizes := make(map[string]int)
	for u := range f.Units() {
		for _, s := range f.SeriesOf(u, 0) {
			sizes[s.Metric]++
		}
	}
	require.Equal(t, 250, sizes[HotMetric])
	delete(sizes, HotMetric)
	require.Len(t, sizes, 30)
	var list []int
	for _, n := range sizes {
		list = append(list, n)
	}
	sort.Sort(sort.Reverse(sort.IntSlice(list)))
	for rank, n := range list {
		require.InDelta(t, float64(list[0])/float64(rank+1), n, 1.5, "rank %d of %v", rank+1, list)
	}
}

// TestShapes runs a fleet for a week of coarse steps and checks how the values of each shape change.
func TestShapes(t *testing.T) {
	f := newFleet(t, Options{Hosts: 3, StepSeconds: 300})
	resets, changed := 0, make(map[shape]int)
	for u := range f.Units() {
		unit := f.Unit(u)
		last := make([]float64, 0)
		for range 2016 {
			values, _ := unit.Step()
			for i, v := range values {
				s := &unit.specs[i]
				require.False(t, math.IsNaN(v) || math.IsInf(v, 0) || math.Signbit(v), "%s: %v", s.metric, v)
				if s.shape != mantissa && s.shape != sum {
					require.Equal(t, v, math.Round(v*s.per)/s.per, "%s has %v, which is not a multiple of 1/%v", s.metric, v, s.per)
				}
				if len(last) == 0 {
					continue
				}
				if v != last[i] {
					changed[s.shape]++
				}
				if s.shape == counter || s.shape == bucket || s.shape == sum {
					if v < last[i] {
						resets++
					}
				}
			}
			last = append(last[:0], values...)
		}
	}
	require.Greater(t, resets, 100)
	require.Zero(t, changed[constant])
	for _, s := range []shape{counter, bucket, sum, gauge, mantissa, started} {
		require.Positive(t, changed[s], "shape %d never changes", s)
	}
	require.Positive(t, changed[rare])
	require.Less(t, changed[rare], 3*2016*4/100, "rare series change too often")
}

// TestBuckets checks that the buckets of a histogram are cumulative and that the last equals the count.
func TestBuckets(t *testing.T) {
	f := newFleet(t, Options{Hosts: 2, Services: 1})
	for u := range f.Units() {
		unit := f.Unit(u)
		for range 50 {
			values, _ := unit.Step()
			last, top := 0.0, 0.0
			for i, s := range unit.specs {
				switch s.metric {
				case "app_request_duration_seconds_bucket":
					require.GreaterOrEqual(t, values[i], last)
					last, top = values[i], values[i]
				case "app_request_duration_seconds_count":
					require.Equal(t, top, values[i])
				}
			}
		}
	}
}

func TestRewrittenDiffers(t *testing.T) {
	f := newFleet(t, Options{Hosts: 1})
	for _, v := range []float64{0, 0.01, 1, -3, 1e15, 1e17, 1e300, math.MaxFloat64 / 2} {
		w := f.Rewritten(3, 9, v)
		require.NotEqual(t, v, w)
		require.Equal(t, w, f.Rewritten(3, 9, v))
		require.False(t, math.IsInf(w, 0))
	}
}

func TestOptionsFaults(t *testing.T) {
	_, err := New(Options{})
	require.ErrorIs(t, err, ErrOptions)
	require.ErrorContains(t, err, "no series")
	_, err = New(Options{Hosts: -1, ChurnPercent: 101, StepSeconds: math.NaN(), ZipfSeries: 3, ZipfMetrics: 4})
	for _, fault := range []string{"Hosts", "ChurnPercent", "StepSeconds", "ZipfMetrics"} {
		require.ErrorContains(t, err, fault)
	}
	_, err = New(Options{Hosts: 11, SeriesMax: 1000})
	require.ErrorContains(t, err, "SeriesMax")
}

func BenchmarkStep(b *testing.B) {
	f := newFleet(b, Options{Hosts: 1})
	unit := f.Unit(0)
	for b.Loop() {
		unit.Step()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*f.Slots()), "ns/sample")
}

func TestEveryMetricIsDescribed(t *testing.T) {
	f := newFleet(t, Options{Seed: 7, Hosts: 1, Services: 1})
	used := map[string]bool{}
	for _, s := range f.SeriesOf(0, 0) {
		family := s.Metric
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			family = strings.TrimSuffix(family, suffix)
		}
		used[family] = true
	}
	for _, d := range Descriptions() {
		require.True(t, used[d.Metric], "%s has a description, but no series", d.Metric)
		require.NotEmpty(t, d.Help, d.Metric)
		delete(used, d.Metric)
	}
	require.Empty(t, used, "metrics without a description")
}
