package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
	"halite/storage/pebble/fault"
)

const (
	damageRows = 100
	damageDays = 3
)

// damageRow is a row of the first hour of a day; days count back from day 20,000.
func damageRow(day, i int) storage.RowMutation {
	hour := (20_000 - day) * 24
	key := fmt.Sprintf("m#00#row=%04d#%07d", i, 9_999_999-hour)
	return storage.RowMutation{Key: []byte(key), Entries: []storage.Entry{{Family: "s", Qualifier: []byte("q"),
		TsMs: int64(hour+1)*3_600_000 - 1, Value: []byte(strings.Repeat(key, 20))}}}
}

// damageStore makes a closed store with a file of data for each of several days, and some rows of other tables.
func damageStore(t *testing.T) *vfs.MemFS {
	fs := vfs.NewMem()
	s := openStore(t, fs)
	data, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	series, err := s.EnsureTable(t.Context(), storage.IndexSchema(storage.TableSeries, 0))
	require.NoError(t, err)
	for day := range damageDays {
		var muts []storage.RowMutation
		for i := range damageRows {
			muts = append(muts, damageRow(day, i))
		}
		require.NoError(t, data.Load(t.Context(), muts))
	}
	require.NoError(t, series.Apply(t.Context(), []storage.RowMutation{{Key: []byte("s"), Entries: []storage.Entry{{
		Family: "c", Qualifier: []byte("q"), TsMs: 1, Value: []byte("v")}}}}))
	require.NoError(t, s.Close())
	return fs
}

// readDay reads the rows of a day and checks their values.
func readDay(t *testing.T, s *pebble.Store, day int) (rows int, err error) {
	table, err := s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	from := int64(20_000-day) * 24 * 3_600_000
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{
		Filter: storage.Filter{FromMs: from, ToMs: from + 24*3_600_000}})
	for ; it.Next(); rows++ {
		key := string(it.Row().Key)
		require.Equal(t, string(damageRow(day, rows).Key), key)
		require.Equal(t, strings.Repeat(key, 20), string(it.Row().Cells[0].Value), "a wrong value")
	}
	return rows, errors.Join(it.Err(), it.Close())
}

// fileOfDay finds the table file of a day: without it, Verify reports the day.
func fileOfDay(t *testing.T, fs *vfs.MemFS, day int) string {
	names, err := fs.List("/data/tree")
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		copied := cloneFS(t, fs)
		require.NoError(t, copied.Remove("/data/tree/"+name))
		v, err := pebble.Verify(t.Context(), pebble.Options{Dir: "/data", FS: copied}, nil)
		require.NoError(t, err)
		require.Len(t, v.Damages, 1)
		if d := v.Damages[0]; d.Table == storage.TableData && d.FirstDay == int32(20_000-day) {
			require.Equal(t, d.FirstDay, d.LastDay)
			require.Equal(t, string(damageRow(day, 0).Key), d.FirstRow)
			require.Equal(t, string(damageRow(day, damageRows-1).Key), d.LastRow)
			return name
		}
	}
	t.Fatal("the day has no file")
	return ""
}

func cloneFS(t *testing.T, fs *vfs.MemFS) *vfs.MemFS {
	copied := vfs.NewMem()
	ok, err := vfs.Clone(fs, copied, "/data", "/data")
	require.NoError(t, err)
	require.True(t, ok)
	return copied
}

// TestDamagedBlock flips one bit in the first block of a day. The store opens, reads of the day fail with the file's
// name, and everything else works. After the loss is accepted, the file is set aside and the rest can be read.
func TestDamagedBlock(t *testing.T) {
	fs := damageStore(t)
	name := fileOfDay(t, fs, 1)
	bad := readFile(t, fs, "/data/tree/"+name)
	bad[100] ^= 4
	writeFile(t, fs, "/data/tree/"+name, bad)

	registry := prometheus.NewRegistry()
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, Registerer: registry})
	require.NoError(t, err)
	_, err = readDay(t, s, 1)
	require.ErrorIs(t, err, storage.ErrCorrupt)
	require.ErrorContains(t, err, name)
	for _, day := range []int{0, 2} {
		rows, err := readDay(t, s, day)
		require.NoError(t, err)
		require.Equal(t, damageRows, rows)
	}
	table, err := s.Table(t.Context(), storage.TableData)
	require.NoError(t, err)
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{damageRow(0, damageRows)}))
	require.NoError(t, s.Sync(t.Context()))
	require.Greater(t, s.Stats().Corruptions, uint64(0))
	count, err := testutil.GatherAndCount(registry, "tsdb_pebble_corruptions_total")
	require.NoError(t, err)
	require.Equal(t, 1, count)
	require.NoError(t, s.Close())

	before := cloneFS(t, fs)
	v, err := pebble.Verify(t.Context(), pebble.Options{Dir: "/data", FS: fs}, nil)
	require.NoError(t, err)
	require.Len(t, v.Damages, 1)
	require.Equal(t, name, v.Damages[0].File)
	require.Equal(t, "2024-10-03", fault.DayText(v.Damages[0].FirstDay))
	requireSameFiles(t, before, fs)

	s, err = pebble.Open(pebble.Options{Dir: "/data", FS: fs, AcceptLoss: func(file string) bool { return file == name }})
	require.NoError(t, err)
	require.Len(t, s.Lost(), 1)
	for day, want := range []int{damageRows + 1, 0, damageRows} {
		rows, err := readDay(t, s, day)
		require.NoError(t, err)
		require.Equal(t, want, rows)
	}
	require.NoError(t, s.Close())
	require.Equal(t, bad, readFile(t, fs, "/data/lost/"+name))
	s = openStore(t, fs)
	require.Len(t, s.Lost(), 1, "nobody has settled it")
	require.NoError(t, s.ConfirmLosses())
	require.NoError(t, s.Close())
	s = openStore(t, fs)
	require.Empty(t, s.Lost())
	require.NoError(t, s.Close())
	v, err = pebble.Verify(t.Context(), pebble.Options{Dir: "/data", FS: fs}, nil)
	require.NoError(t, err)
	require.Empty(t, v.Damages)
}

// requireSameFiles compares the files of two stores byte for byte.
func requireSameFiles(t *testing.T, want, got *vfs.MemFS) {
	for _, dir := range []string{"/data", "/data/tree"} {
		names, err := want.List(dir)
		require.NoError(t, err)
		list, err := got.List(dir)
		require.NoError(t, err)
		require.ElementsMatch(t, names, list)
		for _, name := range names {
			if info, err := want.Stat(dir + "/" + name); err == nil && !info.IsDir() {
				require.Equal(t, readFile(t, want, dir+"/"+name), readFile(t, got, dir+"/"+name), name)
			}
		}
	}
}

// TestMissingFile: if a table file of the manifest is missing or truncated, Open refuses it by name, and accepts its
// loss by name.
func TestMissingFile(t *testing.T) {
	for _, cut := range []bool{false, true} {
		fs := damageStore(t)
		name := fileOfDay(t, fs, 0)
		if cut {
			writeFile(t, fs, "/data/tree/"+name, readFile(t, fs, "/data/tree/"+name)[:1000])
		} else {
			require.NoError(t, fs.Remove("/data/tree/"+name))
		}
		_, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs})
		require.ErrorIs(t, err, storage.ErrCorrupt)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "2024-10-04")
		s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, AcceptLoss: func(string) bool { return true }})
		require.NoError(t, err)
		require.Len(t, s.Lost(), 1)
		rows, err := readDay(t, s, 1)
		require.NoError(t, err)
		require.Equal(t, damageRows, rows)
		require.NoError(t, s.Close())
	}
}

// TestDamagedFiles zeroes pages of every file, and truncates every file. Open or reads fail and name the file, or the damage
// is harmless. There is no panic, no wrong value and no silent loss of a row.
func TestDamagedFiles(t *testing.T) {
	fs := damageStore(t)
	refused, failed := 0, 0
	for _, dir := range []string{"/data", "/data/tree"} {
		names, err := fs.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			info, err := fs.Stat(dir + "/" + name)
			require.NoError(t, err)
			if info.IsDir() || info.Size() == 0 {
				continue
			}
			good := readFile(t, fs, dir+"/"+name)
			for what, bad := range damagedCopies(good) {
				copied := cloneFS(t, fs)
				writeFile(t, copied, dir+"/"+name, bad)
				err := readAllDays(t, copied)
				if err == nil {
					continue
				}
				require.True(t, strings.Contains(err.Error(), name), "%s %s: %v", name, what, err)
				if !errors.Is(err, errOpen) {
					failed++
					continue
				}
				refused++
				if !strings.HasPrefix(name, "MANIFEST") {
					requireRest(t, copied)
				}
			}
		}
	}
	t.Logf("%d starts refused, %d reads failed", refused, failed)
	require.Greater(t, refused, 5)
	require.Greater(t, failed, 5)
}

// requireRest opens a store and accepts all losses. At most one day is lost, and all others are whole.
func requireRest(t *testing.T, fs vfs.FS) {
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, AcceptLoss: func(string) bool { return true }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	whole := 0
	for day := range damageDays {
		rows, err := readDay(t, s, day)
		require.NoError(t, err)
		require.Contains(t, []int{0, damageRows}, rows)
		whole += rows / damageRows
	}
	require.GreaterOrEqual(t, whole, damageDays-1)
}

// damagedCopies returns copies of a file with a zeroed page, and truncated copies.
func damagedCopies(good []byte) map[string][]byte {
	const page = 1024
	copies := map[string][]byte{}
	for at := 0; at < len(good); at += page {
		bad := append([]byte(nil), good...)
		clear(bad[at:min(at+page, len(good))])
		copies[fmt.Sprintf("zeroed at %d", at)] = bad
	}
	for _, n := range []int{0, 1, len(good) / 3, len(good) / 2, len(good) - 1} {
		copies[fmt.Sprintf("cut at %d", n)] = good[:n]
	}
	return copies
}

var errOpen = errors.New("open")

// readAllDays opens a store and reads all days. Without an error the days are whole.
func readAllDays(t *testing.T, fs vfs.FS) error {
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, CacheBytes: 1 << 20})
	if err != nil {
		return fmt.Errorf("%w: %w", errOpen, err)
	}
	defer func() { _ = s.Close() }() // closing a damaged store may fail; it must not panic
	for day := range damageDays {
		rows, err := readDay(t, s, day)
		if err != nil {
			require.ErrorIs(t, err, storage.ErrCorrupt)
			return err
		}
		require.Equal(t, damageRows, rows, "rows are lost in silence")
	}
	table, err := s.Table(context.Background(), storage.TableSeries)
	require.NoError(t, err)
	it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	rows := 0
	for it.Next() {
		rows++
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	require.Equal(t, 1, rows)
	return nil
}
