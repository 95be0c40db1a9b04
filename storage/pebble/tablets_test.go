package pebble_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/pebble"
)

func openSmallTablets(t *testing.T, fs vfs.FS) *pebble.Store {
	s, err := pebble.Open(pebble.Options{Dir: "/data", FS: fs, TabletBytesMax: 64 << 10, TabletRowsHot: 5000,
		CacheBytes: 1 << 20})
	require.NoError(t, err)
	return s
}

func tabletsOf(t *testing.T, table storage.Table) []storage.Tablet {
	t.Helper()
	tablets, err := table.Tablets(t.Context())
	require.NoError(t, err)
	require.Empty(t, tablets[0].Range.Start)
	require.Empty(t, tablets[len(tablets)-1].Range.End)
	for i := 1; i < len(tablets); i++ {
		require.Equal(t, tablets[i-1].Range.End, tablets[i].Range.Start)
		require.Negative(t, bytes.Compare(tablets[i-1].Range.Start, tablets[i].Range.Start))
	}
	return tablets
}

// tabletRows returns rows of series and hours with values that do not compress.
func tabletRows(series, hours int) []storage.RowMutation {
	rng := rand.New(rand.NewPCG(1, 1))
	var muts []storage.RowMutation
	for i := range series {
		for h := range hours {
			value := make([]byte, 200)
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			key := fmt.Sprintf("m#%02d#s=%04d#%07d", i%8, i, 9_500_000+h)
			muts = append(muts, storage.RowMutation{Key: []byte(key), Entries: []storage.Entry{{Family: "s",
				Qualifier: []byte("q"), TsMs: int64(10_000_000-9_500_000-h)*3_600_000 - 1, Value: value}}})
		}
	}
	sortMutations(muts)
	return muts
}

func TestTabletsSplitAndPersist(t *testing.T) {
	for _, load := range []bool{false, true} {
		fs := vfs.NewMem()
		s := openSmallTablets(t, fs)
		table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
		require.NoError(t, err)
		rows := tabletRows(100, 30)
		for i := 0; i < len(rows); i += 300 {
			if load {
				require.NoError(t, table.Load(t.Context(), rows[i:i+300]))
			} else {
				require.NoError(t, table.Apply(t.Context(), rows[i:i+300]))
			}
			require.NoError(t, s.Sync(t.Context()))
		}
		for range 6 {
			require.NoError(t, s.CollectGarbage(t.Context()))
		}
		tablets := tabletsOf(t, table)
		require.Greater(t, len(tablets), 4)
		require.Less(t, len(tablets), 64)
		var sizeBytes uint64
		for _, tablet := range tablets {
			require.Less(t, tablet.SizeBytes, uint64(400<<10), "%q", tablet.Range)
			sizeBytes += tablet.SizeBytes
			if start := tablet.Range.Start; len(start) > 0 {
				hour := bytes.LastIndexByte(start, '#') + 1
				require.True(t, bytes.Count(start, []byte("#")) < 3 || hour == len(start), "series stay together: %q", start)
			}
		}
		require.Greater(t, sizeBytes, uint64(400<<10))
		require.NoError(t, s.Close())
		s = openSmallTablets(t, fs)
		table, err = s.Table(t.Context(), storage.TableData)
		require.NoError(t, err)
		again := tabletsOf(t, table)
		require.Len(t, again, len(tablets))
		for i := range again {
			require.Equal(t, tablets[i].Range, again[i].Range)
			require.Zero(t, again[i].RowsWritten)
		}
		// Empty neighbours join again.
		require.NoError(t, table.DropRows(t.Context(), storage.RowRange{}))
		for range 20 {
			require.NoError(t, s.Compact(t.Context()))
			require.NoError(t, s.CollectGarbage(t.Context()))
		}
		require.Less(t, len(tabletsOf(t, table)), 3)
		require.NoError(t, s.Close())
	}
}

func TestHotTabletSplits(t *testing.T) {
	s := openSmallTablets(t, vfs.NewMem())
	defer func() { require.NoError(t, s.Close()) }()
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	rows := tabletRows(10, 2)
	for i := range rows {
		require.NoError(t, table.Apply(t.Context(), rows[i:i+1]))
	}
	require.Len(t, tabletsOf(t, table), 1)
	for range 400 {
		it := table.ReadRows(t.Context(), storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
		for it.Next() {
		}
		require.NoError(t, it.Err())
		require.NoError(t, it.Close())
	}
	require.Equal(t, uint64(8000), tabletsOf(t, table)[0].RowsRead)
	require.NoError(t, s.CollectGarbage(t.Context()))
	require.Len(t, tabletsOf(t, table), 2)
}

// TestTabletChanges: the reported splits and merges lead from one tablet to the present ones, and their reasons have figures.
func TestTabletChanges(t *testing.T) {
	starts, reasons := map[string]bool{"": true}, map[string]bool{}
	s, err := pebble.Open(pebble.Options{
		Dir: "/data", FS: vfs.NewMem(), TabletBytesMax: 64 << 10, TabletRowsHot: 5000, CacheBytes: 1 << 20,
		TabletChanged: func(c storage.TabletChange) {
			require.Equal(t, storage.TableData, c.Table)
			require.Equal(t, c.Kind == storage.TabletMerge, starts[string(c.Key)], "%+v", c)
			starts[string(c.Key)] = c.Kind == storage.TabletSplit
			reasons[c.Kind+strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return -1
				}
				return r
			}, c.Reason)] = true
		},
	})
	require.NoError(t, err)
	table, err := s.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	check := func() {
		require.NoError(t, s.CollectGarbage(t.Context()))
		want := map[string]bool{}
		for _, tablet := range tabletsOf(t, table) {
			want[string(tablet.Range.Start)] = true
		}
		for key, is := range starts {
			require.Equal(t, want[key], is, "%q", key)
			delete(want, key)
		}
		require.Empty(t, want)
	}
	rows := tabletRows(100, 30)
	for i := 0; i < len(rows); i += 300 {
		require.NoError(t, table.Load(t.Context(), rows[i:i+300]))
		check()
	}
	require.NoError(t, table.DropRows(t.Context(), storage.RowRange{}))
	for range 20 {
		require.NoError(t, s.Compact(t.Context()))
		check()
	}
	require.True(t, reasons["splitthe tablet had  bytes, and  is the most"], "%v", reasons)
	require.True(t, reasons["mergeboth neighbours are small and cold: together they have  bytes and had  rows since the last check"],
		"%v", reasons)
	require.NoError(t, s.Close())
}
