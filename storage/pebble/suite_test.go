package pebble_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/storagetest"
)

// TestContract runs the suite on an in-memory file system, with memtables so small that flushes and compactions occur.
func TestContract(t *testing.T) {
	systems := map[storage.Store]vfs.FS{}
	open := func(t testing.TB, fs vfs.FS, now func() time.Time) storage.Store {
		s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, Now: now, MemtableBytes: 256 << 10})
		require.NoError(t, err)
		systems[s] = fs
		return s
	}
	storagetest.Run(t, func(t testing.TB, now func() time.Time) storage.Store {
		return open(t, vfs.NewMem(), now)
	}, storagetest.Caps{
		Reopen: func(t testing.TB, s storage.Store, now func() time.Time) storage.Store {
			require.NoError(t, s.Close())
			return open(t, systems[s], now)
		},
		Compact: func(t testing.TB, s storage.Store) { require.NoError(t, s.(*pebble.Store).Compact(t.Context())) },
	})
}
