package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/stretchr/testify/require"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/read"
)

// slidingCase is overlapping windows over a series.
type slidingCase struct {
	*Window
	name string
	rng  *rand.Rand
}

// kindsOfValues returns functions from the number of a sample to its value.
func kindsOfValues(rng *rand.Rand) map[string]func(i int) float64 {
	total := 0.0
	return map[string]func(i int) float64{
		"bytes":    func(i int) float64 { return 4e10 - float64(i)*1000 - float64(rng.IntN(300)) },
		"counter":  func(int) float64 { total += rng.Float64() * 9; return total },
		"normal":   func(int) float64 { return rng.NormFloat64() },
		"warm":     func(int) float64 { return 20 + rng.Float64() },
		"narrow":   func(int) float64 { return 1e9 + rng.Float64() },
		"few":      func(int) float64 { return float64(rng.IntN(3)) },
		"constant": func(int) float64 { return 0.1 },
		"mostly":   func(int) float64 { return float64(max(0, rng.IntN(40)-38)) / 3 },
		"odd": func(i int) float64 {
			if i > 100 && rng.IntN(60) == 0 {
				return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e200, 1e-200, math.Copysign(0, -1)}[rng.IntN(6)]
			}
			return rng.NormFloat64() * 100
		},
		"cliff": func(i int) float64 {
			if i < 80 {
				return 1e60
			}
			return rng.Float64()
		},
	}
}

func slidingCases(t *testing.T, seed uint64) (cases []slidingCase) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for name, value := range kindsOfValues(rng) {
		for _, unevenMs := range []int64{0, 1000, 417} {
			s := column.Samples{StepMs: 15_000, FirstMs: 1_700_000_000_000 + rng.Int64N(2)*417}
			if unevenMs > 0 {
				s.StepMs = 0
			}
			for i := range int64(500) {
				s.Values = append(s.Values, value(int(i)))
				if unevenMs > 0 {
					s.TsMs = append(s.TsMs, s.FirstMs+i*15_000+rng.Int64N(9)*unevenMs)
				}
			}
			windows := read.Windows{
				FirstEndMs: 1_700_000_000_000 - 60_000, StepMs: 60_000, RangeMs: 60_000 * (4 + rng.Int64N(60)), Steps: 140,
			}
			params := [][]float64{make([]float64, windows.Steps)}
			for k := range params[0] {
				params[0][k] = []float64{0, 0.5, 0.95, 1}[rng.IntN(4)]
			}
			g := grid.New(windows.FirstEndMs, windows.FirstEndMs+139*60_000, 60_000)
			w := New(windows, g, params)
			counts := grid.NewSampleCounts(windows.Steps)
			require.Positive(t, w.Reset(&counts, 0, &column.Column{Labels: labels.EmptyLabels(), Samples: s}, false))
			cases = append(cases, slidingCase{w, name, rng})
		}
	}
	return cases
}

// equal compares a function with alone, which computes one window. It returns the number of results that are equal to the last
// bit.
func (c slidingCase) equal(t *testing.T, f Func, alone func(k int) float64, samplesMin int) (same, all int) {
	t.Helper()
	out := make([]float64, c.Steps)
	f(c.Window, out)
	for k, got := range out {
		if c.Hi[k]-c.Lo[k] < samplesMin {
			require.True(t, grid.IsAbsent(got))
			continue
		}
		want := alone(k)
		all++
		if want == got || math.IsNaN(want) && math.IsNaN(got) {
			same++
			continue
		}
		require.InEpsilon(t, want, got, 1e-12, "%s, step %d: got %g", c.name, k, got)
	}
	return same, all
}

const slidingSeeds = 8

// TestSlidingWindows compares functions that share work between overlapping windows with computations of each window alone.
func TestSlidingWindows(t *testing.T) {
	t.Parallel()
	same, all := 0, 0
	for seed := range uint64(slidingSeeds) {
		for _, c := range slidingCases(t, seed) {
			check := func(f Func, alone func(k int) float64, samplesMin int) (int, int) {
				n, of := c.equal(t, f, alone, samplesMin)
				same, all = same+n, all+of
				return n, of
			}
			line := func(origin func(k int) int64) func(k int) fit {
				return func(k int) (f fit) {
					f.slope, f.intercept = c.infiniteRegression(c.Lo[k], c.Hi[k], origin(k))
					if vs := c.valuesOf(k); !slices.ContainsFunc(vs, func(v float64) bool { return v != vs[0] }) {
						f.slope, f.intercept = 0, vs[0]
						if Infinite(vs[0]) {
							f.slope, f.intercept = math.NaN(), math.NaN()
						}
					}
					return f
				}
			}
			slope := line(func(k int) int64 { return c.time(c.Lo[k]) })
			n, of := check(Deriv(), func(k int) float64 { return slope(k).slope }, 2)
			if c.name == "bytes" && (c.time(0)-c.Grid.StartMs)%1000 == 0 && c.betweenMs > 0 {
				require.Equal(t, of, n, "whole numbers give exact sums")
			}
			ahead := line(c.Grid.At)
			check(PredictLinear(), func(k int) float64 { return ahead(k).slope*c.Params[0][k] + ahead(k).intercept }, 2)
			identity := func(v float64) float64 { return v }
			check(VarianceOverTime(identity), func(k int) float64 { return infiniteVariance(c.valuesOf(k)) }, 1)
			alone := func(k int) []float64 { return slices.Clone(c.valuesOf(k)) }
			n, of = check(QuantileOverTime(posrange.PositionRange{}), func(k int) float64 { return Quantile(c.Params[0][k], alone(k)) }, 1)
			require.Equal(t, of, n)
			n, of = check(MadOverTime(), func(k int) float64 { return medianDistance(alone(k)) }, 1)
			require.Equal(t, of, n)
			s := smoothing{0.3, 0.1}
			n, of = check(DoubleExponentialSmoothing(0.3, 0.1), func(k int) float64 { return s.alone(c.valuesOf(k)) }, 2)
			require.Equal(t, of, n)
		}
	}
	t.Logf("%d of %d results are equal to the last bit", same, all)
}

// alone smooths by the definition: the trend comes from the two previous smoothed values.
func (s smoothing) alone(vs []float64) float64 {
	before, value, trend := 0.0, vs[0], vs[1]-vs[0]
	for i, v := range vs[1:] {
		if i > 0 {
			trend = s.trend*(value-before) + (1-s.trend)*trend
		}
		before, value = value, s.factor*v+(1-s.factor)*(value+trend)
	}
	return value
}

// TestTimesOfExtremes compares the queue with a search of each window.
func TestTimesOfExtremes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(slidingSeeds) {
		for _, c := range slidingCases(t, seed) {
			for sign, f := range map[float64]Func{1: TimeOfMax(), -1: TimeOfMin()} {
				c.equal(t, f, func(k int) float64 {
					best := c.Lo[k]
					for i := c.Lo[k]; i < c.Hi[k]; i++ {
						if v := c.Values[best]; sign*c.Values[i] >= sign*v || math.IsNaN(v) {
							best = i
						}
					}
					return float64(c.time(best)) / 1000
				}, 1)
			}
		}
	}
}

// BenchmarkSliding evaluates 140 windows of an hour over 500 samples.
func BenchmarkSliding(b *testing.B) {
	functions := map[string]Func{
		"deriv": Deriv(), "predict_linear": PredictLinear(), "mad": MadOverTime(), "smoothing": DoubleExponentialSmoothing(0.3, 0.1),
		"quantile": QuantileOverTime(posrange.PositionRange{}), "stdvar": VarianceOverTime(func(v float64) float64 { return v }),
	}
	for name, f := range functions {
		for kind, value := range kindsOfValues(rand.New(rand.NewPCG(1, 1))) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				s := column.Samples{StepMs: 15_000, FirstMs: 1_700_000_000_000}
				for i := range 500 {
					s.Values = append(s.Values, value(i))
				}
				windows := read.Windows{FirstEndMs: s.FirstMs - 60_000, StepMs: 60_000, RangeMs: 3_600_000, Steps: 140}
				g := grid.New(windows.FirstEndMs, windows.FirstEndMs+139*60_000, 60_000)
				w := New(windows, g, [][]float64{slices.Repeat([]float64{0.9}, windows.Steps)})
				counts, out := grid.NewSampleCounts(windows.Steps), make([]float64, windows.Steps)
				w.Reset(&counts, 0, &column.Column{Labels: labels.EmptyLabels(), Samples: s}, false)
				for b.Loop() {
					f(w, out)
				}
			})
		}
	}
}
