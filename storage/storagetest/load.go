package storagetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testLoad(t *testing.T, s *suite) {
	t.Run("equals apply", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		muts := []storage.RowMutation{
			mutation("a", setCell("c", "z", 5, "1"), setCell("c", "y", 5, "2"), setCell("a", "y", 90*dayMs, "3"),
				setCell("c", "z", 5, "last wins")),
			mutation("a\x00", setCell("b", "", 0, "4")),
			mutation("b", setCell("a", "q", 3*dayMs, "5"), setCell("a", "q", 4*dayMs, "6"), setCell("a", "q", 3*dayMs+1, "7")),
		}
		require.NoError(t, b.table.Load(b.ctx, muts))
		want := []string{`"a" a:"y"@7776000000="3"`, `"a" c:"y"@5="2"`, `"a" c:"z"@5="last wins"`, `"a\x00" b:""@0="4"`,
			`"b" a:"q"@345600000="6"`, `"b" a:"q"@259200001="7"`, `"b" a:"q"@259200000="5"`}
		b.want(everything(), storage.ReadOptions{}, want...)
		require.NoError(t, b.table.Load(b.ctx, nil))
		require.NoError(t, b.table.Load(b.ctx, muts), "a load can be repeated")
		b.want(everything(), storage.ReadOptions{}, want...)
	})
	t.Run("the later write wins", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		for i := range 6 {
			m := []storage.RowMutation{mutation("k", setCell("a", "q", 5, fmt.Sprint(i)))}
			if i%2 == 0 {
				require.NoError(t, b.table.Apply(b.ctx, m))
			} else {
				require.NoError(t, b.table.Load(b.ctx, m))
			}
			b.want(everything(), storage.ReadOptions{}, fmt.Sprintf(`"k" a:"q"@5="%d"`, i))
		}
		b.apply(mutation("k", storage.Entry{Kind: storage.DeleteRow}))
		b.want(everything(), storage.ReadOptions{})
		require.NoError(t, b.table.Load(b.ctx, []storage.RowMutation{mutation("k", setCell("a", "q", 5, "back"))}))
		b.want(everything(), storage.ReadOptions{}, `"k" a:"q"@5="back"`)
	})
	t.Run("refused", func(t *testing.T) {
		b := s.start(t, storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "a"},
			{Name: "n", Kind: storage.SumInt64}}})
		v := setCell("a", "q", 1, "v")
		for name, muts := range map[string][]storage.RowMutation{
			"unsorted":  {mutation("b", v), mutation("a", v)},
			"duplicate": {mutation("a", v), mutation("a", v)},
			"delete":    {mutation("a", storage.Entry{Kind: storage.DeleteRow})},
			"aggregate": {mutation("a", addTo("n", "q", 1, 1))},
			"late":      {mutation("a", v), mutation("b", v), mutation("c")},
		} {
			require.ErrorIs(t, b.table.Load(b.ctx, muts), storage.ErrBadMutation, name)
			require.Empty(t, b.read(everything(), storage.ReadOptions{}), name)
		}
	})
	t.Run("cells of any time in hour tables", func(t *testing.T) {
		b := s.start(t, storage.DataSchema(0))
		hour := int64(startMs / hourMs)
		key := hourKey("m#00#a=b#", hour)
		load := func(tsMs int64, value string) {
			require.NoError(t, b.table.Load(b.ctx, []storage.RowMutation{mutation(key, setCell("s", "q", tsMs, value))}))
		}
		load(hourEndMs(hour), "regular")
		load(hourEndMs(hour)+3*dayMs, "newer")
		for range 2 {
			b.want(keys(key), storage.ReadOptions{}, fmt.Sprintf(`%q s:"q"@%d="newer"`, key, hourEndMs(hour)+3*dayMs))
			if s.caps.Reopen != nil {
				b.store = s.caps.Reopen(t, b.store, b.clock.now)
				b.ensure(storage.DataSchema(0))
			}
		}
	})
	t.Run("visible at once", func(t *testing.T) { testLoadAtOnce(t, s) })
}

func testLoadAtOnce(t *testing.T, s *suite) {
	if s.caps.NoAtomicLoad {
		t.Skip("declared gap")
	}
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	const rows, rounds = 60, 15
	done := make(chan struct{})
	var loader sync.WaitGroup
	loader.Go(func() {
		defer close(done)
		for round := range rounds {
			var muts []storage.RowMutation
			for i := range rows {
				muts = append(muts, mutation(fmt.Sprintf("row%03d", i), setCell("a", "q", 1, fmt.Sprint(round)),
					setCell("b", "q", int64(i%7)*dayMs, fmt.Sprint(round))))
			}
			if err := b.table.Load(b.ctx, muts); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got := b.read(everything(), storage.ReadOptions{})
		if len(got) == 0 {
			continue
		}
		require.Len(t, got, rows)
		for _, r := range got {
			require.Len(t, r.Cells, 2)
			for _, c := range r.Cells {
				require.Equal(t, string(got[0].Cells[0].Value), string(c.Value))
			}
		}
	}
	loader.Wait()
}

func testDrop(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	fill := func() {
		for i := range 10 {
			b.apply(mutation(fmt.Sprintf("k%d", i), setCell("a", "q", int64(i)*dayMs, "v"), setCell("b", "q", 1, "v")))
		}
		require.NoError(t, b.store.Sync(b.ctx))
	}
	drop := func(start, end string, want ...string) {
		t.Helper()
		require.NoError(t, b.table.DropRows(b.ctx, storage.RowRange{Start: []byte(start), End: []byte(end)}))
		require.Equal(t, append([]string{}, want...), rowKeys(b.read(everything(), storage.ReadOptions{})))
	}
	fill()
	drop("k3", "k3", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9")
	drop("k5", "k2", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9")
	drop("k3", "k3\x00", "k0", "k1", "k2", "k4", "k5", "k6", "k7", "k8", "k9")
	drop("k4", "k8", "k0", "k1", "k2", "k8", "k9")
	drop("k8\x00", "", "k0", "k1", "k2", "k8")
	b.set("k5", "a", "q", 5*dayMs, "again")
	drop("", "k2", "k2", "k5", "k8")
	drop("", "")
	fill()
	drop("x", "", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9")

	hours := s.start(t, storage.DataSchema(0))
	var names []string
	for _, prefix := range []string{"a#00#x=1#", "a#00#x=2#"} {
		for h := range int64(30) {
			key := hourKey(prefix, startMs/hourMs-h)
			names = append(names, key)
			hours.set(key, "s", "q", hourEndMs(startMs/hourMs-h), "v")
		}
	}
	slices.Sort(names)
	require.NoError(t, hours.table.DropRows(hours.ctx, storage.RowRange{Start: []byte(names[10]), End: []byte(names[35])}))
	want := append(slices.Clone(names[:10]), names[35:]...)
	require.Equal(t, want, rowKeys(hours.read(everything(), storage.ReadOptions{})))
	second := storage.RowRange{Start: []byte("a#00#x=2#"), End: []byte("a#00#x=2$")}
	require.NoError(t, hours.table.DropRows(hours.ctx, second))
	require.Equal(t, names[:10], rowKeys(hours.read(everything(), storage.ReadOptions{})))
}
