package window

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query/columnar/grid"
	"halite/query/read"
)

// TestFixedIntervalMemo compares the memo with newFixedInterval, for many series that differ little from their
// predecessors.
func TestFixedIntervalMemo(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	w := New(read.Windows{FirstEndMs: 1_000_000, StepMs: 60_000, RangeMs: 300_000, Steps: 9}, grid.Grid{Steps: 9}, nil)
	stepMs, samples, same := int64(15_000), 40, 0
	e := &extrapolation{counter: true, perSecond: true, rangeSeconds: 300}
	for i := range 20_000 {
		switch rng.IntN(12) {
		case 0:
			w.firstMs = 1_000_000 + rng.Int64N(1000)*1000 - 500_000
		case 1:
			stepMs = []int64{5_000, 15_000, 60_000}[rng.IntN(3)]
		case 2:
			samples = 1 + rng.IntN(100)
		case 3:
			w.FirstEndMs = 1_000_000 + rng.Int64N(20)*15_000
		default:
			same++
		}
		w.Values, w.betweenMs = make([]float64, samples), stepMs
		for k := range w.Values {
			w.Values[k] = float64(i * k)
		}
		want := newFixedInterval(w, stepMs)
		require.Equal(t, want, w.memo.get(w, stepMs), "series %d, seed %d", i, seed)
		w.even = want
		rates, alone := make([]float64, w.Steps), make([]float64, w.Steps)
		(&difference{Window: w, extrapolation: e}).evenSteps(rates)
		w.memo.rateKnown = false
		(&difference{Window: w, extrapolation: e}).evenSteps(alone)
		for k := range rates {
			require.Equal(t, grid.IsAbsent(alone[k]), grid.IsAbsent(rates[k]))
			require.True(t, alone[k] == rates[k] || grid.IsAbsent(alone[k]), "series %d, step %d, seed %d", i, k, seed)
		}
	}
	require.Positive(t, same)
}
