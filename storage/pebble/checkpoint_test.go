package pebble_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

// TestCheckpoint makes checkpoints during writes. Each opens as a store with all rows that were written before the call.
func TestCheckpoint(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, fs)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	written := 0
	for _, dir := range []string{"/copies/0", "/copies/1", "/copies/2"} {
		require.NoError(t, table.Apply(t.Context(), faultRows(written, written+100)))
		require.NoError(t, table.Load(t.Context(), faultRows(written+100, written+200)))
		written += 200
		var stop atomic.Bool
		var work sync.WaitGroup
		later := written
		work.Go(func() {
			for ; !stop.Load() && later < 5000; later++ {
				if err := table.Apply(t.Context(), faultRows(later, later+1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		require.NoError(t, s.Checkpoint(t.Context(), dir))
		stop.Store(true)
		work.Wait()
		require.ErrorContains(t, s.Checkpoint(t.Context(), dir), "exists")
		copied, err := pebble.Open(pebble.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20})
		require.NoError(t, err)
		rows, err := copied.Table(t.Context(), storage.TableData)
		require.NoError(t, err)
		keys, err := readKeys(t, rows)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(keys), written)
		require.LessOrEqual(t, len(keys), later)
		require.NoError(t, copied.Close())
		written = later
	}
	wantKeys(t, table, written)
	require.NoError(t, s.Close())
	require.Equal(t, written, keysAfterReopen(t, fs))
	require.ErrorIs(t, s.Checkpoint(t.Context(), "/copies/3"), storage.ErrUnavailable)
}

// TestCheckpointDiskFull fills the disk for the checkpoint. The checkpoint fails at once, and the store continues.
func TestCheckpointDiskFull(t *testing.T) {
	for _, match := range []string{"/copy", "/copy/tree/MANIFEST", "/copy/tree/marker", "/copy/tree/OPTIONS", "/copy/SYNCED",
		"/copy/TABLES"} {
		disk := &fullDisk{match: match}
		fs := errorfs.Wrap(vfs.NewMem(), disk)
		s := openStore(t, fs)
		table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
		require.NoError(t, err)
		require.NoError(t, table.Apply(t.Context(), faultRows(0, 50)))
		disk.full.Store(true)
		require.ErrorIs(t, s.Checkpoint(t.Context(), "/copy"), storage.ErrUnavailable, match)
		require.NoError(t, s.Refusing(), match)
		require.NoError(t, table.Apply(t.Context(), faultRows(50, 60)))
		require.NoError(t, s.Sync(t.Context()))
		disk.full.Store(false)
		require.NoError(t, fs.RemoveAll("/copy"))
		require.NoError(t, s.Checkpoint(t.Context(), "/copy"))
		require.NoError(t, s.Close())
		require.Equal(t, 60, keysAfterReopen(t, fs), match)
	}
}
