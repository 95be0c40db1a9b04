package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"halite/storage"
	"halite/storage/pebble"
)

func openStore(t testing.TB, fs vfs.FS) *pebble.Store {
	t.Helper()
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, MemtableBytes: 256 << 10, CacheBytes: 1 << 20,
		StallWait: 50 * time.Millisecond})
	require.NoError(t, err)
	return s
}

func faultRow(i int) storage.RowMutation {
	key := fmt.Sprintf("m#00#row=%04d#9500000", i)
	return storage.RowMutation{Key: []byte(key), Entries: []storage.Entry{{Family: "s", Qualifier: []byte("q"),
		TsMs: 500_000*3_600_000 - 1, Value: []byte(strings.Repeat(key, 20))}}}
}

func faultRows(from, to int) []storage.RowMutation {
	var muts []storage.RowMutation
	for i := from; i < to; i++ {
		muts = append(muts, faultRow(i))
	}
	return muts
}

// readKeys reads the table and checks that every value belongs to its key.
func readKeys(t *testing.T, table storage.Table) ([]string, error) {
	t.Helper()
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	var keys []string
	for it.Next() {
		key := string(it.Row().Key)
		require.Len(t, it.Row().Cells, 1)
		require.Equal(t, strings.Repeat(key, 20), string(it.Row().Cells[0].Value), "a wrong value")
		keys = append(keys, key)
	}
	return keys, errors.Join(it.Err(), it.Close())
}

// TestCorruption flips single bits of the files. Every read returns the right result or fails, and the process
// survives.
func TestCorruption(t *testing.T) {
	fs := vfs.NewMem()
	s := openStore(t, fs)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Load(t.Context(), faultRows(0, 300)))
	require.NoError(t, table.Apply(t.Context(), faultRows(300, 600)))
	require.NoError(t, s.Close())
	names, err := fs.List("/data/tree")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	failures, flips := 0, 10
	if testing.Short() {
		flips = 3
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := "/data/tree/" + name
		good := readFile(t, fs, path)
		for range flips {
			bad := append([]byte(nil), good...)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			writeFile(t, fs, path, bad)
			if !readDamaged(t, fs) {
				failures++
			}
		}
		writeFile(t, fs, path, good)
	}
	require.Greater(t, failures, flips-2, "flipped bits must be noticed")
	require.True(t, readDamaged(t, fs), "the repaired store is whole")
}

// readDamaged reports whether all rows could be read.
func readDamaged(t *testing.T, fs vfs.FS) bool {
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, CacheBytes: 1 << 20})
	if err != nil {
		require.ErrorIs(t, err, storage.ErrCorrupt)
		return false
	}
	defer func() { _ = s.Close() }() // closing a damaged store may fail; it must not panic
	table, err := s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	keys, err := readKeys(t, table)
	for i, key := range keys {
		require.Equal(t, string(faultRow(i).Key), key)
	}
	if err != nil {
		require.ErrorIs(t, err, storage.ErrCorrupt)
		return false
	}
	require.Len(t, keys, 600)
	return true
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	return data
}

func writeFile(t *testing.T, fs vfs.FS, path string, data []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(bytes.Clone(data)) // with the race detector, Pebble's MemFS overwrites the buffer
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// fullDisk fails writes to chosen files while it is on.
type fullDisk struct {
	full       atomic.Bool
	match      string
	writesOnly bool // syncs and links succeed
}

func (d *fullDisk) String() string { return "full disk" }

func (d *fullDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpLink:
		if d.writesOnly {
			return nil
		}
		fallthrough
	case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFilePreallocate:
		if d.full.Load() && strings.Contains(op.Path, d.match) {
			return syscall.ENOSPC
		}
	}
	return nil
}

// TestDiskFull fills the disk. The store refuses writes and answers reads. When there is space again, everything works.
func TestDiskFull(t *testing.T) {
	disk := &fullDisk{match: "."}
	fs := errorfs.Wrap(vfs.NewMem(), disk)
	s := openStore(t, fs)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), faultRows(0, 50)))
	disk.match = ".sst"
	disk.full.Store(true)
	require.ErrorIs(t, s.Sync(t.Context()), storage.ErrUnavailable)
	require.ErrorIs(t, table.Apply(t.Context(), faultRows(50, 60)), storage.ErrUnavailable)
	require.ErrorIs(t, table.Load(t.Context(), faultRows(60, 70)), storage.ErrUnavailable)
	require.ErrorIs(t, table.DropRows(t.Context(), storage.RowRange{}), storage.ErrUnavailable)
	_, err = table.CheckAndApply(t.Context(), faultRow(1).Key, storage.Filter{}, faultRow(1), storage.RowMutation{})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	wantKeys(t, table, 50)
	errorsBefore := s.Stats().BackgroundErrors
	time.Sleep(300 * time.Millisecond)
	require.Less(t, s.Stats().BackgroundErrors-errorsBefore, uint64(50), "retries must not spin")
	disk.full.Store(false)
	require.Eventually(t, func() bool { return s.Sync(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, table.Apply(t.Context(), faultRows(50, 60)))
	require.NoError(t, table.Load(t.Context(), faultRows(60, 70)))
	require.NoError(t, s.Close())
	require.Equal(t, 70, keysAfterReopen(t, fs))
}

// openPartlySynced opens a store with 30 rows that are synced and 10 that are not.
func openPartlySynced(t *testing.T, fs vfs.FS) (*pebble.Store, storage.Table) {
	t.Helper()
	s := openStore(t, fs)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), faultRows(0, 30)))
	require.NoError(t, s.Sync(t.Context()))
	require.NoError(t, table.Apply(t.Context(), faultRows(30, 40)))
	return s, table
}

// wantKeys reads all rows of a table and compares their number.
func wantKeys(t *testing.T, table storage.Table, count int) {
	t.Helper()
	keys, err := readKeys(t, table)
	require.NoError(t, err)
	require.Len(t, keys, count)
}

// keysAfterReopen opens a store that was closed, and returns the number of rows in its data table.
func keysAfterReopen(t *testing.T, fs vfs.FS) int {
	t.Helper()
	s := openStore(t, fs)
	table, err := s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	keys, err := readKeys(t, table)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return len(keys)
}

// TestLoadDiskFull fails only the file that Load writes.
func TestLoadDiskFull(t *testing.T) {
	disk := &fullDisk{match: ".load"}
	mem := vfs.NewMem()
	s := openStore(t, errorfs.Wrap(mem, disk))
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	disk.full.Store(true)
	require.ErrorIs(t, table.Load(t.Context(), faultRows(0, 10)), storage.ErrUnavailable)
	require.NoError(t, table.Apply(t.Context(), faultRows(10, 20)))
	disk.full.Store(false)
	require.NoError(t, table.Load(t.Context(), faultRows(0, 10)))
	wantKeys(t, table, 20)
	left, err := mem.List("/data/staged")
	require.NoError(t, err)
	require.Empty(t, left)
	require.NoError(t, s.Close())
}

// TestManifestFull fills the disk under the manifest. The store refuses writes and syncs, and answers reads. When there
// is space again, everything works without a new Open.
func TestManifestFull(t *testing.T) {
	for name, cause := range map[string]syscall.Errno{"space": syscall.ENOSPC, "descriptors": syscall.EMFILE} {
		t.Run(name, func(t *testing.T) {
			var full atomic.Bool
			fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				manifest := strings.Contains(op.Path, "MANIFEST") || op.Kind == errorfs.OpOpenDir && cause == syscall.EMFILE
				if full.Load() && manifest && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate ||
					op.Kind == errorfs.OpOpenDir) {
					return cause
				}
				return nil
			}))
			s, table := openPartlySynced(t, fs)
			full.Store(true)
			if cause == syscall.ENOSPC {
				err := s.Sync(t.Context())
				require.ErrorIs(t, err, storage.ErrUnavailable)
				require.NotErrorIs(t, err, storage.ErrFailed)
				require.ErrorIs(t, s.Refusing(), syscall.ENOSPC)
				require.ErrorIs(t, table.Apply(t.Context(), faultRows(40, 50)), storage.ErrUnavailable)
				require.ErrorIs(t, table.Load(t.Context(), faultRows(40, 50)), storage.ErrUnavailable)
			} else {
				fillManifest(t, s, table)
			}
			wantKeys(t, table, 40)
			full.Store(false)
			require.Eventually(t, func() bool { return s.Sync(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
			require.NoError(t, s.Refusing())
			require.NoError(t, table.Apply(t.Context(), faultRows(40, 50)))
			require.NoError(t, table.Load(t.Context(), faultRows(50, 60)))
			require.NoError(t, s.Close())
			require.Equal(t, 60, keysAfterReopen(t, fs))
		})
	}
}

// fillManifest syncs until the tree begins a new manifest, for which there is no descriptor.
func fillManifest(t *testing.T, s *pebble.Store, table storage.Table) {
	t.Helper()
	for range 2000 {
		err := table.Apply(t.Context(), faultRows(0, 1))
		if err == nil {
			err = s.Sync(t.Context())
		}
		if err != nil {
			require.ErrorIs(t, err, storage.ErrUnavailable)
			require.ErrorIs(t, s.Refusing(), syscall.EMFILE)
			return
		}
	}
	t.Fatal("no new manifest began")
}

// TestCloseOnFullDisk: Close does not wait for disk space.
func TestCloseOnFullDisk(t *testing.T) {
	disk := &fullDisk{match: "MANIFEST", writesOnly: true}
	mem := vfs.NewMem()
	s := openStore(t, errorfs.Wrap(mem, disk))
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), faultRows(0, 30)))
	require.NoError(t, s.Sync(t.Context()))
	require.NoError(t, table.Apply(t.Context(), faultRows(30, 40)))
	disk.full.Store(true)
	require.ErrorIs(t, s.Close(), storage.ErrUnavailable)
	require.GreaterOrEqual(t, keysAfterReopen(t, mem), 30)
}

// TestManifestFailed: after a device error of the manifest the store refuses writes until it is opened again, and has the
// rows that were synced. It writes no further files.
func TestManifestFailed(t *testing.T) {
	var broken atomic.Bool
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, "MANIFEST") {
			return syscall.EIO
		}
		return nil
	}))
	s, table := openPartlySynced(t, fs)
	broken.Store(true)
	require.ErrorIs(t, s.Sync(t.Context()), storage.ErrFailed)
	broken.Store(false)
	require.ErrorIs(t, s.Sync(t.Context()), storage.ErrFailed, "a failed manifest cannot be trusted again")
	require.ErrorIs(t, table.Apply(t.Context(), faultRows(40, 50)), storage.ErrUnavailable)
	require.ErrorIs(t, s.Refusing(), storage.ErrFailed)
	wantKeys(t, table, 40)
	before, err := mem.List("/data/tree")
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond)
	after, err := mem.List("/data/tree")
	require.NoError(t, err)
	require.LessOrEqual(t, len(after), len(before)+1, "repeated flushes must not fill the disk")
	require.ErrorIs(t, s.Close(), storage.ErrUnavailable)
	require.GreaterOrEqual(t, keysAfterReopen(t, fs), 30)
}

func TestSyncCanBeCanceled(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), faultRows(0, 3)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sync(ctx); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, s.Sync(t.Context()))
	require.NoError(t, s.Close())
}

func TestLocked(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": nil} {
		t.Run(name, func(t *testing.T) {
			opts := pebble.Options{Dir: t.TempDir(), FS: fs}
			s, err := pebble.Open(opts)
			require.NoError(t, err)
			_, err = pebble.Open(opts)
			require.ErrorIs(t, err, storage.ErrLocked)
			require.NoError(t, s.Close())
			require.NoError(t, s.Close(), "closing twice is harmless")
			_, err = s.Table(t.Context(), "x")
			require.ErrorIs(t, err, storage.ErrUnavailable)
			s, err = pebble.Open(opts)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
}

// TestNoLockFile: a directory in which no file can be made, such as a read-only one, is not in use by another process.
func TestNoLockFile(t *testing.T) {
	opts := pebble.Options{Dir: t.TempDir()}
	name := filepath.Join(opts.Dir, "LOCK")
	require.NoError(t, os.Mkdir(name, 0o700))
	_, err := pebble.Open(opts)
	require.ErrorContains(t, err, "lock storage directory: open "+name)
	require.NotErrorIs(t, err, storage.ErrLocked)
	_, err = pebble.Verify(t.Context(), opts, nil)
	require.ErrorContains(t, err, "lock storage directory: open "+name)
	require.NotErrorIs(t, err, storage.ErrLocked)
}

// TestFailedOpenLeavesNothingBehind: if a tree cannot open for lack of space, no part of it runs during the next attempt.
func TestFailedOpenLeavesNothingBehind(t *testing.T) {
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".dbtmp") { // the options of the tree
			return syscall.ENOSPC
		}
		return nil
	}))
	s := openStore(t, fs)
	_, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	before := goleak.IgnoreCurrent()
	full.Store(true)
	_, err = pebble.Open(pebble.Options{Dir: "/data", FS: fs})
	require.ErrorIs(t, err, storage.ErrUnavailable)
	goleak.VerifyNone(t, before)
	full.Store(false)
	s = openStore(t, fs)
	require.NoError(t, s.Close())
}

func TestOptions(t *testing.T) {
	for _, opts := range []pebble.Options{{}, {Dir: "d", CacheBytes: -1}, {Dir: "d", MemtableBytes: 1},
		{Dir: "d", CompactionsMax: 1000}, {Dir: "d", TabletBytesMax: 1}, {Dir: "d", TabletRowsHot: -1}} {
		opts.FS = vfs.NewMem()
		_, err := pebble.Open(opts)
		require.Error(t, err, "%+v", opts)
	}
}
