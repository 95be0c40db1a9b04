package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSimulateIsDeterministic(t *testing.T) {
	s := Simulation{Series: 1_000_000, Nodes: 7}
	first, err := Simulate(s)
	require.NoError(t, err)
	again, err := Simulate(s)
	require.NoError(t, err)
	require.Equal(t, first, again)
	s.Seed = 2
	other, err := Simulate(s)
	require.NoError(t, err)
	require.NotEqual(t, first, other)
}

// TestSaltsSpreadTheLargestMetric shows the purpose of salts. Before ranges split, all load of the largest metric hits
// one node without salts; with them it is even.
func TestSaltsSpreadTheLargestMetric(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		balances, err := Simulate(Simulation{Series: 10_000_000, Nodes: 20, Salts: []int{1, 16, 64}, Seed: seed})
		require.NoError(t, err)
		one, sixteen, many := balances[0], balances[1], balances[2]
		require.InDelta(t, 0.1336, one.LargestShare, 0.0005, "1/H(1000)")
		require.InDelta(t, 20*0.1336, one.Unsplit.BalancedMaxOverMean, 0.01, "a single range cannot be shared")
		require.Less(t, sixteen.LargestShare, 0.1336/16*1.02)
		require.Less(t, sixteen.Unsplit.BalancedMaxOverMean, 1.02, "seed %d", seed)
		require.Less(t, many.Unsplit.RandomMaxOverMean, sixteen.Unsplit.RandomMaxOverMean+0.3, "seed %d", seed)
		for _, b := range balances {
			require.Less(t, b.Split.BalancedMaxOverMean, 1.1, "seed %d: splitting evens out, %d salts", seed, b.Salts)
			require.LessOrEqual(t, b.Unsplit.BalancedMaxOverMean, b.Unsplit.RandomMaxOverMean+1e-9)
			require.GreaterOrEqual(t, b.Split.BalancedMaxOverMean, 1-1e-9)
			require.GreaterOrEqual(t, b.QueryNodes, 14, "27 tablets on 20 nodes")
			// Tablets are between half full and full, except at the ends of metrics.
			require.GreaterOrEqual(t, b.Tablets, 200)
			require.LessOrEqual(t, b.Tablets, 2*200+1000)
		}
	}
}

func TestSimulateEdges(t *testing.T) {
	balances, err := Simulate(Simulation{Series: 1, Metrics: 1, Nodes: 1})
	require.NoError(t, err)
	for _, b := range balances {
		require.Equal(t, Balance{Salts: b.Salts, LargestShare: 1, Unsplit: Placement{1, 1}, Split: Placement{1, 1}, Tablets: 1,
			QueryNodes: 1}, b)
	}
	for want, s := range map[string]Simulation{
		"series":          {},
		"metrics":         {Series: 10, Metrics: 11},
		"exponent":        {Series: 1e6, Exponent: 9},
		"nodes":           {Series: 1e6, Nodes: -1},
		"a tablet":        {Series: 1e6, TabletSeries: 0.5},
		"salts":           {Series: 1e6, Salts: []int{0}},
		"ranges":          {Series: 1e7, Metrics: 1e6, Salts: []int{64}},
		"million tablets": {},
	} {
		if want == "million tablets" {
			want, s = "tablets", Simulation{Series: 1e12, TabletSeries: 10}
		}
		_, err := Simulate(s)
		require.ErrorContains(t, err, want)
	}
}

func TestZipfSizes(t *testing.T) {
	for _, c := range []struct {
		series   int64
		metrics  int
		exponent float64
	}{{1000, 1000, 1}, {1_000_000, 1000, 1}, {10, 3, 0}, {1_000_000_000, 17, 2}} {
		sizes := zipfSizes(c.series, c.metrics, c.exponent)
		sum := int64(0)
		for i, n := range sizes {
			require.GreaterOrEqual(t, n, int64(1))
			if i > 0 {
				require.LessOrEqual(t, n, sizes[i-1])
			}
			sum += n
		}
		require.Equal(t, c.series, sum)
	}
}

// TestBinomial checks mean and variance on both of its paths.
func TestBinomial(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		n int64
		p float64
	}{{100, 0.3}, {exactTrialsMax, 0.0625}, {10_000, 0.0625}, {1_000_000, 0.5}} {
		const draws = 4000
		sum, squares := 0.0, 0.0
		for range draws {
			x := float64(binomial(rng, c.n, c.p))
			sum += x
			squares += x * x
		}
		mean := float64(c.n) * c.p
		variance := mean * (1 - c.p)
		require.InDelta(t, mean, sum/draws, 5*math.Sqrt(variance/draws))
		require.InEpsilon(t, variance, squares/draws-sum/draws*sum/draws, 0.15)
	}
	require.Equal(t, int64(5), binomial(rng, 5, 1))
	require.Zero(t, binomial(rng, 0, 0.5))
}

func TestWriteBalances(t *testing.T) {
	s := Simulation{Series: 1_000_000, Salts: []int{1, 16}}
	balances, err := Simulate(s)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, WriteBalances(&b, s, balances))
	require.Contains(t, b.String(), "1,000,000 series of 1,000 metrics")
	require.Equal(t, 2+3+2, strings.Count(b.String(), "\n"), b.String())
}
