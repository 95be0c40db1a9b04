package retention_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/storagetest/crashfs"
	"halite/storage/storagetest/seeds"
)

// powerCut takes a clone of a file system before its n-th write.
type powerCut struct {
	fs    *vfs.MemFS
	rng   *rand.Rand
	at    int
	links sync.RWMutex // MemFS.Link and a clone must not run concurrently

	mu    sync.Mutex
	ops   int
	clone *vfs.MemFS
}

func (c *powerCut) String() string { return "power cut" }

// MaybeError is part of errorfs.Injector; it never fails.
func (c *powerCut) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops++; c.ops == c.at {
		c.links.Lock()
		defer c.links.Unlock()
		c.clone = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[c.rng.IntN(3)],
			RNG: rand.New(rand.NewPCG(c.rng.Uint64(), 2))})
	}
	return nil
}

// crashStep: the test tries one in crashStep writes, from a random one on. With HALITE_SEEDS it tries all.
const crashStep = 11

// TestCrashDuringSweep cuts the power before each write of a sweep and of the drop of whole days. No data within the
// retention may be missing then, and the next sweep must lead to the same tables.
func TestCrashDuringSweep(t *testing.T) {
	seed, _ := seeds.New(t, seeds.Default{Full: 1, Short: 1})
	ages := agesOf(t, 7, map[string]int{"debug_*": 2, "*_debug": 4, "debug_b": 6})
	base := vfs.NewCrashableMem()
	s := openStore(t, base)
	fill(t, s, agesOf(t, 0, nil))
	require.NoError(t, s.Close())
	step := crashStep
	if testing.Short() {
		step *= 4
	}
	if seeds.Asked() {
		step = 1
	}
	for at := 1 + int(seed%uint64(step)); ; at += step {
		rng := rand.New(rand.NewPCG(seed, uint64(at)))
		cut := &powerCut{rng: rng, at: at,
			fs: base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})}
		sweepOnce(t, errorfs.Wrap(crashfs.FS{FS: cut.fs, Clones: &cut.links}, cut), ages)
		if cut.clone == nil {
			require.Greater(t, at, 30, "a sweep writes more than that")
			return
		}
		wantAfterCut(t, cut.clone, ages)
		if t.Failed() {
			t.Fatalf("cut before write %d", at)
		}
	}
}

// sweepOnce opens the store with its policies, sweeps and drops whole days.
func sweepOnce(t *testing.T, fs vfs.FS, ages *keyschema.RetentionByMetric) {
	ctx := context.Background()
	s := openStore(t, fs)
	longest := ages.Longest()
	_, err := s.EnsureTable(ctx, storage.DataSchema(time.Duration(longest[keyschema.Raw])))
	require.NoError(t, err)
	_, err = s.EnsureTable(ctx, storage.RollupSchema(time.Duration(longest[keyschema.Hours]), 0))
	require.NoError(t, err)
	_, err = newSweeper(t, s, ages).Sweep(ctx)
	require.NoError(t, err)
	require.NoError(t, s.CollectGarbage(ctx))
	require.NoError(t, s.Close())
}

// wantAfterCut checks the tables after a power cut, sweeps again, and checks the tables again.
func wantAfterCut(t *testing.T, fs vfs.FS, ages *keyschema.RetentionByMetric) {
	s := openStore(t, fs)
	got := cells(t, s, storage.TableData, storage.FamilySamples)
	for _, metric := range metrics {
		first := max(today-9, ages.ForMetric(metric)[keyschema.Raw].CutoffMs(now().UnixMilli())/storage.DayMs)
		for day := first + 1; day <= today; day++ { // the first day may be hidden in part
			require.Equal(t, 4*5, got[metric][day], "%s of day %d", metric, day)
		}
	}
	days := checksum(t, s, storage.TableRollup, storage.FamilyDays)
	require.NoError(t, s.Close())
	sweepOnce(t, fs, ages)
	s = openStore(t, fs)
	wantKept(t, s, ages)
	require.Equal(t, days, checksum(t, s, storage.TableRollup, storage.FamilyDays))
	require.NoError(t, s.Close())
}
