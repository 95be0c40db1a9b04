package job

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup/store"
)

// TestStatesStayWhenRetentionGrows lets samples expire by a short retention, opens with a longer one and computes again.
// The states of expired samples stay, even if the current retention would keep the samples.
func TestStatesStayWhenRetentionGrows(t *testing.T) {
	for _, of := range []string{"single series", "the whole day", "a series during a pass"} {
		t.Run(of, func(t *testing.T) { statesStay(t, of) })
	}
}

func statesStay(t *testing.T, of string) {
	ctx := context.Background()
	r, all, rng := filled(t, 3, func(o *rigOptions) { o.keep(10*24*time.Hour, 400*24*time.Hour) })
	r.work(t)
	_, others := r.known(t, all[1], store.Hours, 3)
	r.clock.Store((firstDay + 20) * dayMs)
	r.work(t)
	require.NoError(t, r.store.CollectGarbage(ctx))
	r.close(t)

	r = openRig(t, r.fs, r.clock, func(o *rigOptions) {
		o.keep(100*24*time.Hour, 400*24*time.Hour)
		if of == "the whole day" {
			o.MarksMax = 1
		}
	})
	defer r.close(t)
	within := func(hour int64) int {
		tsMs, _ := all[0].columns(firstDay*dayMs+hour*keyschema.HourMs, firstDay*dayMs+(hour+1)*keyschema.HourMs-1)
		return len(tsMs)
	}
	want := len(all[0].samples) - within(20) - within(22) + 2
	r.requireStates(t, all[0])
	late := map[int64]float64{firstDay*dayMs + 20*keyschema.HourMs + 1: 7, firstDay*dayMs + 22*keyschema.HourMs + 1: 8}
	if of == "a series during a pass" { // no mark shows which of its hours are dirty
		p := r.newDayPass(firstDay, nil, 1)
		r.planDay(t, firstDay)
		require.Equal(t, store.WorkWhole, r.Manifest.BeginPass(firstDay))
		require.NoError(t, p.computeAll(ctx))
		r.write(t, rng, all[0], late)
		require.NoError(t, p.flush(ctx))
		require.NoError(t, r.Manifest.FinishPass(ctx))
		require.Equal(t, store.WorkPart, r.Manifest.View().Days[firstDay])
	} else {
		r.write(t, rng, all[0], late)
	}
	for range 2 {
		r.work(t)
		_, samples := r.known(t, all[0], store.Hours, 3)
		require.Equal(t, want, samples, "hours without samples keep their states")
		_, samples = r.known(t, all[1], store.Hours, 3)
		require.Equal(t, others, samples, "other series keep their states")
		require.Positive(t, r.verified(t).Orphans)
		require.NoError(t, r.Rebuild(ctx, 0, 1<<40))
	}
	// If something other than retention removes rows, their states do not stay.
	gone := 1 + within(21) + 1 + within(23)
	r.remove(t, all[0], firstDay*24+20, firstDay*24+23)
	r.work(t)
	_, samples := r.known(t, all[0], store.Hours, 3)
	require.Equal(t, want-gone, samples)
}

// requireStates fails unless hours with expired samples have states. They have them even while the day waits for the job and
// readers do not use its states.
func (r *rig) requireStates(t *testing.T, s *series) {
	t.Helper()
	ctx := context.Background()
	hours := map[int64]bool{firstDay*keyschema.DayHours + 20: false, firstDay*keyschema.DayHours + 21: false}
	r.planDay(t, firstDay)
	require.False(t, r.Has(store.Hours, firstDay))
	require.NoError(t, r.HasStates(ctx, []store.HoursQuery{{Prefix: s.prefix, Hours: hours}}))
	for hour, has := range hours {
		require.True(t, has, "hour %d", hour)
	}
	r.work(t)
}
