package distribution

import (
	"halite/keyschema"
	"halite/loadtest/acked"
	"halite/loadtest/fleet"
	"halite/loadtest/load"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const startMs = 1_763_683_200_000

// TestBoundHolds places balls in bins at random. The bound must not fail more often than it claims, and must not be useless.
func TestBoundHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 99))
	for _, c := range []struct{ balls, bins int }{{50, 16}, {1000, 16}, {20_000, 16}, {2000, 100}} {
		bound := maxOverMeanBound(c.balls, c.bins)
		over, sum := 0, 0.0
		const trials = 400
		for range trials {
			loads := make([]int64, c.bins)
			for range c.balls {
				loads[r.IntN(c.bins)]++
			}
			s := newSkew(loads, c.balls)
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
	require.Equal(t, 1.0, maxOverMeanBound(100, 1))
	require.Equal(t, 1.0, maxOverMeanBound(0, 16))
	require.LessOrEqual(t, maxOverMeanBound(1, 16), 16.0)
	require.Equal(t, Skew{Ranges: 2, Loads: []int64{0, 0}}, newSkew([]int64{0, 0}, 0))
}

// TestTabletsByKey assigns the keys of a load to tablets and compares the sums with the sums of the salts.
func TestTabletsByKey(t *testing.T) {
	start := time.UnixMilli(startMs)
	o := load.Options{Fleet: fleet.Options{HotSeries: 300}, From: start, To: start.Add(4 * time.Hour),
		Interval: time.Hour, Senders: 1}
	require.NoError(t, o.Validate())
	timeline, err := load.NewTimeline(&o, time.Now)
	require.NoError(t, err)
	f, err := fleet.New(o.Fleet)
	require.NoError(t, err)
	acknowledged := acked.New(f.Slots())
	acknowledge := func(r *load.Request) error {
		acknowledged.Acknowledge(r.IDs)
		return nil
	}
	for _, s := range load.NewStreams(&o, f, timeline) {
		for s.NextStep() < timeline.Steps() {
			require.NoError(t, s.SendStep(acknowledge))
		}
		require.NoError(t, s.Drain(acknowledge))
	}
	tablets := []Tablet{{"", "loadtest_hot_total#08#", 0, 0}, {"loadtest_hot_total#08#", "", 0, 0}}
	a := &Analysis{Fleet: f, Timeline: timeline, Acked: acknowledged, Schema: keyschema.DefaultSchema(), Tablets: tablets}
	got := a.Run()
	require.Len(t, got.Metrics, 1)
	loads := got.Metrics[0].Rows.Loads
	require.Len(t, loads, keyschema.DefaultSalts)
	var low, high int64
	for salt, n := range loads {
		if salt < 8 {
			low += n
		} else {
			high += n
		}
	}
	require.Equal(t, int64(1200), low+high, "one row for each series and hour")
	require.Equal(t, []int64{low, high}, got.Tablets.Rows.Loads)
	require.Equal(t, got.Metrics[0].Rows.Loads, got.Salts[0].Samples.Loads, "one sample in each row")
	require.Less(t, got.Metrics[0].Rows.MaxOverMean, got.Metrics[0].Rows.Bound)

	clock := time.Unix(1000, 0)
	w := &TabletWatcher{now: func() time.Time { return clock }}
	w.observe([]Tablet{{"", "", 50, 500}})
	w.Finish([]Tablet{{"", "m", 30, 300}, {"m", "", 10, 100}}, got.Tablets)
	require.Equal(t, []int64{30, 10}, got.Tablets.RowsWritten.Loads,
		"after a split at the end, each tablet counts since its creation")
	require.Zero(t, got.Tablets.CountedSeconds)
	clock = clock.Add(time.Minute)
	w.observe([]Tablet{{"", "n", 1, 1}, {"n", "", 1, 1}})
	w.observe([]Tablet{{"", "m", 35, 350}, {"m", "", 15, 150}})
	clock = clock.Add(time.Minute)
	w.Finish([]Tablet{{"", "m", 36, 370}, {"m", "", 18, 190}}, got.Tablets)
	require.Equal(t, []int64{1, 3}, got.Tablets.RowsWritten.Loads)
	require.Equal(t, []int64{20, 40}, got.Tablets.BytesWritten.Loads)
	require.Equal(t, 60., got.Tablets.CountedSeconds)
}
