package index

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage/pebble"
)

// TestPowerLoss runs on the embedded engine over a file system that loses unsynced bytes. The test replays all touches
// since the last Persist followed by a Sync, as the log does. No series may be missing then, even if a compaction, a
// persist or a clean-up was interrupted.
func TestPowerLoss(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			fs := vfs.NewCrashableMem()
			w.openPebble(fs)
			for range 25 {
				w.powerStep()
				if w.rng.IntN(4) == 0 {
					lost := fs.CrashClone(vfs.CrashCloneCfg{
						UnsyncedDataPercent: w.rng.IntN(101), RNG: rand.New(rand.NewPCG(seed, w.rng.Uint64())),
					})
					_ = w.store.Close() // the store of the dead process, whose files nothing reads again
					fs = lost
					w.openPebble(fs)
				}
				w.check()
			}
			w.everything()
			require.NoError(t, w.store.Close())
		})
	}
}

func (w *world) openPebble(fs vfs.FS) {
	store, err := pebble.Open(pebble.Options{Dir: "db", FS: fs, Now: w.now, MemtableBytes: 64 << 10, CacheBytes: 1 << 20})
	require.NoError(w.t, err)
	w.store.Store = store
	w.reopen()
}

// powerStep is a step after which persisted touches count only if they are synced.
func (w *world) powerStep() {
	switch w.rng.IntN(7) {
	case 0, 1:
		w.touchSome()
	case 2:
		w.flushRows()
		require.NoError(w.t, w.x.Persist(context.Background()))
		if w.rng.IntN(2) == 0 {
			require.NoError(w.t, w.store.Sync(context.Background()))
			for _, s := range w.series {
				clear(s.pending)
			}
		}
	case 3:
		w.advance(time.Duration(w.rng.IntN(20)) * time.Hour)
	case 4:
		w.advance(31 * time.Minute)
		require.True(w.t, w.maintain())
	case 5:
		w.retire()
	case 6:
		w.remove()
	}
}
