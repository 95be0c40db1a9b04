package ingest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
)

// TestChangesAreTold compares the change log with one that remembers every sample: nothing that changed is left out,
// and nothing is told beyond the minutes between the first and the last change.
func TestChangesAreTold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const day = 24 * 60 * changeSpanMs
	c := newChangeLog()
	r := &request{i: &intake{changes: c}}
	type change struct {
		generation uint64
		tsMs       int64
	}
	var all []change
	for round := range 2000 {
		base := 10*day + int64(round)*changeSpanMs
		var samples []head.Sample
		for range 1 + rng.IntN(20) {
			tsMs := base + rng.Int64N(3*changeSpanMs)
			if rng.IntN(30) == 0 {
				tsMs = rng.Int64N(20 * day) // late, or ahead
			}
			samples = append(samples, head.Sample{TsMs: tsMs})
		}
		r.noteChanges(samples)
		for _, s := range samples {
			all = append(all, change{c.current(), s.TsMs})
		}
		since := uint64(rng.IntN(int(c.current()) + 1))
		mint := rng.Int64N(20 * day)
		maxt := mint + rng.Int64N(2*day)
		from, to, changed := c.since(since, mint, maxt)
		wantFrom, wantTo := int64(1)<<62, int64(-1)
		for _, s := range all {
			if s.generation > since && s.tsMs >= mint-changeSpanMs && s.tsMs <= maxt+changeSpanMs {
				wantFrom, wantTo = min(wantFrom, s.tsMs), max(wantTo, s.tsMs)
				if s.tsMs >= mint && s.tsMs <= maxt {
					require.True(t, changed)
					require.LessOrEqual(t, from, s.tsMs)
					require.GreaterOrEqual(t, to, s.tsMs)
				}
			}
		}
		if changed {
			require.GreaterOrEqual(t, from, max(mint, wantFrom-changeSpanMs))
			require.LessOrEqual(t, to, min(maxt, wantTo+changeSpanMs))
		}
	}
	_, _, changed := c.since(c.current(), 0, 40*day)
	require.False(t, changed, "nothing changes by asking")
}

// TestForgottenChanges: what does not fit is taken as changed.
func TestForgottenChanges(t *testing.T) {
	c := newChangeLog()
	for span := range int64(changeSpansMax) {
		c.note(span, 1, nil)
	}
	_, _, changed := c.since(5, 0, 5*changeSpanMs-1)
	require.False(t, changed)
	c.note(0, 0, []int64{changeSpansMax}) // the first span is forgotten, it changed at generation 1
	require.Len(t, c.spans, changeSpansMax)
	_, _, changed = c.since(0, 1000*changeSpanMs, 1000*changeSpanMs)
	require.True(t, changed)
	_, _, changed = c.since(1, 0, changeSpanMs-1)
	require.False(t, changed, "generation 1 has seen the change")
}

// TestBackfillIsToldByHours: a request that fills in months does not push out what has changed lately, and nothing of what
// it changed is left out.
func TestBackfillIsToldByHours(t *testing.T) {
	c := newChangeLog()
	r := &request{i: &intake{changes: c}}
	c.note(1_000_000, 1, nil)
	const first, minutes = 500_001, 2000
	for n := range int64(100) {
		var samples []head.Sample
		for minute := range int64(minutes) {
			samples = append(samples, head.Sample{TsMs: (first + n*minutes + minute) * changeSpanMs})
		}
		before := c.current()
		r.noteChanges(samples)
		for _, s := range samples {
			_, _, changed := c.since(before, s.TsMs, s.TsMs)
			require.True(t, changed)
		}
		fromMs, toMs, _ := c.since(before, 0, 2*first*changeSpanMs)
		require.LessOrEqual(t, samples[0].TsMs-fromMs, int64(minutesPerHour*changeSpanMs))
		require.LessOrEqual(t, toMs-samples[minutes-1].TsMs, int64(minutesPerHour*changeSpanMs))
	}
	require.Less(t, len(c.spans), 5000)
	fromMs, toMs, changed := c.since(0, 900_000*changeSpanMs, 2_000_000*changeSpanMs)
	require.True(t, changed)
	require.Equal(t, []int64{1_000_000 * changeSpanMs, 1_000_001*changeSpanMs - 1}, []int64{fromMs, toMs})
}

func BenchmarkNoteChanges(b *testing.B) {
	r := &request{i: &intake{changes: newChangeLog()}}
	samples := make([]head.Sample, 2000)
	for i := range samples {
		samples[i].TsMs = 1_700_000_000_000 + int64(i%4)*15_000
	}
	for b.Loop() {
		r.noteChanges(samples)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
}
