package operator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
	"halite/query/read"
	"halite/storage/storagetest/seeds"
)

func newRand(t *testing.T) *rand.Rand {
	return seeds.Rand(t, 0)
}

// TestFunctionsAgainstPrometheus computes random windows of random samples with each function and with Prometheus's function
// of that name. All results are equal to the last bit, except sums of blocks.
func TestFunctionsAgainstPrometheus(t *testing.T) {
	rng, cases := newRand(t), 15
	if testing.Short() {
		cases = 3
	}
	p := parser.NewParser(parser.Options{EnableExperimentalFunctions: true})
	for _, call := range []string{
		"rate(m[%s])", "increase(m[%s])", "delta(m[%s])", "irate(m[%s])", "idelta(m[%s])", "resets(m[%s])", "changes(m[%s])",
		"count_over_time(m[%s])", "present_over_time(m[%s])", "last_over_time(m[%s])", "first_over_time(m[%s])",
		"sum_over_time(m[%s])", "avg_over_time(m[%s])", "min_over_time(m[%s])", "max_over_time(m[%s])",
		"stddev_over_time(m[%s])", "stdvar_over_time(m[%s])", "quantile_over_time(0.3, m[%s])", "deriv(m[%s])",
		"predict_linear(m[%s], 600)",
	} {
		for range cases {
			rangeMs := []int64{1, 15_000, 60_000, 300_000, 3_600_000, 30_000_000}[rng.IntN(6)]
			e, err := p.ParseExpr(fmt.Sprintf(call, time.Duration(rangeMs)*time.Millisecond))
			require.NoError(t, err)
			compareFunction(t, rng, e.(*parser.Call), rangeMs)
		}
	}
}

func compareFunction(t *testing.T, rng *rand.Rand, e *parser.Call, rangeMs int64) {
	ts, vs := randomSamples(rng)
	stepMs := 1 + rng.Int64N(rangeMs*2+200_000)
	if rng.IntN(2) == 0 {
		stepMs = (1 + rng.Int64N(8)) * 15_000 // a multiple of most sample intervals
	}
	g := grid.New(rng.Int64N(20_000_000), 40_000_000, stepMs)
	if rng.IntN(8) == 0 {
		g = g.First()
	}
	if g.Steps > 200 {
		g = grid.New(g.At(g.Steps-200), g.EndMs, g.StepMs)
	}
	n := Compiler{}.Vector(e).(*rangeSelector)
	ev := NewEval(new(State), g)
	var params [][]float64
	for _, p := range n.params {
		row, err := p.values(ev)
		require.NoError(t, err)
		params = append(params, row)
	}
	w := window.New(n.windows(g, rangeMs), g, params)
	row := make([]float64, g.Steps)
	c := &column.Column{Samples: column.Samples{TsMs: ts, Values: vs}}
	largest := (&rangeRun{rangeSelector: n, window: w}).section(ev, c, 0, row)
	checkKnown(t, n, params, g, columnOf(ts, vs), row, ev, largest)
	for k := range row {
		want, ok := reference(e, params, ts, vs, g.At(k), rangeMs, k)
		if !ok {
			require.True(t, grid.IsAbsent(row[k]), "%s at %d: %v", e, k, row[k])
			continue
		}
		exact := w.Hi[k]-w.Lo[k] < window.BlockwiseMin
		if !sameValue(want, row[k], exact) {
			t.Fatalf("%s, step %d: %v, want %v", e, k, row[k], want)
		}
	}
}

// columnOf returns a column with all properties of its samples.
func columnOf(ts []int64, vs []float64) *column.Column {
	c := &column.Column{Samples: column.Samples{
		TsMs: ts, Values: vs, StepMs: 1, NoStale: !grid.HasAbsent(vs), Monotonic: len(window.AppendResets(nil, vs)) == 0,
	}}
	for i := 1; i < len(ts); i++ {
		if c.StepMs = ts[i] - ts[i-1]; c.StepMs != ts[1]-ts[0] {
			c.StepMs = 0
			break
		}
	}
	return c
}

// checkKnown compares a function on a column with known properties, as a whole and section by section, with the function on
// the column without properties. Results are equal to the last bit, and statistics are equal.
func checkKnown(
	t *testing.T, n *rangeSelector, params [][]float64, g grid.Grid, c *column.Column, want []float64, counted *Eval, largest int,
) {
	total, fresh := counted.Counts()
	for _, split := range []int{g.Steps, g.Steps / 2} {
		ev := NewEval(new(State), g)
		r := &rangeRun{rangeSelector: n, window: window.New(n.windows(g, n.rangeMs), g, params)}
		row := make([]float64, g.Steps)
		got := 0
		if split > 0 {
			got = r.section(ev, c, 0, row[:split])
		}
		if split < g.Steps {
			got = max(got, r.section(ev, c, split, row[split:]))
		}
		require.Equal(t, largest, got)
		for k := range row {
			require.True(t, sameValue(want[k], row[k], split == g.Steps), "%s, step %d of %d", n.name, k, g.Steps)
		}
		gotTotal, gotFresh := ev.Counts()
		require.Equal(t, total, gotTotal)
		require.Equal(t, fresh, gotFresh)
	}
}

// TestInstantsOfKnownColumns is TestFunctionsAgainstPrometheus for instant selectors: they ignore whether properties are
// known.
func TestInstantsOfKnownColumns(t *testing.T) {
	rng := newRand(t)
	for range 300 {
		ts, vs := randomSamples(rng)
		g := grid.New(rng.Int64N(20_000_000), 40_000_000, (1+rng.Int64N(8))*15_000)
		if rng.IntN(8) == 0 {
			g = g.First()
		}
		r := &instantRun{instantSelector: &instantSelector{}}
		r.windows = r.instantSelector.windows(g, []int64{1, 14_000, 15_000, 300_000, 1_000_000}[rng.IntN(5)])
		want, plain := make([]float64, g.Steps), NewEval(new(State), g)
		r.section(plain, &column.Column{Samples: column.Samples{TsMs: ts, Values: vs}}, 0, want)
		row, ev := make([]float64, g.Steps), NewEval(new(State), g)
		split := rng.IntN(g.Steps + 1)
		c := columnOf(ts, vs)
		if split > 0 {
			r.section(ev, c, 0, row[:split])
		}
		if split < g.Steps {
			r.section(ev, c, split, row[split:])
		}
		for k := range row {
			require.Equal(t, math.Float64bits(want[k]), math.Float64bits(row[k]), "step %d of %d", k, g.Steps)
		}
		total, fresh := plain.Counts()
		gotTotal, gotFresh := ev.Counts()
		require.Equal(t, total, gotTotal)
		require.Equal(t, fresh, gotFresh)
	}
}

// reference computes a window with Prometheus's function.
func reference(
	e *parser.Call, params [][]float64, ts []int64, vs []float64, at, rangeMs int64, k int,
) (float64, bool) {
	var points []promql.FPoint
	for i, t := range ts {
		if t > at-rangeMs && t <= at && !grid.IsAbsent(vs[i]) {
			points = append(points, promql.FPoint{T: t, F: vs[i]})
		}
	}
	if len(points) == 0 {
		return 0, false
	}
	vectors := make([]promql.Vector, len(params))
	for i, p := range params {
		vectors[i] = promql.Vector{{F: p[k]}}
	}
	matrix := promql.Matrix{{Metric: labels.FromStrings("__name__", "m"), Floats: points}}
	out, _ := promql.FunctionCalls[e.Func.Name](vectors, matrix, e.Args, &promql.EvalNodeHelper{Ts: at})
	if len(out) == 0 {
		return 0, false
	}
	return out[0].F, true
}

func randomSamples(rng *rand.Rand) (ts []int64, vs []float64) {
	interval := []int64{1000, 15_000, 60_000}[rng.IntN(3)]
	odd := []int{0, 20, 200}[rng.IntN(3)]
	scale := []float64{1, 1e-3, 1e12, 1e306}[rng.IntN(4)]
	v := 0.0
	even, monotone := rng.IntN(2) == 0, rng.IntN(2) == 0
	for t := rng.Int64N(20_000_000); t < 40_000_000 && len(ts) < 3000; t += interval {
		v += rng.Float64()
		if rng.IntN(100) == 0 && !monotone {
			v = 0
		}
		if rng.IntN(100) == 0 && !even {
			t += rng.Int64N(3_600_000)
		}
		value := v * scale
		if odd > 0 && rng.IntN(odd) == 0 {
			value = []float64{grid.Absent(), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -value, 0}[rng.IntN(7)]
		}
		ts, vs = append(ts, t), append(vs, value)
	}
	return ts, vs
}

func sameValue(a, b float64, exact bool) bool {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return math.IsNaN(a) && math.IsNaN(b)
	case a == b:
		return true
	case exact:
		return false
	}
	return math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b))
}

// TestBlocksAreNotUsedWhereOrderShows: large values cancel out, so the result depends on the order of additions.
func TestBlocksAreNotUsedWhereOrderShows(t *testing.T) {
	w := window.New(read.Windows{FirstEndMs: 3999, StepMs: 1, RangeMs: 3000, Steps: 2}, grid.New(3999, 4000, 1), nil)
	var ts []int64
	var vs []float64
	for i := range int64(4000) {
		ts = append(ts, i)
		vs = append(vs, []float64{1, 1e100, 1, -1e100}[i%4])
	}
	require.NotZero(t, w.Reset(&NewEval(new(State), w.Grid).SampleCounts, 0, columnOf(ts, vs), false))
	out := make([]float64, 2)
	window.SumOverTime()(w, out)
	require.Equal(t, 1500.0, out[0])
}
