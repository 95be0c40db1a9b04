package window

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRanksAreThoseOfSortedValues compares with sorting, for values with ties, NaN, infinities and patterns.
func TestRanksAreThoseOfSortedValues(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	cases := 20_000
	if testing.Short() {
		cases = 2000
	}
	for range cases {
		vs := make([]float64, 1+rng.IntN(1+rng.IntN(400)))
		kind, spread := rng.IntN(5), 1+rng.IntN(1000)
		for i := range vs {
			switch kind {
			case 0:
				vs[i] = float64(i)
			case 1:
				vs[i] = float64(min(i, len(vs)-i))
			default:
				vs[i] = float64(rng.IntN(spread))
			}
			if kind == 4 && rng.IntN(4) == 0 {
				vs[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
			}
		}
		sorted := slices.Clone(vs)
		slices.Sort(sorted)
		lower := rng.IntN(len(vs))
		upper := min(len(vs)-1, lower+rng.IntN(2))
		below, above := twoRanks(vs, lower, upper)
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		require.True(t, same(sorted[lower], below) && same(sorted[upper], above), "seed %d: %v", seed, vs)
		slices.Sort(vs)
		for i := range vs {
			require.True(t, same(sorted[i], vs[i]), "seed %d: values are lost", seed)
		}
	}
}
