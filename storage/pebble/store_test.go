package pebble

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

func TestReopenKeepsSyncedRows(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	s, err := Open(Options{Dir: "/a/b", FS: fs})
	require.NoError(t, err)
	tab, err := s.EnsureTable(ctx, storage.DataSchema(0))
	require.NoError(t, err)
	var muts []storage.RowMutation
	for h := range 50 {
		key := fmt.Sprintf("m#00#a=b#%07d", 9_500_000+h)
		muts = append(muts, storage.RowMutation{Key: []byte(key), Entries: []storage.Entry{{
			Family: "s", Qualifier: []byte{1}, TsMs: int64(9_999_999-9_500_000-h+1)*3600_000 - 1, Value: []byte(key)}}})
	}
	require.NoError(t, tab.Load(ctx, muts[:25]))
	require.NoError(t, tab.Apply(ctx, muts[25:]))
	require.NoError(t, s.Close())
	s, err = Open(Options{Dir: "/a/b", FS: fs, Now: time.Now})
	require.NoError(t, err)
	tab, err = s.Table(ctx, "data")
	require.NoError(t, err)
	it := tab.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{{}}}, storage.ReadOptions{})
	n := 0
	for it.Next() {
		r := it.Row()
		require.Equal(t, string(muts[n].Key), string(r.Key))
		require.Equal(t, string(muts[n].Key), string(r.Cells[0].Value))
		n++
	}
	require.NoError(t, it.Err())
	require.NoError(t, it.Close())
	require.Equal(t, 50, n)
	require.NoError(t, s.Close())
}
