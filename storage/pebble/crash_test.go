package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/storagetest/crashfs"
	"halite/storage/storagetest/seeds"
)

const (
	crashRows   = 24
	crashRounds = 3
)

// TestCrash cuts the power at a random file operation, also during the first Open and during recovery from an earlier
// cut, and checks the remaining rows.
func TestCrash(t *testing.T) {
	first, count := seeds.Range(t, seeds.Default{Full: 200, Short: 10})
	for seed := first; seed < first+count; seed++ {
		runCrash(t, seed)
		if t.Failed() {
			t.Fatalf("repeat with HALITE_SEED=%d", seed)
		}
	}
}

// crashRun is one seed: a file system that outlives its stores, and the possible versions of its rows.
type crashRun struct {
	*testing.T
	rng *rand.Rand
	ctx context.Context

	mu        sync.Mutex // the store's goroutines take the clone
	cloneRNG  *rand.Rand // for the clone only
	fs        *vfs.MemFS
	links     sync.RWMutex // see crashfs.FS
	armed     bool
	failAt    int // the operation before which the power fails
	ops       int
	clone     *vfs.MemFS
	floor     [crashRows]int // version that the clone must have at least
	durable   [crashRows]int // version of each row that must survive
	applied   [crashRows]int // version of each row that some completed call has written
	issued    [crashRows]int // version of each row that some call may have written
	tables    bool           // EnsureTable has returned
	deletes   map[[2]int]bool
	dayChunks bool // all cells end their hours, and days are packed
}

func runCrash(t *testing.T, seed uint64) {
	c := &crashRun{T: t, rng: rand.New(rand.NewPCG(seed, 1)), cloneRNG: rand.New(rand.NewPCG(seed, 3)),
		ctx: t.Context(), fs: vfs.NewCrashableMem(), deletes: map[[2]int]bool{}, dayChunks: seed%2 == 0}
	for range crashRounds {
		c.round(seed)
		if t.Failed() {
			return
		}
	}
}

// MaybeError is part of errorfs.Injector: it never fails, but takes the clone at the chosen operation.
func (c *crashRun) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ops++
		if c.armed && c.ops >= c.failAt {
			c.failPower()
		}
	}
	return nil
}

func (c *crashRun) String() string { return "crash" }

// failPower takes the clone. It reads the durable versions before the clone, and the caller reads the issued versions after it.
func (c *crashRun) failPower() {
	c.armed = false
	c.floor = c.durable
	percent := []int{0, 20, 50, 80, 100}[c.cloneRNG.IntN(5)]
	c.links.Lock()
	defer c.links.Unlock()
	c.clone = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
		RNG: rand.New(rand.NewPCG(c.cloneRNG.Uint64(), 2))})
}

// round opens the store, writes until the power fails, and continues with the clone.
func (c *crashRun) round(seed uint64) {
	c.mu.Lock()
	c.armed, c.ops, c.failAt, c.clone = true, 0, 1+c.rng.IntN(400), nil
	if c.rng.IntN(4) == 0 {
		c.failAt = 1 + c.rng.IntN(60)
	}
	c.mu.Unlock()
	s, err := pebble.Open(pebble.Options{Dir: "/db/sub", FS: errorfs.Wrap(crashfs.FS{FS: c.fs, Clones: &c.links}, c),
		MemtableBytes: 64 << 10,
		CacheBytes:    1 << 20, DayChunks: dayChunkCodec(), DayChunkInterval: -1})
	require.NoError(c, err, "seed %d", seed)
	c.write(s, seed)
	c.mu.Lock()
	if c.armed {
		c.failPower()
	}
	before := c.issued
	c.mu.Unlock()
	require.NoError(c, s.Close())
	c.fs = c.clone
	c.verify(before, seed)
}

func (c *crashRun) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed
}

// write does random work until the clone exists.
func (c *crashRun) write(s *pebble.Store, seed uint64) {
	table, err := s.EnsureTable(c.ctx, storage.DataSchema(0))
	require.NoError(c, err, "seed %d", seed)
	c.mu.Lock()
	c.tables = c.tables || c.armed
	c.mu.Unlock()
	for step := 0; step < 300 && c.running(); step++ {
		switch n := c.rng.IntN(20); {
		case c.dayChunks && n < 3:
			require.Zero(c, s.WriteAllDayChunks(c.ctx))
		case n < 12:
			c.change(table, false)
		case n < 17:
			c.change(table, true)
		case n < 19:
			written := c.applied
			require.NoError(c, s.Sync(c.ctx))
			c.settle(written)
		default:
			if c.rng.IntN(3) == 0 {
				require.NoError(c, s.Compact(c.ctx))
			} else {
				require.NoError(c, s.CollectGarbage(c.ctx))
			}
		}
	}
}

// settle records that these versions are durable.
func (c *crashRun) settle(versions [crashRows]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range versions {
		c.durable[i] = max(c.durable[i], v)
	}
}

const crashHour = 475_000

// crashKey returns the key of a row. With day chunks six rows are hours of one series, and of one day or two.
func (c *crashRun) crashKey(row int) []byte {
	series := row
	if c.dayChunks {
		series = row % 4
	}
	return fmt.Appendf(nil, "m#%02d#row=%d#%07d", row%4, series, 9_999_999-crashHour+row)
}

// crashEntries returns a version of a row: four equal cells in two families and, without day chunks, on two days.
func (c *crashRun) crashEntries(row, version int) []storage.Entry {
	endMs := int64(crashHour-row+1)*3_600_000 - 1
	value := fmt.Appendf(nil, "%d:%d:%01000d", row, version, version)
	otherMs := endMs - 20*24*3_600_000
	if c.dayChunks {
		otherMs = endMs
	}
	return []storage.Entry{
		{Family: "s", Qualifier: []byte("a"), TsMs: endMs, Value: value},
		{Family: "s", Qualifier: []byte("b"), TsMs: endMs, Value: value},
		{Family: "s", Qualifier: []byte("c"), TsMs: otherMs, Value: value},
		{Family: "h", Qualifier: []byte("a"), TsMs: endMs, Value: value},
	}
}

// change writes new versions of some rows; a version may also be the absence of the row.
func (c *crashRun) change(table storage.Table, load bool) {
	var muts []storage.RowMutation
	var rows []int
	c.mu.Lock()
	for row := range crashRows {
		if c.rng.IntN(4) > 0 {
			continue
		}
		c.issued[row]++
		v := c.issued[row]
		m := storage.RowMutation{Key: c.crashKey(row), Entries: c.crashEntries(row, v)}
		if !load && c.rng.IntN(5) == 0 {
			m.Entries = []storage.Entry{{Kind: storage.DeleteRow}}
			c.deletes[[2]int{row, v}] = true
		}
		muts, rows = append(muts, m), append(rows, row)
	}
	c.mu.Unlock()
	var err error
	if load {
		sortMutations(muts)
		err = table.Load(c.ctx, muts)
	} else {
		err = table.Apply(c.ctx, muts)
	}
	require.NoError(c, err)
	versions := c.applied
	for _, row := range rows {
		versions[row] = c.issued[row]
	}
	c.applied = versions
	if load {
		var loaded [crashRows]int
		for _, row := range rows {
			loaded[row] = c.issued[row]
		}
		c.settle(loaded)
	}
}

// verify opens the clone and checks that every row is complete, at least as new as its durable version, and no newer
// than its last issued version.
func (c *crashRun) verify(issued [crashRows]int, seed uint64) {
	s, err := pebble.Open(pebble.Options{Dir: "/db/sub", FS: c.fs, MemtableBytes: 64 << 10,
		CacheBytes: 1 << 20, DayChunks: dayChunkCodec(), DayChunkInterval: -1})
	require.NoError(c, err, "seed %d: a store must always open", seed)
	defer func() { require.NoError(c, s.Close()) }()
	table, err := s.Table(c.ctx, storage.TableData)
	if errors.Is(err, storage.ErrNoTable) && !c.tables {
		return
	}
	require.NoError(c, err, "seed %d", seed)
	c.tables = true
	found := map[string][]string{}
	it := table.ReadRows(c.ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	for it.Next() {
		for _, cell := range it.Row().Cells {
			found[string(it.Row().Key)] = append(found[string(it.Row().Key)], string(cell.Value))
		}
	}
	require.NoError(c, it.Err(), "seed %d", seed)
	require.NoError(c, it.Close())
	for row := range crashRows {
		single := 0
		it := table.ReadRows(c.ctx, storage.RowSet{Keys: [][]byte{c.crashKey(row)}}, storage.ReadOptions{})
		for it.Next() {
			single += len(it.Row().Cells)
		}
		require.NoError(c, it.Err())
		require.NoError(c, it.Close())
		require.Len(c, found[string(c.crashKey(row))], single, "seed %d: row %d read by itself", seed, row)
		c.verifyRow(row, found[string(c.crashKey(row))], issued[row], seed)
		delete(found, string(c.crashKey(row)))
	}
	require.Empty(c, found, "seed %d: rows from nowhere", seed)
	require.NoError(c, s.Sync(c.ctx))
}

func (c *crashRun) verifyRow(row int, cells []string, issued int, seed uint64) {
	version := -1
	if len(cells) == 0 {
		for v := issued; v >= c.floor[row]; v-- {
			if v == 0 || c.deletes[[2]int{row, v}] {
				version = v
				break
			}
		}
		require.GreaterOrEqual(c, version, 0, "seed %d: row %d is gone, version %d was durable", seed, row, c.floor[row])
	} else {
		require.Len(c, cells, 4, "seed %d: row %d is torn", seed, row)
		for _, cell := range cells {
			require.Equal(c, cells[0], cell, "seed %d: row %d is torn", seed, row)
		}
		var gotRow int
		_, err := fmt.Sscanf(cells[0], "%d:%d:", &gotRow, &version)
		require.NoError(c, err)
		require.Equal(c, row, gotRow)
		require.False(c, c.deletes[[2]int{row, version}])
		require.GreaterOrEqual(c, version, c.floor[row], "seed %d: row %d lost a durable version", seed, row)
		require.LessOrEqual(c, version, issued, "seed %d: row %d", seed, row)
	}
	// The next round starts from here; versions stay unique because issued only grows.
	c.durable[row], c.applied[row] = version, version
	for v := range version {
		delete(c.deletes, [2]int{row, v})
	}
}

// TestFirstOpenCrash cuts the power at every single file operation of a first Open.
func TestFirstOpenCrash(t *testing.T) {
	percents := []int{0, 20, 50, 50, 80, 100}
	if testing.Short() {
		percents = percents[1:3]
	}
	for i, percent := range percents {
		for at := 1; ; at++ {
			fs := vfs.NewCrashableMem()
			var mu sync.Mutex
			var clone *vfs.MemFS
			ops := 0
			inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				if ops++; ops == at {
					clone = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
						RNG: rand.New(rand.NewPCG(uint64(at), uint64(i)))})
				}
				return nil
			})
			s, err := pebble.Open(pebble.Options{Dir: "/x/y/z", FS: errorfs.Wrap(fs, inject), CacheBytes: 1 << 20})
			require.NoError(t, err)
			mu.Lock()
			done := clone == nil
			mu.Unlock()
			require.NoError(t, s.Close())
			if done {
				require.Greater(t, at, 10)
				break
			}
			s, err = pebble.Open(pebble.Options{Dir: "/x/y/z", FS: clone, CacheBytes: 1 << 20})
			require.NoError(t, err, "power lost before operation %d with %d %% of unsynced data", at, percent)
			_, err = s.EnsureTable(t.Context(), storage.MetaSchema())
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
	}
}
