package job

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
)

// writeHistograms writes one chunk with histograms of values, a minute apart from the start of an hour on.
func (r *rig) writeHistograms(t testing.TB, s *series, hour, minute int64, values ...int64) {
	t.Helper()
	var tsMs []int64
	at := map[int64]float64{}
	for i, n := range values {
		ts := keyschema.HourStartMs(hour) + (minute+int64(i))*60_000
		tsMs, at[ts] = append(tsMs, ts), float64(n)
	}
	require.NoError(t, r.data.Apply(context.Background(), []storage.RowMutation{{
		Key:     keyschema.AppendHour(bytes.Clone(s.prefix), hour),
		Entries: []storage.Entry{s.histogramEntry(t, hour, tsMs, at)},
	}}))
}

// kept returns the minutes and counts of the histograms in the states of two days.
func (r *rig) kept(t testing.TB, s *series) (out [][2]int64) {
	t.Helper()
	first := firstDay * int64(keyschema.DayHours)
	req := store.Request{Prefixes: [][]byte{s.prefix}, From: first, To: first + 47}
	require.NoError(t, r.ReadHistograms(context.Background(), req, func(_ int, samples []histchunk.Sample) error {
		for _, h := range samples {
			out = append(out, [2]int64{(h.TsMs - firstDay*dayMs) / 60_000, int64(h.H.Count) / 2})
		}
		return nil
	}))
	return out
}

// TestHistogramsOfHours follows the histograms of one series through late samples, removed rows and retention.
func TestHistogramsOfHours(t *testing.T) {
	clock := newClock(firstDay)
	r := openRig(t, vfs.NewMem(), clock, func(o *rigOptions) { o.keep(48*time.Hour, 100*24*time.Hour) })
	defer r.close(t)
	s, first := newSeries(1), firstDay*int64(keyschema.DayHours)
	r.writeHistograms(t, s, first, 0, 1, 2, 3)
	r.writeHistograms(t, s, first+1, 0, 5, 1, 2)
	r.writeHistograms(t, s, first+2, 0, 3, 4)
	require.Empty(t, r.kept(t, s))
	clock.Add(dayMs + keyschema.HourMs)
	r.work(t)
	require.Equal(t, [][2]int64{{0, 1}, {2, 3}, {60, 5}, {62, 2}, {121, 4}}, r.kept(t, s))
	require.Zero(t, r.verified(t).Different)

	r.writeHistograms(t, s, first+2, 1, 7, 8) // replaces a sample
	r.work(t)
	require.Equal(t, [][2]int64{{0, 1}, {2, 3}, {60, 5}, {62, 2}, {122, 8}}, r.kept(t, s))
	require.Zero(t, r.verified(t).Different)

	r.remove(t, s, first+1, first+1)
	require.Equal(t, [][2]int64{{0, 1}, {2, 3}, {122, 8}}, r.kept(t, s), "before the job has run")
	r.work(t)
	// No reset lies between the remaining hours.
	require.Equal(t, [][2]int64{{0, 1}, {2, 3}, {122, 8}}, r.kept(t, s))

	clock.Store((firstDay+2)*dayMs + 3*keyschema.HourMs/2) // the samples of the first hour have expired
	r.writeHistograms(t, s, first+3, 0, 9)                 // so the first hour keeps its histograms
	r.work(t)                                              // and the next hour keeps its first one
	require.Equal(t, [][2]int64{{0, 1}, {2, 3}, {120, 3}, {122, 8}, {180, 9}}, r.kept(t, s))
	v := r.verified(t)
	require.Equal(t, 1, v.Orphans)
	require.Zero(t, v.Different)

	clock.Add(50 * dayMs)
	require.Len(t, r.kept(t, s), 5)
	clock.Add(50 * dayMs)
	require.Empty(t, r.kept(t, s))
}

// TestDamagedHistograms: reads of a damaged cell fail, Verify names it, and Rebuild repairs it.
func TestDamagedHistograms(t *testing.T) {
	r, all, _ := filled(t, 1, nil)
	defer r.close(t)
	s := newSeries(9)
	r.writeHistograms(t, s, firstDay*keyschema.DayHours, 0, 1, 2)
	clock := r.clock
	clock.Add(dayMs)
	r.work(t)
	require.Len(t, r.kept(t, s), 2)
	require.Empty(t, r.kept(t, all[0]))
	month := store.MonthOfDay(firstDay)
	damage := storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: store.DayCellMs(firstDay),
		Qualifier: store.HistogramsQualifier(store.DayOfMonth(firstDay)), Value: []byte("damaged"),
	}
	key := keyschema.AppendMonthKey(nil, s.prefix, month)
	require.NoError(t, r.Table.Apply(context.Background(), []storage.RowMutation{{Key: key, Entries: []storage.Entry{damage}}}))
	req := store.Request{Prefixes: [][]byte{s.prefix}, From: firstDay * keyschema.DayHours, To: firstDay * keyschema.DayHours}
	err := r.ReadHistograms(context.Background(), req, func(int, []histchunk.Sample) error { return nil })
	require.ErrorIs(t, err, storage.ErrCorrupt)
	require.ErrorContains(t, err, string(key))
	require.ErrorIs(t, store.CheckCell(key, &storage.Cell{
		Family: damage.Family, Qualifier: damage.Qualifier, TsMs: damage.TsMs, Value: damage.Value,
	}), storage.ErrCorrupt)
	require.InDelta(t, 1, r.counter(t, "tsdb_rollup_corrupt_cells_total"), 0)
	var named []Difference
	_, err = r.Verify(context.Background(), firstDay, firstDay, func(d Difference) error {
		named = append(named, d)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, named, 1)
	require.ErrorIs(t, named[0].Err, cell.ErrCorrupt)
	require.NoError(t, r.Rebuild(context.Background(), firstDay, firstDay))
	require.Len(t, r.kept(t, s), 2)
	require.Zero(t, r.verified(t).Different)
}

// TestDamagedRowOfHistograms: if the chunk of an hour cannot be read, the hour keeps no histograms. Other hours do.
func TestDamagedRowOfHistograms(t *testing.T) {
	r := openRig(t, vfs.NewMem(), newClock(firstDay), nil)
	defer r.close(t)
	s, first := newSeries(1), firstDay*int64(keyschema.DayHours)
	r.writeHistograms(t, s, first, 0, 1, 2)
	r.writeHistograms(t, s, first+1, 0, 3, 4)
	require.NoError(t, r.raw.Apply(context.Background(), []storage.RowMutation{{
		Key: keyschema.AppendHour(bytes.Clone(s.prefix), first), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilyHistograms, TsMs: keyschema.HourCellMs(first),
			Qualifier: keyschema.AppendChunkQualifier(nil, 77), Value: []byte("damaged"),
		}},
	}}))
	r.clock.Add(dayMs + keyschema.HourMs)
	r.work(t)
	require.Equal(t, [][2]int64{{60, 3}, {61, 4}}, r.kept(t, s))
	require.InDelta(t, 1, r.counter(t, "tsdb_rollup_unreadable_rows_total"), 0)
}

// TestVerifyReportsOtherHistograms: verify reports stored histograms that differ from the histograms of the rows.
func TestVerifyReportsOtherHistograms(t *testing.T) {
	r := openRig(t, vfs.NewMem(), newClock(firstDay), nil)
	defer r.close(t)
	s := newSeries(1)
	s.histograms = true
	rng := rand.New(rand.NewPCG(1, 1))
	r.write(t, rng, s, generate(rng, 0, firstDay*dayMs, (firstDay+1)*dayMs, 600_000))
	r.clock.Add(dayMs + keyschema.HourMs)
	r.work(t)
	require.Zero(t, r.verified(t).Different)
	hour := firstDay*int64(keyschema.DayHours) + 5
	raw := r.data
	r.data = r.raw // past the marks
	r.writeHistograms(t, s, hour, 59, 12345)
	r.data = raw
	var named []Difference
	_, err := r.Verify(context.Background(), firstDay, firstDay, func(d Difference) error {
		named = append(named, d)
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, named)
	require.Equal(t, hour, named[0].Bucket)
	require.ErrorContains(t, named[0].Err, "native histograms differ")
}
