package loadtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLatencyClasses(t *testing.T) {
	last := -1
	for _, us := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 1000, 1e6, 1e9, 1e12, 1 << 40} {
		class := latencyClass(us)
		require.Greater(t, class, last-1)
		require.InEpsilon(t, float64(us)+1, latencyOf(class)+1, 0.008, "%d µs", us)
		last = class
	}
	for us := uint64(1); us < 100_000; us++ {
		require.LessOrEqual(t, latencyClass(us)-latencyClass(us-1), 1, "a class is skipped at %d µs", us)
	}
	require.Less(t, latencyClass(math.MaxUint64), latencyClasses)
}

func TestQuantilesAgainstSorted(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var one, two latencies
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*2) * 1e6)
		all = append(all, d)
		if i%3 == 0 {
			one.add(d)
		} else {
			two.add(d)
		}
	}
	one.merge(&two)
	slices.Sort(all)
	q := one.quantiles()
	require.Equal(t, uint64(len(all)), q.Count)
	require.Equal(t, float64(all[len(all)-1])/1e6, q.MaxMs)
	for _, c := range []struct{ share, got float64 }{{0.5, q.P50Ms}, {0.95, q.P95Ms}, {0.99, q.P99Ms}} {
		want := float64(all[int(math.Ceil(c.share*float64(len(all))))-1]) / 1e6
		require.InEpsilon(t, want, c.got, 0.016, "quantile %g", c.share)
	}
	require.Equal(t, Quantiles{}, new(latencies).quantiles())
}

// TestBoundHolds throws balls into bins: the bound must be exceeded at most as often as it says, and not be so wide that
// it says nothing.
func TestBoundHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 99))
	for _, c := range []struct{ balls, bins int }{{50, 16}, {1000, 16}, {20_000, 16}, {2000, 100}} {
		bound := boundMaxOverMean(c.balls, c.bins)
		over, sum := 0, 0.0
		const trials = 400
		for range trials {
			loads := make([]int64, c.bins)
			for range c.balls {
				loads[r.IntN(c.bins)]++
			}
			s := newSpread(loads, c.balls)
			require.Equal(t, bound, s.Bound)
			require.InDelta(t, s.HottestShare*float64(c.bins), s.MaxOverMean, 1e-12)
			if s.MaxOverMean > bound {
				over++
			}
			sum += s.MaxOverMean
		}
		require.LessOrEqual(t, over, 8, "%v: bound %g exceeded in %d of %d", c, bound, over, trials)
		require.Less(t, (bound-1)/(sum/trials-1), 3.0, "%v: bound %g, mean %g", c, bound, sum/trials)
	}
	require.Equal(t, 1.0, boundMaxOverMean(100, 1))
	require.Equal(t, 1.0, boundMaxOverMean(0, 16))
	require.LessOrEqual(t, boundMaxOverMean(1, 16), 16.0)
	require.Equal(t, Spread{Ranges: 2, Loads: []int64{0, 0}}, newSpread([]int64{0, 0}, 0))
}

func TestLedger(t *testing.T) {
	l := newLedger(130)
	l.acknowledged([]mark{{0, 0}, {129, 2}, {64, 2 | secondWrite}})
	l.doubtful([]mark{{64, 2}, {65, 2}})
	require.Equal(t, written{first: true}, l.look(0, 0))
	require.Equal(t, written{first: true}, l.look(129, 2))
	require.Equal(t, written{second: true, doubt: true}, l.look(64, 2))
	require.Equal(t, written{doubt: true}, l.look(65, 2))
	for _, none := range [][2]int{{1, 0}, {0, 1}, {128, 2}, {0, 99}} {
		require.Equal(t, written{}, l.look(none[0], none[1]))
	}
}
