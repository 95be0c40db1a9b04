package storagetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testTables(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	t.Run("unknown table", func(t *testing.T) {
		_, err := b.store.Table(b.ctx, "nothing")
		require.ErrorIs(t, err, storage.ErrNoTable)
	})
	t.Run("listed by name", func(t *testing.T) {
		for _, name := range []string{"zebra", "a_1"} {
			_, err := b.store.EnsureTable(b.ctx, storage.TableSchema{Name: name, Families: []storage.Family{{Name: "f"}}})
			require.NoError(t, err)
		}
		all, err := b.store.Tables(b.ctx)
		require.NoError(t, err)
		var names []string
		for _, schema := range all {
			names = append(names, schema.Name)
		}
		require.Equal(t, []string{"a_1", "plain", "zebra"}, names)
	})
	t.Run("tables do not mix", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		b.set("k", "a", "q", 1, "in plain")
		other := plainSchema(storage.GCPolicy{})
		other.Name = "other"
		b.ensure(other)
		b.want(everything(), storage.ReadOptions{})
		b.set("k", "a", "q", 1, "in other")
		b.want(everything(), storage.ReadOptions{}, `"k" a:"q"@1="in other"`)
		first, err := b.store.Table(b.ctx, "plain")
		require.NoError(t, err)
		rows, err := readAll(b.ctx, first, everything(), storage.ReadOptions{})
		require.NoError(t, err)
		require.Equal(t, []string{`"k" a:"q"@1="in plain"`}, lines(rows))
	})
	t.Run("mismatch", func(t *testing.T) { testSchemaMismatch(t, s) })
	t.Run("invalid schemas", func(t *testing.T) {
		for _, schema := range []storage.TableSchema{
			{Name: "", Families: []storage.Family{{Name: "f"}}},
			{Name: "Upper", Families: []storage.Family{{Name: "f"}}},
			{Name: "none"},
			{Name: "twice", Families: []storage.Family{{Name: "f"}, {Name: "f"}}},
			{Name: "kind", Families: []storage.Family{{Name: "f", Kind: 99}}},
		} {
			_, err := b.store.EnsureTable(b.ctx, schema)
			require.ErrorIs(t, err, storage.ErrBadMutation, "%+v", schema)
		}
	})
}

func testSchemaMismatch(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	b.set("k", "a", "q", 1, "v")
	gone := plainSchema(storage.GCPolicy{})
	gone.Families = gone.Families[:2]
	more := plainSchema(storage.GCPolicy{})
	more.Families = append(slices.Clone(more.Families), storage.Family{Name: "new"})
	kind := plainSchema(storage.GCPolicy{})
	kind.Families = slices.Clone(kind.Families)
	kind.Families[0].Kind = storage.SumInt64
	hours := plainSchema(storage.GCPolicy{})
	hours.HourKeys = true
	for _, schema := range []storage.TableSchema{gone, more, kind, hours} {
		_, err := b.store.EnsureTable(b.ctx, schema)
		require.ErrorIs(t, err, storage.ErrSchemaMismatch, "%+v", schema)
	}
	order := plainSchema(storage.GCPolicy{MaxVersions: 3})
	slices.Reverse(order.Families)
	b.ensure(order)
	for _, f := range b.table.Schema().Families {
		want, _ := order.Family(f.Name)
		require.Equal(t, want, f)
	}
	b.want(everything(), storage.ReadOptions{}, `"k" a:"q"@1="v"`)
}

// oddKeys are keys in byte order. They break engines that join key parts carelessly.
func oddKeys() []string {
	return []string{"\x00", "\x00\x00", "\x00\x00\x01", "\x00\x01", "\x00\xff", "\x01", "!", "#", "##", "###",
		"###0000000", "a", "a\x00", "a\x00\x00", "a\x00\x00\x00", "a\x00\x01", "a\x00\xff", "a\x01", "a#", "a#b", "aa",
		"a\xff", "a\xff\x00", "a\xff\xff", "b", "b\x02", "b\x06", "b\x0a", "b\xfd", "\xfe", "\xff", "\xff\x00", "\xff\xff",
		"\xff\xff\xff\xff\xff\xff"}
}

// oddPrefixes are escaped and unescaped beginnings of hour keys, in byte order.
func oddPrefixes() []string {
	return []string{"###", "#\x01##", "#0#a#", "\x00#\x00#\x00#", "a##\xff#", "a#0##", "a#00##", "a#00#a#",
		"a#00#a=%23,b=c#", "a#00#a=b#", "a#00#a=b,c=d#", "a#00#a=b%2c#", "a#00#a=b\x00#", "a#00#a=b\xff#", "a#01#a=b#",
		"a0#00#a=b#", "a\xff#0#0#", "aa#00#a=b#"}
}

func testRows(t *testing.T, s *suite) {
	t.Run("byte order of odd keys", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		names := oddKeys()
		require.True(t, slices.IsSorted(names))
		for i := range names {
			key := names[(i*7)%len(names)]
			b.set(key, "a", "", 5, key)
			b.set(key, "b", "q\x00", int64(i)*dayMs, key)
		}
		rows := b.read(everything(), storage.ReadOptions{})
		require.Equal(t, names, rowKeys(rows))
		for _, r := range rows {
			require.Len(t, r.Cells, 2)
			require.Equal(t, r.Key, r.Cells[0].Value)
			require.Equal(t, r.Key, r.Cells[1].Value)
		}
		for _, key := range names {
			require.Equal(t, []string{key}, rowKeys(b.read(keys(key), storage.ReadOptions{})), "%q", key)
		}
	})
	t.Run("byte order of hour keys", func(t *testing.T) { testHourKeys(t, s) })
	t.Run("qualifiers do not run into keys", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		for _, kq := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"a", "b\x00c"}, {"a\x00b", "c"}, {"a", "\x00"},
			{"a\x00", ""}, {"a", ""}} {
			b.set(kq[0], "a", kq[1], 7, kq[0]+"|"+kq[1])
		}
		b.want(everything(), storage.ReadOptions{},
			`"a" a:""@7="a|"`, `"a" a:"\x00"@7="a|\x00"`, `"a" a:"b\x00c"@7="a|b\x00c"`, `"a" a:"bc"@7="a|bc"`,
			`"a\x00" a:""@7="a\x00|"`, `"a\x00b" a:"c"@7="a\x00b|c"`, `"ab" a:"c"@7="ab|c"`, `"abc" a:""@7="abc|"`)
	})
	t.Run("entries apply in order", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		b.apply(mutation("k",
			setCell("a", "q", 1, "first"), setCell("a", "q", 1, "second"), setCell("b", "q", 1, "gone"),
			storage.Entry{Kind: storage.DeleteFamily, Family: "b"}, setCell("b", "r", dayMs*3, "stays"),
			setCell("c", "q", 1, "gone too"),
			storage.Entry{Kind: storage.DeleteCells, Family: "c", Qualifier: []byte("q")}))
		b.want(everything(), storage.ReadOptions{}, `"k" a:"q"@1="second"`, `"k" b:"r"@259200000="stays"`)
		b.apply(mutation("k", storage.Entry{Kind: storage.DeleteRow}, setCell("c", "new", 9, "x")))
		b.want(everything(), storage.ReadOptions{}, `"k" c:"new"@9="x"`)
		b.apply(mutation("k", setCell("c", "newer", 9, "x"), storage.Entry{Kind: storage.DeleteRow}))
		b.want(everything(), storage.ReadOptions{})
	})
	t.Run("one row twice in a request", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		b.apply(mutation("k", setCell("a", "q", 1, "1")), mutation("k", storage.Entry{Kind: storage.DeleteRow}),
			mutation("k", setCell("a", "q", 1, "3")), mutation("j", setCell("a", "q", 1, "j")))
		b.want(everything(), storage.ReadOptions{}, `"j" a:"q"@1="j"`, `"k" a:"q"@1="3"`)
	})
	t.Run("empty values are values", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		b.set("k", "a", "", 0, "")
		b.want(everything(), storage.ReadOptions{}, `"k" a:""@0=""`)
	})
	t.Run("partial failure", func(t *testing.T) { testPartialFailure(t, s) })
	t.Run("arguments may be reused", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		key, value := []byte("key1"), []byte("value1")
		muts := []storage.RowMutation{{Key: key, Entries: []storage.Entry{{Family: "a", Qualifier: key, Value: value}}}}
		require.NoError(t, b.table.Apply(b.ctx, muts))
		copy(key, "XXXX")
		copy(value, "XXXXXX")
		b.want(everything(), storage.ReadOptions{}, `"key1" a:"key1"@0="value1"`)
	})
}

func testHourKeys(t *testing.T, s *suite) {
	schema := storage.DataSchema(0)
	b := s.start(t, schema)
	hours := []int64{0, 1, 23, 24, 470_000, 470_001, 470_023, 474_791, hourMax}
	if testing.Short() {
		hours = []int64{0, 23, 24, 470_000, hourMax}
	}
	var names []string
	for _, prefix := range oddPrefixes() {
		for _, hour := range hours {
			key := hourKey(prefix, hour)
			names = append(names, key)
			tsMs := hourEndMs(hour)
			if hour%2 == 0 {
				tsMs = (tsMs + 5*dayMs) % storage.TsMsMax // any time, not only the hour's end
			}
			b.set(key, "s", "\x00\x01", tsMs, key)
			b.set(key, "x", "", hourEndMs(hour), key)
		}
	}
	slices.Sort(names)
	rows := b.read(everything(), storage.ReadOptions{})
	require.Equal(t, names, rowKeys(rows))
	for _, r := range rows {
		require.Len(t, r.Cells, 2, "%q", r.Key)
		require.Equal(t, r.Key, r.Cells[0].Value)
	}
	// Every prefix of a key, and keys that no row can have, may bound a range.
	cuts := []string{"a#00#a=b#5", "a#00#a=b#:", "a#00#a=b#/", "a#00#a=b#", "a#00#a=b", "a#", "a#00#a=b#95299990",
		"a#00#a=b#9999999\x00", "a#00#a=b#99999999", "a#00#a=b#\xff", "a#00#a=b#9999999#", "#", "\xff",
		names[3], names[20] + "\x00"}
	for _, start := range cuts {
		for _, end := range append(cuts, "") {
			var want []string
			for _, name := range names {
				if name >= start && (end == "" || name < end) {
					want = append(want, name)
				}
			}
			set := storage.RowSet{Ranges: []storage.RowRange{{Start: []byte(start), End: []byte(end)}}}
			got := rowKeys(b.read(set, storage.ReadOptions{Filter: storage.Filter{KeysOnly: true}}))
			require.Equal(t, append([]string{}, want...), got, "[%q,%q)", start, end)
		}
	}
}

func testPartialFailure(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	err := b.table.Apply(b.ctx, []storage.RowMutation{
		mutation("ok1", setCell("a", "q", 1, "v")),
		mutation("", setCell("a", "q", 1, "v")),
		mutation("ok2", setCell("a", "q", 1, "v")),
		mutation("bad", setCell("a", "q", 1, "v"), setCell("nope", "q", 1, "v")),
		mutation("ok3", setCell("a", "q", 1, "v")),
	})
	var failed *storage.ApplyError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, storage.ErrBadKey)
	require.ErrorIs(t, err, storage.ErrBadMutation)
	require.Len(t, failed.Rows, 2)
	require.Equal(t, 1, failed.Rows[0].Index)
	require.Equal(t, 3, failed.Rows[1].Index)
	require.Equal(t, []string{"ok1", "ok2", "ok3"}, rowKeys(b.read(everything(), storage.ReadOptions{})))
	require.NoError(t, b.table.Apply(b.ctx, nil))
}

func testFamilies(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	for _, f := range []string{"c", "a", "b"} {
		b.set("k", f, "q2", 1, f+"2")
		b.set("k", f, "q1", dayMs*40, f+"1")
		b.set("only_"+f, f, "q", 1, f)
	}
	t.Run("cells by family and qualifier", func(t *testing.T) {
		b.want(keys("k"), storage.ReadOptions{},
			`"k" a:"q1"@3456000000="a1"`, `"k" a:"q2"@1="a2"`, `"k" b:"q1"@3456000000="b1"`, `"k" b:"q2"@1="b2"`,
			`"k" c:"q1"@3456000000="c1"`, `"k" c:"q2"@1="c2"`)
	})
	t.Run("filter", func(t *testing.T) {
		only := func(names ...string) storage.ReadOptions {
			return storage.ReadOptions{Filter: storage.Filter{Families: names}}
		}
		require.Equal(t, []string{"k", "only_b"}, rowKeys(b.read(everything(), only("b"))))
		require.Equal(t, []string{"k", "only_a", "only_c"}, rowKeys(b.read(everything(), only("c", "a"))))
		require.Empty(t, b.read(everything(), only("unknown")))
	})
	t.Run("delete one", func(t *testing.T) {
		b.apply(mutation("k", storage.Entry{Kind: storage.DeleteFamily, Family: "b"}))
		b.want(keys("k", "only_b"), storage.ReadOptions{},
			`"k" a:"q1"@3456000000="a1"`, `"k" a:"q2"@1="a2"`, `"k" c:"q1"@3456000000="c1"`, `"k" c:"q2"@1="c2"`,
			`"only_b" b:"q"@1="b"`)
	})
}

func testAggregates(t *testing.T, s *suite) {
	families := []storage.Family{{Name: "sum", Kind: storage.SumInt64}, {Name: "plain"}}
	if !s.caps.NoMinMax {
		families = append(families, storage.Family{Name: "min", Kind: storage.MinInt64},
			storage.Family{Name: "max", Kind: storage.MaxInt64})
	}
	b := s.start(t, storage.TableSchema{Name: "agg", Families: families})
	values := []int64{5, -3, 0, 1 << 40, -(1 << 62)}
	total := map[string]int64{"sum": 0, "min": values[0], "max": values[0]}
	for i, v := range values {
		total["sum"] += v
		total["min"], total["max"] = min(total["min"], v), max(total["max"], v)
		var entries []storage.Entry
		for _, f := range families {
			if f.Kind != storage.Plain {
				entries = append(entries, addTo(f.Name, "q", 100, v))
			}
		}
		b.apply(mutation("k", entries...))
		if i == 2 {
			require.NoError(t, b.store.Sync(b.ctx))
		}
	}
	check := func() {
		rows := b.read(keys("k"), storage.ReadOptions{})
		require.Len(t, rows, 1)
		require.Len(t, rows[0].Cells, len(families)-1)
		for _, c := range rows[0].Cells {
			require.Len(t, c.Value, 8)
			require.Equal(t, total[c.Family], number(c), c.Family)
		}
	}
	check()
	if s.caps.Compact != nil {
		s.caps.Compact(t, b.store)
		check()
	}
	b.apply(mutation("k", addTo("sum", "q", 100, 1), addTo("sum", "q", 100, 1), addTo("sum", "other", 100, 7)))
	total["sum"] += 2
	rows := b.read(keys("k"), storage.ReadOptions{Filter: storage.Filter{Families: []string{"sum"}}})
	require.Equal(t, int64(7), number(rows[0].Cells[0]))
	require.Equal(t, total["sum"], number(rows[0].Cells[1]))
	// A sum starts from zero after a delete, also within one mutation.
	b.apply(mutation("k", addTo("sum", "q", 100, 50), storage.Entry{Kind: storage.DeleteFamily, Family: "sum"},
		addTo("sum", "q", 100, 2), addTo("sum", "q", 100, 3)))
	rows = b.read(keys("k"), storage.ReadOptions{Filter: storage.Filter{Families: []string{"sum"}}})
	require.Len(t, rows[0].Cells, 1)
	require.Equal(t, int64(5), number(rows[0].Cells[0]))
	// Kinds do not mix.
	for _, e := range []storage.Entry{addTo("plain", "q", 1, 1), setCell("sum", "q", 1, "12345678")} {
		require.ErrorIs(t, b.table.Apply(b.ctx, []storage.RowMutation{mutation("k", e)}), storage.ErrBadMutation)
	}
}
