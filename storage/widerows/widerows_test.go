package widerows

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
)

func write(key string, sizeBytes int) storage.RowMutation {
	return storage.RowMutation{Key: []byte(key), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilySamples, Qualifier: []byte("c"), Value: make([]byte, sizeBytes-1),
	}}}
}

// TestWatch adds up the sizeable writes to each row. A row is wide once, and small writes and old rows do not count.
func TestWatch(t *testing.T) {
	now := time.Unix(1_763_000_000, 0)
	w, err := New(Options{Now: func() time.Time { return now }})
	require.NoError(t, err)
	store := w.Store(storagetest.NewModel(func() time.Time { return now }))
	table, err := store.EnsureTable(t.Context(), storage.DataSchema(0))
	require.NoError(t, err)
	narrow, wide, once := "m#00#a=1#9500000", "m#00#a=2#9500000", "m#00#a=3#9500000"
	for range 3 {
		require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{write(narrow, WriteBytesMinDefault-1), write(wide, 900<<10)}))
	}
	require.NoError(t, table.Load(t.Context(), []storage.RowMutation{write(once, storage.RowMutationBytesMax/100)}))
	require.Equal(t, []Row{{wide, 3 * 900 << 10}, {once, storage.RowMutationBytesMax / 100}}, w.Widest(5))
	require.Len(t, w.Widest(1), 1)
	require.Equal(t, 2.0, testutil.ToFloat64(w.wide))
	require.NoError(t, table.Apply(t.Context(), []storage.RowMutation{write(wide, 900<<10)}))
	require.Equal(t, 2.0, testutil.ToFloat64(w.wide), "the row was wide before")
	require.Error(t, table.Apply(t.Context(), []storage.RowMutation{write("bad key", 900<<10)}))
	require.Len(t, w.Widest(5), 2, "a failed write does not count")
	now = now.Add(AgeDefault + time.Second)
	require.Empty(t, w.Widest(5))
}

// TestRowsAreBounded: a full list keeps the widest rows.
func TestRowsAreBounded(t *testing.T) {
	w, err := New(Options{RowsMax: 8})
	require.NoError(t, err)
	for n := range 100 {
		m := write(fmt.Sprintf("m#00#a=%d#9500000", n), WriteBytesMinDefault)
		if n == 3 {
			m = write("wide", 1<<20)
		}
		w.note(&m)
		require.LessOrEqual(t, len(w.rows), 8)
	}
	require.Equal(t, "wide", w.Widest(1)[0].Key)
	_, err = New(Options{RowsMax: -1})
	require.Error(t, err)
}
