package expression

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/opentsdb/aggregation"
)

func TestFormulas(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"a + b * 2": 13, "(a + b) * 2": 16, "a - b - 1": -3, "b / 2 / 5": 0.5, "-a": -3, "a--b": 8, "b % a": 2, "a / 0": 0,
		"a % 0": 0, "a > b": 0, "a <= 3": 1, "a < b && b < 6": 1, "a > b || b == 5": 1, "!(a > b)": 1, "a != a": 0,
		"a > 1 ? b : 7": 5, "a gt b ? 1 : b lt 2 ? 2 : 3": 3, "1.5e1 + a": 18, "a ge 3 and not (b eq 4)": 1, "b mod 2 + 8 div 4 * a": 7,
		"n + a": math.NaN(), "n > 1": 0, "n && a": 0,
	} {
		f, err := ParseFormula(text)
		require.NoError(t, err, text)
		values := make([]float64, len(f.Variables))
		for i, name := range f.Variables {
			values[i] = map[string]float64{"a": 3, "b": 5, "n": math.NaN()}[name]
		}
		if got := f.Eval(values); math.IsNaN(want) {
			require.True(t, math.IsNaN(got), text)
		} else {
			require.Equal(t, want, got, text)
		}
	}
	for text, want := range map[string]string{
		"": "is empty", "1 + 2": "has no variables", "a +": "ends too early", "a b": `unexpected "b"`, "(a": "bracket is not closed",
		"a ? 1": "has no colon", "a $ b": `unexpected "$"`, "a = b": `unexpected "="`, "a + 1.2.3": "is not a number",
		"a + )": `unexpected ")"`, strings.Repeat("(", 999) + "a": "is nested more than",
		strings.Repeat("-", 999) + "a": "is nested more than",
		strings.Repeat("a", 99999):     "more than",
	} {
		_, err := ParseFormula(text)
		require.ErrorContains(t, err, want)
	}
}

func FuzzFormula(f *testing.F) {
	for _, seed := range []string{"a + b * 2", "a > 1 ? -b : !c", "x.y div 2e-3", "((a))%0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		f, err := ParseFormula(text)
		if err != nil {
			return
		}
		require.NotEmpty(t, f.Variables)
		f.Eval(make([]float64, len(f.Variables)))
	})
}

func noLimit(int) error { return nil }

func series(metric, host string, firstMs int64, values ...float64) Series {
	s := Series{Metric: metric, Tags: []labels.Label{{Name: "host", Value: host}}, AggregateTags: []string{"cpu"}}
	for i, v := range values {
		s.TsMs, s.Doubles = append(s.TsMs, firstMs+int64(i)*1000), append(s.Doubles, v)
	}
	return s
}

func TestJoins(t *testing.T) {
	t.Parallel()
	f, err := ParseFormula("a - b")
	require.NoError(t, err)
	variables := []Variable{
		{Name: "a", Fill: 100, Series: Combine([]Series{series("m", "x", 1000, 5, 6, math.NaN()), series("m", "y", 1000, 7)})},
		{Name: "b", Series: Combine([]Series{series("n", "x", 2000, 1, 2), series("n", "z", 2000, 4)})},
	}
	out, err := f.Apply(variables, Join{AggregateTags: true}, noLimit)
	require.NoError(t, err)
	require.Len(t, out, 3)
	require.Equal(t, []int64{1000, 2000, 3000}, out[0].TsMs)
	require.Equal(t, []float64{5, 5, 98}, out[0].Values, "host x")
	require.Equal(t, []string{"m", "n"}, out[0].Metrics)
	require.Equal(t, []string{"cpu"}, out[0].AggregateTags)
	require.Equal(t, []float64{7, 100, 100}, out[1].Values, "host y")
	require.Equal(t, []float64{100, 96, 100}, out[2].Values, "host z")

	out, err = f.Apply(variables, Join{Intersection: true}, noLimit)
	require.NoError(t, err)
	require.Len(t, out, 1)
	require.Equal(t, "x", out[0].Tags[0].Value)
	out, err = f.Apply(variables, Join{QueryTags: true}, noLimit)
	require.NoError(t, err)
	require.Len(t, out, 1, "no variable has tags in its query")
	_, err = f.Apply(variables, Join{}, func(n int) error { require.Equal(t, 9, n); return errNoParameter })
	require.ErrorIs(t, err, errNoParameter)
}

// TestFunctions checks the functions of /api/query/gexp.
func TestFunctions(t *testing.T) {
	t.Parallel()
	whole := Series{Metric: "w", Result: aggregation.Result{TsMs: []int64{1, 2}, Integers: []int64{-3, 4}}}
	x, y := series("m", "x", 0, 1, 2, 6, 8), series("m", "y", 0, 9, 0, 0, 3)
	all := Functions()
	call := func(name string, params []string, args ...[]Series) []Series {
		out, err := all[name](args, params, noLimit)
		require.NoError(t, err, name)
		return out
	}
	require.Equal(t, []int64{-6, 8}, call("scale", []string{"2"}, []Series{whole})[0].Integers)
	require.Equal(t, []float64{-1.5, 2}, call("scale", []string{"0.5"}, []Series{whole})[0].Doubles)
	require.Equal(t, []int64{3, 4}, call("absolute", nil, []Series{whole})[0].Integers)
	require.Equal(t, []float64{0, 1, 4, 2}, call("firstDiff", nil, []Series{x})[0].Doubles)
	require.Equal(t, []float64{0, 1.5, 4, 7}, call("movingAverage", []string{"2"}, []Series{x})[0].Doubles)
	require.Equal(t, []float64{0, 0, 4, 7}, call("movingAverage", []string{"'2sec'"}, []Series{x})[0].Doubles)
	require.Equal(t, []int64{60_000, 61_000, 62_000, 63_000}, call("shift", []string{"'1min'"}, []Series{x})[0].TsMs)
	require.Equal(t, "y", call("highestMax", []string{"1"}, []Series{x, y})[0].Tags[0].Value)
	require.Equal(t, "x", call("highestCurrent", []string{"5"}, []Series{x, y, {}})[0].Tags[0].Value)
	named := call("alias", []string{"'cpu of @host", " all'"}, []Series{x})[0]
	require.Equal(t, "cpu of x, all", named.Metric)
	require.Empty(t, named.Tags)
	sum := call("sumSeries", nil, []Series{x}, []Series{series("n", "x", 1000, 10)})
	require.Equal(t, []float64{1, 12, 6, 8}, sum[0].Doubles)
	require.Equal(t, []float64{0, 0.2, 0, 0}, call("divide", nil, []Series{x}, []Series{series("n", "x", 1000, 10)})[0].Doubles)
	for name, params := range map[string][]string{
		"scale": {"x"}, "alias": nil, "movingAverage": {"0"}, "shift": {"1min"}, "timeShift": {"'1eon'"},
		"highestMax": {"-1"}, "sum": nil,
	} {
		_, err := all[name]([][]Series{{x}}, params, noLimit)
		require.Error(t, err, name)
	}
}
