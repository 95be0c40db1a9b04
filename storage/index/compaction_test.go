package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// everyRow selects all rows of a table.
var everyRow = storage.RowSet{Ranges: []storage.RowRange{{}}}

// lateWorld returns a world with a compacted day with late touches, two more closed days and an open day, all persisted. Equal
// seeds make equal worlds.
func lateWorld(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	for range 20 {
		w.touchSome()
		w.advance(2 * time.Hour)
	}
	require.True(t, w.persist())
	require.True(t, w.maintain())
	w.advance(time.Hour)
	for range 40 {
		w.touch(w.add(), w.hourNow()-int64(w.rng.IntN(60)))
	}
	require.True(t, w.persist())
	return w
}

// everything compares all series over all hours and some random look-ups.
func (w *world) everything() {
	w.t.Helper()
	mint, maxt := int64(0), keyschema.HourCellMs((baseDay+20)*24)
	got, err := w.x.Select(context.Background(), nil, mint, maxt)
	require.NoError(w.t, err)
	w.same(w.expect(mint, maxt, nil), got, "everything")
	for range 5 {
		w.check()
	}
}

// TestCompactFailsAnywhere lets the n-th request of a compaction fail, with and without effect, for every n. Look-ups then
// find every series, in the same process and after a crash. The next Maintain finishes the compaction and leaves no other
// cells.
func TestCompactFailsAnywhere(t *testing.T) {
	for seed := range seedCount(t, 1) {
		requests := int64(0)
		{
			w := lateWorld(t, seed)
			before := w.store.budget.Load()
			require.True(t, w.maintain())
			requests = before - w.store.budget.Load()
			require.Greater(t, requests, int64(6))
		}
		step := max(1, requests/5)
		if testing.Short() {
			step *= 2
		}
		for n := int64(0); n < requests; n += step {
			for _, after := range []bool{false, true} {
				for _, crash := range []bool{false, true} {
					name := fmt.Sprintf("seed %d request %d of %d after=%v crash=%v", seed, n, requests, after, crash)
					w := lateWorld(t, seed)
					w.store.budget.Store(n)
					w.store.after = after
					require.False(t, w.maintain(), name)
					w.store.budget.Store(1 << 60)
					if crash {
						w.reopen()
					}
					w.everything()
					w.advance(24 * time.Hour)
					require.True(t, w.maintain(), name)
					w.everything()
					w.tidy(name)
					w.reopen()
					w.everything()
				}
			}
		}
	}
}

// tidy checks that the tables hold only the current generation of each day and the journals of open days.
func (w *world) tidy(name string) {
	w.t.Helper()
	periods := []presence.Partition{}
	for day := int64(baseDay - 5); day < baseDay+10; day++ {
		periods = append(periods, presence.DayPartition(day), presence.MonthOf(day))
	}
	for _, p := range periods {
		gen, open := uint32(0), !p.IsMonth() && w.x.open.Get(int64(p)) != nil
		if c := w.x.store.Closed.Get(p); c != nil {
			r, err := w.x.store.Manifest(context.Background(), c)
			require.NoError(w.t, err, name)
			gen = r.Gen
		}
		for _, t := range []storage.Table{w.x.store.SeriesTable, w.x.store.LabelsTable} {
			require.NoError(w.t, segment.EachCell(context.Background(), t, everyRow, p, func(key, qualifier []byte) error {
				if g, ok := segment.QualifierGen(qualifier); ok {
					require.Equal(w.t, gen, g, "%s: %q %q", name, key, qualifier)
					return nil
				}
				require.NotEqual(w.t, byte(segment.QualIntent), qualifier[0], name)
				require.True(w.t, qualifier[0] == segment.QualManifest || open, "%s: journal of a compacted day: %q", name, key)
				return nil
			}))
		}
	}
}

// TestCompactIsSeenWhole runs look-ups from another goroutine while days are compacted. No look-up misses a series.
func TestCompactIsSeenWhole(t *testing.T) {
	w := lateWorld(t, 5)
	mint, maxt := int64(0), keyschema.HourCellMs((baseDay+20)*24)
	want := len(w.expect(mint, maxt, nil))
	stop, done := make(chan struct{}), make(chan error)
	x := w.x
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			got, err := x.Select(context.Background(), nil, mint, maxt)
			if err == nil && len(got) != want {
				err = fmt.Errorf("%d of %d series found", len(got), want)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 6 {
		w.maintain()
		w.advance(24 * time.Hour)
		for _, s := range w.series {
			if s.hours[baseDay*24+5] {
				x.MarkActive(s.ref, baseDay*24+5)
			}
		}
	}
	close(stop)
	require.NoError(t, <-done)
}

func TestRefoldIsThrottled(t *testing.T) {
	w := lateWorld(t, 9)
	require.True(t, w.maintain())
	c := w.x.store.Closed.Day(baseDay)
	gen := c.Manifest.Load().Gen
	s := w.add()
	w.touch(s, baseDay*24)
	require.True(t, w.maintain())
	require.Equal(t, gen, c.Manifest.Load().Gen, "compacted a moment ago")
	w.advance(compaction.DayInterval)
	require.True(t, w.maintain())
	require.Equal(t, gen+1, c.Manifest.Load().Gen)
	require.Nil(t, w.x.open.Get(baseDay))
}

// TestLongerRetention lets a day expire and then lengthens the retention. The index finds the day again, and later samples of the
// day join its earlier series.
func TestLongerRetention(t *testing.T) {
	w := newWorld(t, 3)
	kept := keyschema.NewRetention(keyschema.KeepFor(48 * time.Hour).Load())
	var err error
	w.x, err = Open(t.Context(), Options{Store: w.store, Schema: w.schema, Now: w.now, Retention: kept.Tier(keyschema.Raw)})
	require.NoError(t, err)
	old, open := w.hourNow(), w.hourNow()+24
	add := func(name string, hour int64) {
		ref, _, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, name))
		require.NoError(t, err)
		w.x.MarkActive(ref, hour)
		require.NoError(t, w.x.Persist(t.Context()))
	}
	names := func(hour int64) []string {
		startMs := keyschema.HourStartMs(hour)
		got, err := w.x.LabelValues(t.Context(), model.MetricNameLabel, startMs, startMs+1, 0)
		require.NoError(t, err)
		return got
	}
	add("a", old)
	w.advance(26 * time.Hour)
	require.True(t, w.maintain()) // compacts the day of a
	add("b", open)
	w.advance(96 * time.Hour)
	w.x.compactor.Expire()
	require.Nil(t, w.x.store.Closed.Day(baseDay))
	require.Nil(t, w.x.open.Get(baseDay+1))

	const long = 10 * 24 * time.Hour
	for _, name := range []string{storage.TableSeries, storage.TableLabels} {
		_, err := w.store.EnsureTable(t.Context(), storage.IndexSchema(name, long))
		require.NoError(t, err)
	}
	longer := keyschema.KeepFor(long).Load()
	require.NoError(t, w.x.ChangeRetention(t.Context(), longer.Longest()[keyschema.Raw], func() { kept.Replace(longer) }))
	require.Equal(t, []string{"a"}, names(old))
	require.Equal(t, []string{"b"}, names(open))
	add("late", old)
	add("late", open)
	for range 2 {
		require.Equal(t, []string{"a", "late"}, names(old))
		require.Equal(t, []string{"b", "late"}, names(open))
		w.advance(compaction.DayInterval)
		require.True(t, w.maintain())
	}
	shorter := keyschema.KeepFor(48 * time.Hour).Load()
	require.NoError(t, w.x.ChangeRetention(t.Context(), shorter.Longest()[keyschema.Raw], func() { kept.Replace(shorter) }))
	require.Empty(t, names(old))
}

func TestRetention(t *testing.T) {
	w := newWorld(t, 3)
	w.retention = 48 * time.Hour
	w.reopen()
	ls := labels.FromStrings(model.MetricNameLabel, "old", "a", "b")
	ref, _, err := w.x.Add(ls)
	require.NoError(t, err)
	w.x.MarkActive(ref, w.hourNow())
	w.advance(26 * time.Hour)
	require.True(t, w.maintain())
	all := func() []Series {
		got, err := w.x.Select(context.Background(), nil, 0, 1<<60)
		require.NoError(t, err)
		return got
	}
	require.Len(t, all(), 1)
	w.advance(24 * time.Hour)
	require.Empty(t, all(), "beyond retention, though the day is still there")
	w.advance(24 * time.Hour)
	require.True(t, w.maintain())
	require.Nil(t, w.x.store.Closed.Day(baseDay))
	names, err := w.x.LabelNames(context.Background(), 0, 1<<60, 0)
	require.NoError(t, err)
	require.Empty(t, names)
}
