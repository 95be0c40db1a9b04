package storagetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// wantCover checks that tablets are contiguous and cover the key space.
func wantCover(t testing.TB, tablets []storage.Tablet) {
	t.Helper()
	require.NotEmpty(t, tablets)
	require.Empty(t, tablets[0].Range.Start)
	require.Empty(t, tablets[len(tablets)-1].Range.End)
	for i := 1; i < len(tablets); i++ {
		require.Equal(t, tablets[i-1].Range.End, tablets[i].Range.Start)
		require.NotEmpty(t, tablets[i].Range.Start)
		require.Less(t, string(tablets[i-1].Range.Start), string(tablets[i].Range.Start))
	}
}

func testTablets(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	list := func() []storage.Tablet {
		tablets, err := b.table.Tablets(b.ctx)
		require.NoError(t, err)
		wantCover(t, tablets)
		return tablets
	}
	sum := func() (all storage.Tablet) {
		for _, tablet := range list() {
			all.SizeBytes += tablet.SizeBytes
			all.RowsWritten += tablet.RowsWritten
			all.RowsRead += tablet.RowsRead
			all.BytesWritten += tablet.BytesWritten
		}
		return all
	}
	require.Zero(t, sum().RowsWritten)
	for i := range 300 {
		b.set(fmt.Sprintf("row%03d", i), "a", "q", 1, fmt.Sprintf("%01000d", i))
	}
	require.NoError(t, b.store.Sync(b.ctx))
	all := sum()
	require.Equal(t, uint64(300), all.RowsWritten)
	require.GreaterOrEqual(t, all.BytesWritten, uint64(300*1000))
	require.Positive(t, all.SizeBytes)
	require.Zero(t, all.RowsRead)
	require.Len(t, b.read(everything(), storage.ReadOptions{}), 300)
	require.Equal(t, uint64(300), sum().RowsRead)
}

func testDurability(t *testing.T, s *suite) {
	if s.caps.Reopen == nil {
		t.Skip("the engine keeps nothing")
	}
	b := s.start(t, plainSchema(storage.GCPolicy{MaxVersions: 5}))
	counters := storage.TableSchema{Name: "counters", Families: []storage.Family{{Name: "n", Kind: storage.SumInt64}}}
	other, err := b.store.EnsureTable(b.ctx, counters)
	require.NoError(t, err)
	for i := range 50 {
		key := fmt.Sprintf("row%02d", i)
		m := []storage.RowMutation{mutation(key, setCell("a", "q", int64(i)*dayMs, key), setCell("c", "", 5, ""))}
		if i%3 == 0 {
			require.NoError(t, b.table.Load(b.ctx, m))
		} else {
			require.NoError(t, b.table.Apply(b.ctx, m))
		}
		require.NoError(t, other.Apply(b.ctx, []storage.RowMutation{mutation("sum", addTo("n", "q", 1, int64(i)))}))
		if i == 20 {
			require.NoError(t, b.store.Sync(b.ctx))
		}
	}
	b.apply(mutation("row07", storage.Entry{Kind: storage.DeleteRow}))
	require.NoError(t, b.table.DropRows(b.ctx, storage.RowRange{Start: []byte("row30"), End: []byte("row40")}))
	before := lines(b.read(everything(), storage.ReadOptions{}))
	require.Len(t, before, 2*(50-1-10))
	for round := range 2 {
		if round == 1 {
			require.NoError(t, b.store.Sync(b.ctx))
		}
		b.store = s.caps.Reopen(t, b.store, b.clock.now)
		table, err := b.store.Table(b.ctx, "plain")
		require.NoError(t, err)
		b.table = table
		want := plainSchema(storage.GCPolicy{MaxVersions: 5})
		require.ElementsMatch(t, want.Families, table.Schema().Families)
		b.want(everything(), storage.ReadOptions{}, before...)
		other, err = b.store.Table(b.ctx, "counters")
		require.NoError(t, err)
		rows, err := readAll(b.ctx, other, everything(), storage.ReadOptions{})
		require.NoError(t, err)
		require.Equal(t, int64(49*50/2), number(rows[0].Cells[0]))
		_, err = b.store.Table(b.ctx, "absent")
		require.ErrorIs(t, err, storage.ErrNoTable)
		gone := plainSchema(storage.GCPolicy{})
		gone.Families = gone.Families[1:]
		_, err = b.store.EnsureTable(b.ctx, gone)
		require.ErrorIs(t, err, storage.ErrSchemaMismatch)
	}
}
