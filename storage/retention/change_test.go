package retention_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/retention"
)

// TestChange changes the retention between sweeps. The policy of a table is never shorter than the retention in force.
func TestChange(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	first := agesOf(t, 8, nil)
	kept := keyschema.NewRetention(first)
	fill(t, s, first)
	sweeper, err := retention.New(retention.Options{Store: s, Retention: kept, Now: now, Grace: -1, Share: 1})
	require.NoError(t, err)
	policy := func() time.Duration {
		table, err := s.Table(t.Context(), storage.TableData)
		require.NoError(t, err)
		return table.Schema().Families[0].GC.MaxAge
	}
	sweep := func() map[string]map[int64]int {
		_, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.CollectGarbage(t.Context()))
		return cells(t, s, storage.TableData, storage.FamilySamples)
	}
	const day = 24 * time.Hour
	require.Equal(t, 8*day, policy())

	shorter := agesOf(t, 4, map[string]int{"debug_*": 2})
	require.NoError(t, sweeper.Change(t.Context(), shorter, func() error {
		kept.Replace(shorter)
		return nil
	}))
	require.Equal(t, 8*day, policy(), "the next sweep shortens it")
	found := sweep()
	require.Equal(t, 4*day, policy())
	require.Len(t, found["debug_a"], 3)
	require.Len(t, found["keep"], 5)

	longer := agesOf(t, 9, map[string]int{"debug_*": 6})
	refused := errors.New("refused")
	require.ErrorIs(t, sweeper.Change(t.Context(), longer, func() error {
		require.Equal(t, 9*day, policy(), "longer before ingestion accepts older samples")
		return refused
	}), refused)
	require.Same(t, shorter, kept.Load())
	sweep()
	require.Equal(t, 4*day, policy(), "the retention in force")
	require.NoError(t, s.Close())
}

// dropping runs before the first drop of cells.
type dropping struct {
	storage.Store
	before func()
}

func (d *dropping) Table(ctx context.Context, name string) (storage.Table, error) {
	table, err := d.Store.Table(ctx, name)
	if err != nil || name != storage.TableData {
		return table, err
	}
	return &droppingTable{table.(storage.SpanTable), d}, nil
}

type droppingTable struct {
	storage.SpanTable
	store *dropping
}

func (d *droppingTable) Days(ctx context.Context, family string) ([]int64, error) {
	if before := d.store.before; before != nil {
		d.store.before = nil
		before()
	}
	return d.SpanTable.Days(ctx, family)
}

// TestChangeDuringSweep lengthens the retention after a sweep has begun. The sweep drops nothing that the new one keeps.
func TestChangeDuringSweep(t *testing.T) {
	inner := openStore(t, vfs.NewMem())
	ages, longer := agesOf(t, 9, map[string]int{"debug_*": 2}), agesOf(t, 9, map[string]int{"debug_*": 5})
	fill(t, inner, ages)
	kept, s := keyschema.NewRetention(ages), &dropping{Store: inner}
	sweeper, err := retention.New(retention.Options{Store: s, Retention: kept, Now: now, Grace: -1, Share: 1})
	require.NoError(t, err)
	s.before = func() {
		require.NoError(t, sweeper.Change(t.Context(), longer, func() error {
			kept.Replace(longer)
			return nil
		}))
	}
	_, err = sweeper.Sweep(t.Context())
	require.NoError(t, err)
	require.Nil(t, s.before)
	require.Len(t, cells(t, inner, storage.TableData, storage.FamilySamples)["debug_a"], 6)
	require.NoError(t, inner.Close())
}

// TestRowsFlushedAfterSweep: a sweep by new rules does not see the rows that are still in memory. Later sweeps drop them, and so
// they drop rows that ingestion has accepted by rules that were in force for a moment.
func TestRowsFlushedAfterSweep(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	ages, shorter := agesOf(t, 30, map[string]int{"debug_*": 8}), agesOf(t, 30, map[string]int{"debug_*": 2})
	fill(t, s, ages)
	kept, clock := keyschema.NewRetention(ages), now()
	sweeper, err := retention.New(retention.Options{Store: s, Retention: kept, Now: func() time.Time { return clock }, Share: 1})
	require.NoError(t, err)
	change := func(to *keyschema.RetentionByMetric) {
		require.NoError(t, sweeper.Change(t.Context(), to, func() error { kept.Replace(to); return nil }))
	}
	sweep := func() {
		_, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		found := cells(t, s, storage.TableData, storage.FamilySamples)
		require.Len(t, found["debug_a"], 3, "%s: %v", clock, found["debug_a"])
		require.Len(t, found["keep"], 10)
	}
	change(shorter)
	sweep()
	fill(t, s, ages) // a flush of rows from before the change
	sweep()
	for range 2 { // the second sweep stores the progress
		clock = clock.Add(6 * time.Hour)
		sweep()
	}
	change(ages)
	fill(t, s, ages)
	change(shorter)
	sweep()
}

// TestRowsReplayedAfterSweep: a server crashes and starts two days later. It sweeps before it flushes the rows that it has read
// back from the log. A later sweep drops them.
func TestRowsReplayedAfterSweep(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	ages, clock := agesOf(t, 30, map[string]int{"debug_*": 2}), now()
	start := func() (sweep func() map[int64]int) {
		sweeper, err := retention.New(retention.Options{Store: s, Retention: keyschema.NewRetention(ages), Share: 1,
			Now: func() time.Time { return clock }})
		require.NoError(t, err)
		return func() map[int64]int {
			_, err := sweeper.Sweep(t.Context())
			require.NoError(t, err)
			return cells(t, s, storage.TableData, storage.FamilySamples)["debug_a"]
		}
	}
	fill(t, s, ages)
	sweep := start()
	sweep()
	clock = clock.Add(6 * time.Hour)
	require.Len(t, sweep(), 3, "days from %d to %d", today-2, today)
	fill(t, s, ages)
	require.Len(t, sweep(), 10, "it has stored its progress")

	clock = clock.Add(48 * time.Hour)
	sweep = start()
	require.NotContains(t, sweep(), int64(today-1))
	fill(t, s, ages)
	require.NotContains(t, sweep(), int64(today-1))
	clock = clock.Add(6 * time.Hour)
	require.NotContains(t, sweep(), int64(today-1))
	fill(t, s, ages)
	require.Contains(t, sweep(), int64(today-1), "it has stored its progress")
}

// TestOldAgesAfterCrash: a server with longer ages accepts older samples and is killed. The sweeper of a server with the ages
// before sweeps their days again.
func TestOldAgesAfterCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openStore(t, fs)
	short, long := agesOf(t, 30, map[string]int{"debug_*": 2}), agesOf(t, 30, nil)
	sweep := func(ages *keyschema.RetentionByMetric) {
		_, err := newSweeper(t, s, ages).Sweep(t.Context())
		require.NoError(t, err)
	}
	fill(t, s, short)
	sweep(short)
	require.NoError(t, s.Sync(t.Context()))
	sweep(long)
	crashed := fs.CrashClone(vfs.CrashCloneCfg{RNG: rand.New(rand.NewPCG(1, 1))}) // loses all that is not synced
	require.NoError(t, s.Close())
	s = openStore(t, crashed)
	defer func() { require.NoError(t, s.Close()) }()
	fill(t, s, short) // the log has the accepted samples
	sweep(short)
	require.Len(t, cells(t, s, storage.TableData, storage.FamilySamples)["debug_a"], 3)
}
