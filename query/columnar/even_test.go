package columnar

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query/read"
)

// TestEvenMemoIsNewEven looks at series after series, many of which differ from the one before in one thing only.
func TestEvenMemoIsNewEven(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	w := newWindow(read.Windows{FirstEndMs: 1_000_000, StepMs: 60_000, RangeMs: 300_000, Steps: 9}, Grid{Steps: 9}, nil)
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
		w.vs, w.betweenMs = make([]float64, samples), stepMs
		for k := range w.vs {
			w.vs[k] = float64(i * k)
		}
		want := newEven(w, stepMs)
		require.Equal(t, want, w.memo.of(w, stepMs), "series %d, seed %d", i, seed)
		w.even = want
		rates, alone := make([]float64, w.Steps), make([]float64, w.Steps)
		(&difference{window: w, extrapolation: e}).evenSteps(rates)
		w.memo.stretched = false
		(&difference{window: w, extrapolation: e}).evenSteps(alone)
		for k := range rates {
			require.Equal(t, isAbsent(alone[k]), isAbsent(rates[k]))
			require.True(t, alone[k] == rates[k] || isAbsent(alone[k]), "series %d, step %d, seed %d", i, k, seed)
		}
	}
	require.Positive(t, same)
}
