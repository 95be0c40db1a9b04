package pebble_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

// TestEverythingAtOnce runs all calls concurrently, to find races and deadlocks. Rows that no call deletes are always
// complete.
func TestEverythingAtOnce(t *testing.T) {
	const rounds = 40
	now := time.UnixMilli(500_000 * 3_600_000)
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: vfs.NewMem(), MemtableBytes: 128 << 10,
		TabletBytesMax: 32 << 10, CacheBytes: 1 << 20, Now: func() time.Time { return now }})
	require.NoError(t, err)
	schema := storage.DataSchema(24 * time.Hour)
	table, err := s.EnsureTable(t.Context(), schema)
	require.NoError(t, err)
	rows := faultRows(0, 200)
	require.NoError(t, table.Load(t.Context(), rows))
	late := func(round int) []storage.RowMutation {
		muts := tabletRows(20, 5)
		for i := range muts {
			muts[i].Entries[0].TsMs = now.UnixMilli() - int64(round%40)*3_600_000
		}
		return muts
	}
	work := map[string]func(round int) error{
		"apply": func(int) error { return table.Apply(t.Context(), rows[:100]) },
		"load":  func(int) error { return table.Load(t.Context(), rows[50:]) },
		"late":  func(round int) error { return table.Apply(t.Context(), late(round)) },
		"delete": func(int) error {
			return table.DropRows(t.Context(), storage.RowRange{Start: []byte("m#00#s"), End: []byte("m#00#t")})
		},
		"sync":    func(int) error { return s.Sync(t.Context()) },
		"collect": func(int) error { return s.CollectGarbage(t.Context()) },
		"ensure": func(round int) error {
			changed := storage.DataSchema(time.Duration(24+round%2) * time.Hour)
			_, err := s.EnsureTable(t.Context(), changed)
			return err
		},
		"check": func(round int) error {
			_, err := table.CheckAndApply(t.Context(), rows[round].Key, storage.Filter{}, rows[round], rows[round])
			return err
		},
		"tablets": func(int) error { _, err := table.Tablets(t.Context()); return err },
		"stats":   func(int) error { _ = s.Stats(); _ = s.Metrics(); return nil },
		"read": func(int) error {
			it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{Start: []byte("m#00#row"),
				End: []byte("m#00#row=~")}}}, storage.ReadOptions{})
			n := 0
			for it.Next() {
				n++
			}
			if n != len(rows) && it.Err() == nil {
				return fmt.Errorf("%d rows, want %d", n, len(rows))
			}
			_ = it.Close()
			return it.Err()
		},
	}
	var group sync.WaitGroup
	for name, fn := range work {
		group.Go(func() {
			for round := range rounds {
				if err := fn(round); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	group.Wait()
	require.NoError(t, s.Close())
}

func TestStatsAndMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	opts := pebble.Options{Dir: "/data", FS: vfs.NewMem(), Registerer: registry, CacheBytes: 1 << 20}
	s, err := pebble.Open(opts)
	require.NoError(t, err)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), faultRows(0, 10)))
	before := s.Stats()
	require.Equal(t, uint64(1), before.UnsyncedWrites)
	require.Equal(t, 1, before.Tables)
	require.Equal(t, 1, before.Tablets)
	require.Equal(t, 1, before.Partitions)
	require.NoError(t, s.Sync(t.Context()))
	after := s.Stats()
	require.Zero(t, after.UnsyncedWrites)
	require.Greater(t, after.Flushes, before.Flushes)
	require.Greater(t, after.Files, int64(0))
	flushes := after.Flushes
	require.NoError(t, s.Sync(t.Context()))
	require.Equal(t, flushes, s.Stats().Flushes, "nothing is flushed when nothing is new")
	require.Contains(t, s.Metrics(), "level")
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.Equal(t, float64(flushes), values["tsdb_pebble_flushes_total"])
	require.Equal(t, float64(after.Files), values["tsdb_pebble_level_files"])
	require.Equal(t, 1.0, values["tsdb_pebble_writable"])
	require.Contains(t, values, "tsdb_pebble_stalls_total")
	require.NoError(t, s.Close())
	s, err = pebble.Open(opts)
	require.NoError(t, err, "Close takes the metrics back")
	require.NoError(t, s.Close())
}
