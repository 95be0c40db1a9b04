package ingest

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	"halite/rollup"
	rollupstore "halite/rollup/store"
)

// TestAgesThatGrow lets samples expire by a short age and opens the store with a longer one. Neither a late sample nor a
// deletion near the expired samples removes their states, and both report their work.
func TestAgesThatGrow(t *testing.T) {
	ctx, fs, c := context.Background(), vfs.NewMem(), ingesttest.NewClock()
	day := c.Now().UnixMilli()/dayMs + 1
	at := func(hour int) int64 { return day*dayMs + int64(hour)*keyschema.HourMs }
	raw := ageDay
	r, err := openStates(t, fs, c, keyschema.Rule{Pattern: "m", Retention: &keyschema.RuleRetention{Raw: &raw}})
	require.NoError(t, err)
	m := labels.FromStrings("__name__", "m")
	step := func(toMs int64) {
		t.Helper()
		require.NoError(t, r.Flush(ctx))
		c.Ms.Store(toMs)
		for worked := true; worked; {
			worked, err = r.tiers.Step(ctx)
			require.NoError(t, err)
		}
	}
	write := func(hours ...int) {
		t.Helper()
		for _, hour := range hours {
			_, err := r.Ingester.Write(ctx, SamplesInput([]Sample{{Labels: m, TsMs: at(hour) + 1000, Value: float64(hour)}}))
			require.NoError(t, err)
		}
	}
	c.Ms.Store(at(20))
	write(10, 12, 14)
	step(at(25))
	step(at(49))
	freed, err := r.sweeper.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(3), freed.Rows)
	require.NoError(t, r.Close(ctx))
	require.NoError(t, r.store.Close())

	r, err = openStates(t, fs, c)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, r.Close(ctx))
		require.NoError(t, r.store.Close())
	}()
	write(11)
	step(at(49) + (10 * time.Minute).Milliseconds())
	require.Equal(t, []int64{10, 11, 12, 14}, r.withStates(m, day))
	// Hours 10 and 12 have nothing to delete, hour 14 has its state.
	all := labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")
	count, err := r.CountDeletion(ctx, deletion.Request{Selectors: [][]*labels.Matcher{{all}}, FromMs: at(11), ToMs: at(14) + 1000})
	require.NoError(t, err)
	require.Equal(t, int64(1), count.Samples)
	require.Equal(t, rollupstore.Orphans{Hours: 2}, count.Orphans, "by what is there, not by ages")
	for hour, fromMs := range map[int]int64{10: 0, 12: 1001, 14: 1000} {
		_, err = r.DeleteSeries(ctx, deletion.Request{
			Selectors: [][]*labels.Matcher{{all}}, FromMs: at(hour) + fromMs, ToMs: at(hour) + fromMs + 1,
		})
		require.NoError(t, err)
	}
	require.NoError(t, r.deleter.CleanIndex(ctx))
	for _, clean := range []bool{false, true} {
		if clean {
			_, err = r.CleanTombstones(ctx)
			require.NoError(t, err)
			require.Equal(t, []int64{10, 11, 12}, r.withStates(m, day))
		}
		for hour := 9; hour < 15; hour++ {
			require.Equal(t, hour >= 10 && hour <= 12, r.listed(at(hour)), "hour %d", hour)
		}
	}
}

// withStates returns the hours of a day that have states with samples.
func (r *statesRig) withStates(ls labels.Labels, day int64) (hours []int64) {
	r.t.Helper()
	first, last := day*keyschema.DayHours, (day+1)*keyschema.DayHours-1
	r.states(ls, rollupstore.Hours, first, last, func(hour int64, known bool, s rollup.State) {
		require.True(r.t, known)
		if s.Count > 0 {
			hours = append(hours, hour-day*keyschema.DayHours)
		}
	})
	return hours
}

// listed reports whether the index lists any series in an hour.
func (r *statesRig) listed(fromMs int64) bool {
	r.t.Helper()
	found, err := r.index.Select(context.Background(), nil, fromMs, fromMs+keyschema.HourMs-1)
	require.NoError(r.t, err)
	return len(found) > 0
}
