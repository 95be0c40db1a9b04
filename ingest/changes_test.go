package ingest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest/head"
)

// TestChangedSince compares the change clock with a list of all samples. It reports every change, and nothing beyond the minutes
// between the first and the last change.
func TestChangedSince(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const day = 24 * 60 * minuteMs
	w := &Writer{}
	r := &Request{w: w}
	type change struct {
		generation uint64
		tsMs       int64
	}
	var all []change
	rounds := 2000
	if testing.Short() {
		rounds = 300
	}
	for round := range rounds {
		base := 10*day + int64(round)*minuteMs
		var samples []head.Sample
		for range 1 + rng.IntN(20) {
			tsMs := base + rng.Int64N(3*minuteMs)
			if rng.IntN(30) == 0 {
				tsMs = rng.Int64N(20 * day) // late, or ahead
			}
			samples = append(samples, head.Sample{TsMs: tsMs})
		}
		r.NoteChanges(samples)
		for _, s := range samples {
			all = append(all, change{w.Generation(), s.TsMs})
		}
		since := uint64(rng.IntN(int(w.Generation()) + 1))
		mint := rng.Int64N(20 * day)
		maxt := mint + rng.Int64N(2*day)
		from, to, changed := w.ChangedSince(since, mint, maxt)
		wantFrom, wantTo := int64(1)<<62, int64(-1)
		for _, s := range all {
			if s.generation > since && s.tsMs >= mint-minuteMs && s.tsMs <= maxt+minuteMs {
				wantFrom, wantTo = min(wantFrom, s.tsMs), max(wantTo, s.tsMs)
				if s.tsMs >= mint && s.tsMs <= maxt {
					require.True(t, changed)
					require.LessOrEqual(t, from, s.tsMs)
					require.GreaterOrEqual(t, to, s.tsMs)
				}
			}
		}
		if changed {
			require.GreaterOrEqual(t, from, max(mint, wantFrom-minuteMs))
			require.LessOrEqual(t, to, min(maxt, wantTo+minuteMs))
		}
	}
	_, _, changed := w.ChangedSince(w.Generation(), 0, 40*day)
	require.False(t, changed, "nothing changes by asking")
}

// TestBackfillChangesHours checks that a request of many months does not make the clock evict recent changes, and that the
// clock reports all of its own changes.
func TestBackfillChangesHours(t *testing.T) {
	w := &Writer{}
	r := &Request{w: w}
	w.changes.Change([]int64{1_000_000})
	const first, minutes = 500_001, 2000
	for n := range int64(100) {
		var samples []head.Sample
		for minute := range int64(minutes) {
			samples = append(samples, head.Sample{TsMs: (first + n*minutes + minute) * minuteMs})
		}
		before := w.Generation()
		r.NoteChanges(samples)
		for _, s := range samples {
			_, _, changed := w.ChangedSince(before, s.TsMs, s.TsMs)
			require.True(t, changed)
		}
		fromMs, toMs, _ := w.ChangedSince(before, 0, 2*first*minuteMs)
		require.LessOrEqual(t, samples[0].TsMs-fromMs, int64(minutesPerHour*minuteMs))
		require.LessOrEqual(t, toMs-samples[minutes-1].TsMs, int64(minutesPerHour*minuteMs))
	}
	fromMs, toMs, changed := w.ChangedSince(0, 900_000*minuteMs, 2_000_000*minuteMs)
	require.True(t, changed)
	require.Equal(t, []int64{1_000_000 * minuteMs, 1_000_001*minuteMs - 1}, []int64{fromMs, toMs})
}

func BenchmarkNoteChanges(b *testing.B) {
	r := &Request{w: &Writer{}}
	samples := make([]head.Sample, 2000)
	for i := range samples {
		samples[i].TsMs = 1_700_000_000_000 + int64(i%4)*15_000
	}
	for b.Loop() {
		r.NoteChanges(samples)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/sample")
}
