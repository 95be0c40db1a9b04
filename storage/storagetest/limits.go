package storagetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

// testLimits tries values at each limit and one beyond it.
func testLimits(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	long := func(n int) string { return strings.Repeat("x", n) }
	ok := func(name string, m storage.RowMutation) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, b.table.Apply(b.ctx, []storage.RowMutation{m}))
			rows := b.read(storage.RowSet{Keys: [][]byte{m.Key}}, storage.ReadOptions{})
			require.Len(t, rows, 1)
			last := rows[0].Cells[len(rows[0].Cells)-1]
			require.Equal(t, len(m.Entries[0].Qualifier), len(last.Qualifier))
			require.Equal(t, len(m.Entries[0].Value), len(last.Value))
		})
	}
	bad := func(name string, m storage.RowMutation, want error) {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, b.table.Apply(b.ctx, []storage.RowMutation{m}), want)
			require.ErrorIs(t, b.table.Load(b.ctx, []storage.RowMutation{m}), want)
			require.Empty(t, b.read(storage.RowSet{Keys: [][]byte{m.Key}}, storage.ReadOptions{}))
		})
	}
	ok("key", mutation(long(storage.KeyBytesMax), setCell("a", "q", 1, "v")))
	bad("key too long", mutation(long(storage.KeyBytesMax+1), setCell("a", "q", 1, "v")), storage.ErrBadKey)
	bad("key empty", mutation("", setCell("a", "q", 1, "v")), storage.ErrBadKey)
	ok("qualifier", mutation("q", setCell("a", long(storage.QualifierBytesMax), 1, "v")))
	bad("qualifier too long", mutation("q1", setCell("a", long(storage.QualifierBytesMax+1), 1, "v")),
		storage.ErrBadMutation)
	ok("key and qualifier", mutation(long(storage.KeyBytesMax-1), setCell("a", long(storage.QualifierBytesMax), 1, "v")))
	ok("cell", mutation("c", setCell("a", "q", 1, long(storage.CellBytesMax))))
	bad("cell too large", mutation("c1", setCell("a", "q", 1, long(storage.CellBytesMax+1))), storage.ErrBadMutation)
	ok("timestamp", mutation("t", setCell("a", "q", storage.TsMsMax, "v")))
	bad("timestamp too large", mutation("t1", setCell("a", "q", storage.TsMsMax+1, "v")), storage.ErrBadMutation)
	bad("timestamp negative", mutation("t1", setCell("a", "q", -1, "v")), storage.ErrBadMutation)
	bad("no entries", mutation("n"), storage.ErrBadMutation)
	bad("family unknown", mutation("n", setCell("d", "q", 1, "v")), storage.ErrBadMutation)
	bad("kind unknown", mutation("n", storage.Entry{Kind: 77, Family: "a"}), storage.ErrBadMutation)
	bad("time range empty", mutation("n", storage.Entry{Kind: storage.DeleteCells, Family: "a", FromMs: 5, ToMs: 5}),
		storage.ErrBadMutation)
	testRequestLimits(t, b)
	t.Run("tables", func(t *testing.T) { testTableLimit(t, s) })
	t.Run("hour keys", func(t *testing.T) {
		b := s.start(t, storage.DataSchema(0))
		for _, key := range []string{"a#b#c#123456", "a#b#c#12345678", "a#b#c#123456x", "a#b#1234567", "a#b#c#d#1234567",
			"a#b#c1234567", "1234567", "#1234567", "##1234567", "a#b#c#1234567#"} {
			err := b.table.Apply(b.ctx, []storage.RowMutation{mutation(key, setCell("s", "q", 1, "v"))})
			require.ErrorIs(t, err, storage.ErrBadKey, key)
		}
		b.set("###0000000", "s", "", 0, "v")
		b.set("a#b#c#9999999", "s", "", 0, "v")
		require.Len(t, b.read(everything(), storage.ReadOptions{}), 2)
	})
}

func testRequestLimits(t *testing.T, b *bench) {
	t.Run("row too large", func(t *testing.T) {
		value := make([]byte, storage.CellBytesMax)
		m := mutation("large")
		for i := range storage.RowMutationBytesMax/storage.CellBytesMax + 1 {
			m.Entries = append(m.Entries, storage.Entry{Family: "a", TsMs: int64(i), Value: value})
		}
		require.ErrorIs(t, b.table.Apply(b.ctx, []storage.RowMutation{m}), storage.ErrBadMutation)
	})
	t.Run("request too large", func(t *testing.T) {
		m := storage.RowMutation{Key: []byte("many"), Entries: make([]storage.Entry, storage.EntriesMax)}
		for i := range m.Entries {
			m.Entries[i] = storage.Entry{Family: "c", TsMs: 5}
		}
		require.ErrorIs(t, b.table.Apply(b.ctx, []storage.RowMutation{m, mutation("one", setCell("a", "q", 1, "v"))}),
			storage.ErrBadMutation)
		require.Empty(t, b.read(keys("many", "one"), storage.ReadOptions{}))
		require.NoError(t, b.table.Apply(b.ctx, []storage.RowMutation{m}))
		m.Entries = append(m.Entries, storage.Entry{Family: "c"})
		require.ErrorIs(t, b.table.Apply(b.ctx, []storage.RowMutation{m}), storage.ErrBadMutation)
	})
}

func testTableLimit(t *testing.T, s *suite) {
	if testing.Short() {
		t.Skip("creates a thousand tables")
	}
	if s.caps.SharedTables {
		t.Skip("other users have tables in the same instance")
	}
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	schema := storage.TableSchema{Families: []storage.Family{{Name: "f"}}}
	for i := 1; i < storage.TablesMax; i++ {
		schema.Name = fmt.Sprintf("t%d", i)
		_, err := b.store.EnsureTable(b.ctx, schema)
		require.NoError(t, err)
	}
	schema.Name = "one_more"
	_, err := b.store.EnsureTable(b.ctx, schema)
	require.ErrorIs(t, err, storage.ErrBadMutation)
}
