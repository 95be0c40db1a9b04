package rollup_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/rollup"
	"halite/rollup/rolluptest"
)

// close12 compares up to 1e-12 of want or scale, and exactly if a number is not finite.
func close12(t *testing.T, name string, want, got, scale float64) {
	t.Helper()
	if math.IsNaN(want) && math.IsNaN(got) || want == got {
		return
	}
	if !(math.Abs(want-got) <= 1e-12*math.Max(math.Abs(want), scale)) {
		t.Fatalf("%s: want %v, got %v", name, want, got)
	}
}

// magnitude is the sum of absolute finite values. Errors of addition are relative to it.
func magnitude(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum += math.Abs(v)
		}
	}
	return sum
}

// equal compares states: exact fields exactly, the others up to rounding.
func equal(t *testing.T, want, got rollup.State, values []float64) {
	t.Helper()
	exact := func(s rollup.State) rollup.State {
		s.Correction, s.Sum, s.SumLow, s.Mean, s.M2 = 0, 0, 0, 0, 0
		// Bits make NaN comparable.
		s.First, s.Last = 0, 0
		s.Min, s.Max = 0, 0
		return s
	}
	require.Equal(t, exact(want), exact(got))
	for _, pair := range [][2]float64{
		{want.First, got.First}, {want.Last, got.Last}, {want.Min, got.Min}, {want.Max, got.Max},
	} {
		require.Equal(t, math.Float64bits(pair[0]), math.Float64bits(pair[1]))
	}
	m := magnitude(values)
	close12(t, "correction", want.Correction, got.Correction, 0)
	close12(t, "total", want.Total(), got.Total(), 0)
	close12(t, "mean", want.Mean, got.Mean, m/math.Max(1, float64(want.Count)))
	close12(t, "M2", want.M2, got.M2, 0)
}

func TestJoinEqualsConcatenation(t *testing.T) {
	rng := rolluptest.Seeded(t)
	for range 3000 {
		tsMs, values := rolluptest.Samples(rng, rng.IntN(200), rng.IntN(2) == 0)
		want := rollup.FromColumns(tsMs, values)
		parts := 1 + rng.IntN(6)
		var got rollup.State
		at := 0
		for i := range parts {
			end := at + rng.IntN(len(tsMs)-at+1)
			if i == parts-1 {
				end = len(tsMs)
			}
			got = rollup.Join(got, rollup.FromColumns(tsMs[at:end], values[at:end]))
			at = end
		}
		equal(t, want, got, values)
	}
}

func TestJoinIsAssociativeWithIdentity(t *testing.T) {
	rng := rolluptest.Seeded(t)
	for range 2000 {
		tsMs, values := rolluptest.Samples(rng, 3+rng.IntN(100), rng.IntN(2) == 0)
		i := rng.IntN(len(tsMs) + 1)
		j := i + rng.IntN(len(tsMs)-i+1)
		a, b := rollup.FromColumns(tsMs[:i], values[:i]), rollup.FromColumns(tsMs[i:j], values[i:j])
		c := rollup.FromColumns(tsMs[j:], values[j:])
		equal(t, rollup.Join(rollup.Join(a, b), c), rollup.Join(a, rollup.Join(b, c)), values)
		equal(t, b, rollup.Join(rollup.State{}, b), values)
		equal(t, b, rollup.Join(b, rollup.State{}), values)
	}
}

// TestTotalAgainstBigFloats checks that compensated sums have no error of plain addition.
func TestTotalAgainstBigFloats(t *testing.T) {
	rng := rolluptest.Seeded(t)
	for range 300 {
		n := 1 + rng.IntN(500)
		tsMs, values := make([]int64, n), make([]float64, n)
		exact := new(big.Float).SetPrec(2000)
		for i := range n {
			tsMs[i] = int64(i)
			values[i] = rng.NormFloat64() * math.Pow(10, float64(rng.IntN(17)))
			exact.Add(exact, big.NewFloat(values[i]))
		}
		want, _ := exact.Float64()
		half := n / 2
		got := rollup.Join(rollup.FromColumns(tsMs[:half], values[:half]), rollup.FromColumns(tsMs[half:], values[half:]))
		close12(t, "total", want, got.Total(), 0)
	}
}

func TestStateByHand(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	s := rollup.FromColumns([]int64{1, 2, 3, 4, 5, 6}, []float64{2, 5, math.NaN(), math.NaN(), 1, stale})
	require.Equal(t, int64(5), s.Count)
	require.Equal(t, int64(2), s.NaNs)
	require.Equal(t, int64(3), s.Changes, "2 to 5, 5 to NaN, NaN to 1")
	require.Zero(t, s.Resets, "NaN is not smaller")
	require.Equal(t, []float64{1, 5}, []float64{s.Min, s.Max})
	require.Equal(t, []int64{1, 5}, []int64{s.FirstMs, s.LastMs})
	require.True(t, s.Stale)
	require.True(t, math.IsNaN(s.Total()))

	counter := rollup.FromColumns([]int64{1, 2, 3, 4}, []float64{10, 4, 9, 0})
	require.Equal(t, int64(2), counter.Resets)
	require.Equal(t, 19.0, counter.Correction)
	require.Equal(t, 9.0, counter.Last-counter.First+counter.Correction, "increase: 4, then 5, then 0")

	four := rollup.FromColumns([]int64{1, 2, 3, 4}, []float64{2, 4, 4, 6})
	require.Equal(t, 2.0, four.Variance())
	require.True(t, math.IsInf(rollup.FromColumns([]int64{1, 2}, []float64{math.Inf(1), 5}).Total(), 1))

	joined := rollup.Join(rollup.FromColumns([]int64{1}, []float64{7}), rollup.FromColumns([]int64{2}, []float64{stale}))
	require.True(t, joined.Stale)
	require.Equal(t, int64(1), joined.Count)
}
