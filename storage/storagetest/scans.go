package storagetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testScans(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	var muts []storage.RowMutation
	var names []string
	for i := range 200 {
		key := fmt.Sprintf("row%03d", i)
		names = append(names, key)
		muts = append(muts, mutation(key, setCell("a", "q1", 1, "one"), setCell("a", "q2", int64(i%5)*dayMs, "two"),
			setCell("b", "q3", 2, "three")))
	}
	b.apply(muts...)
	between := func(start, end string) storage.RowRange {
		return storage.RowRange{Start: []byte(start), End: []byte(end)}
	}
	ranges := func(rs ...storage.RowRange) storage.RowSet { return storage.RowSet{Ranges: rs} }
	sets := []struct {
		set  storage.RowSet
		want []string
	}{
		{storage.RowSet{}, nil},
		{everything(), names},
		{ranges(between("row010", "row013")), names[10:13]},
		{ranges(between("row198", "")), names[198:]},
		{ranges(between("", "row002")), names[:2]},
		{ranges(between("row013", "row010")), nil},
		{ranges(between("row010", "row010")), nil},
		{ranges(between("x", "")), nil},
		{ranges(between("row010", "row010\x00")), names[10:11]},
		{ranges(between("row01", "row02")), names[10:20]},
		{ranges(between("row050", "row053"), between("row010", "row012"), between("row011", "row013")),
			append(slices.Clone(names[10:13]), names[50:53]...)},
		{ranges(between("row010", "row020"), between("row012", "row014"), between("row020", "row022")), names[10:22]},
		{keys("row007", "row003", "row007", "absent", "row1999"), []string{"row003", "row007"}},
		{storage.RowSet{Keys: keys("row100", "row011").Keys, Ranges: []storage.RowRange{between("row010", "row012")}},
			[]string{"row010", "row011", "row100"}},
	}
	directions := []bool{false, true}
	if s.caps.NoReverse {
		directions = directions[:1]
	}
	for i, c := range sets {
		for _, reverse := range directions {
			want := append([]string{}, c.want...)
			if reverse {
				slices.Reverse(want)
			}
			require.Equal(t, want, rowKeys(b.read(c.set, storage.ReadOptions{Reverse: reverse})), "set %d", i)
			one := b.read(c.set, storage.ReadOptions{Reverse: reverse, Filter: storage.Filter{Families: []string{"b"}}})
			require.Equal(t, want, rowKeys(one), "set %d, one family", i)
			few := b.read(c.set, storage.ReadOptions{Reverse: reverse, RowsMax: 2})
			require.Equal(t, want[:min(2, len(want))], rowKeys(few), "set %d, two rows", i)
		}
	}
	t.Run("filters", func(t *testing.T) { testScanFilters(t, b) })
	t.Run("reverse keeps the order of cells", func(t *testing.T) {
		if s.caps.NoReverse {
			t.Skip("declared gap")
		}
		testReverseScan(t, s, b)
	})
	t.Run("ends", func(t *testing.T) { testScanEnds(t, b) })
	t.Run("thousands of ranges", func(t *testing.T) { testManyRanges(t, s) })
}

func testReverseScan(t *testing.T, s *suite, b *bench) {
	forward := b.read(everything(), storage.ReadOptions{})
	backward := b.read(everything(), storage.ReadOptions{Reverse: true})
	slices.Reverse(backward)
	require.Equal(t, forward, backward)
	near := s.start(t, plainSchema(storage.GCPolicy{}))
	near.apply(mutation("k1", setCell("a", "p", 1, "v"), setCell("a", "q", 5, "v"), setCell("a", "q", 7, "v")),
		mutation("k2", setCell("a", "p", 1, "v"), setCell("a", "q", 5, "v")))
	near.want(everything(), storage.ReadOptions{Reverse: true}, `"k2" a:"p"@1="v"`, `"k2" a:"q"@5="v"`,
		`"k1" a:"p"@1="v"`, `"k1" a:"q"@7="v"`, `"k1" a:"q"@5="v"`)
}

func testScanFilters(t *testing.T, b *bench) {
	read := func(f storage.Filter) []string {
		return lines(b.read(keys("row003"), storage.ReadOptions{Filter: f}))
	}
	require.Equal(t, []string{`"row003" a:"q2"@259200000="two"`, `"row003" b:"q3"@2="three"`},
		read(storage.Filter{QualifierStart: []byte("q2")}))
	require.Equal(t, []string{`"row003" a:"q1"@1="one"`}, read(storage.Filter{QualifierEnd: []byte("q2")}))
	require.Equal(t, []string{`"row003" a:"q2"@259200000="two"`},
		read(storage.Filter{QualifierStart: []byte("q2"), QualifierEnd: []byte("q3")}))
	require.Equal(t, []string{`"row003" b:"q3"@2="three"`}, read(storage.Filter{FromMs: 2, ToMs: 3}))
	require.Empty(t, read(storage.Filter{FromMs: 3, ToMs: 4}))
	require.Equal(t, []string{`"row003" a:"q1"@1=""`, `"row003" a:"q2"@259200000=""`, `"row003" b:"q3"@2=""`},
		read(storage.Filter{KeysOnly: true}))
	// A row without a passing cell is not there, and does not count.
	rows := b.read(everything(), storage.ReadOptions{RowsMax: 3, Filter: storage.Filter{FromMs: 4 * dayMs}})
	require.Equal(t, []string{"row004", "row009", "row014"}, rowKeys(rows))
}

func testScanEnds(t *testing.T, b *bench) {
	t.Run("early close", func(t *testing.T) {
		it := b.table.ReadRows(b.ctx, everything(), storage.ReadOptions{})
		require.True(t, it.Next())
		require.NoError(t, it.Close())
	})
	t.Run("close unread", func(t *testing.T) {
		require.NoError(t, b.table.ReadRows(b.ctx, everything(), storage.ReadOptions{}).Close())
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		_, err := readAll(ctx, b.table, everything(), storage.ReadOptions{})
		require.ErrorIs(t, err, context.Canceled)
	})
	t.Run("canceled midway", func(t *testing.T) {
		ctx, cancel := context.WithCancel(b.ctx)
		it := b.table.ReadRows(ctx, everything(), storage.ReadOptions{})
		require.True(t, it.Next())
		cancel()
		rows := 0
		for it.Next() {
			rows++
		}
		require.ErrorIs(t, it.Err(), context.Canceled)
		require.Less(t, rows, 199, "a canceled read ends soon")
		require.NoError(t, it.Close())
	})
	t.Run("negative numbers", func(t *testing.T) {
		for _, opts := range []storage.ReadOptions{{RowsMax: -1}, {Filter: storage.Filter{FromMs: -1}},
			{Filter: storage.Filter{ToMs: -1}}, {Filter: storage.Filter{VersionsMax: -1}}} {
			_, err := readAll(b.ctx, b.table, everything(), opts)
			require.ErrorIs(t, err, storage.ErrBadMutation)
		}
	})
	t.Run("a read sees what was there when it began", func(t *testing.T) {
		it := b.table.ReadRows(b.ctx, everything(), storage.ReadOptions{})
		require.True(t, it.Next())
		require.NoError(t, it.Close())
		b.set("row000", "a", "q9", 1, "new")
		require.Len(t, b.read(keys("row000"), storage.ReadOptions{})[0].Cells, 4)
	})
}

// testManyRanges reads thousands of short ranges, as a query over many series does.
func testManyRanges(t *testing.T, s *suite) {
	b := s.start(t, storage.DataSchema(0))
	const series, hours = 1500, 6
	first := int64(startMs / hourMs)
	var muts []storage.RowMutation
	for i := range series {
		for h := int64(hours - 1); h >= 0; h-- {
			key := hourKey(fmt.Sprintf("m#%02d#a=%05d#", i%16, i/16), first+h)
			muts = append(muts, mutation(key, setCell("s", "\x00", hourEndMs(first+h), key)))
		}
	}
	slices.SortFunc(muts, func(a, b storage.RowMutation) int { return slices.Compare(a.Key, b.Key) })
	require.NoError(t, b.table.Load(b.ctx, muts))
	rng := rand.New(rand.NewPCG(1, 2))
	var set storage.RowSet
	want := []string{}
	for i := range muts {
		if rng.IntN(3) > 0 {
			continue
		}
		key := string(muts[i].Key)
		want = append(want, key)
		if rng.IntN(2) == 0 {
			set.Keys = append(set.Keys, muts[i].Key)
		} else {
			set.Ranges = append(set.Ranges, storage.RowRange{Start: muts[i].Key, End: []byte(key + "\x00")})
		}
	}
	rng.Shuffle(len(set.Ranges), func(i, j int) { set.Ranges[i], set.Ranges[j] = set.Ranges[j], set.Ranges[i] })
	filter := storage.Filter{Families: []string{"s"}, FromMs: startMs, ToMs: startMs + dayMs}
	require.Equal(t, want, rowKeys(b.read(set, storage.ReadOptions{Filter: filter})))
	if s.caps.NoReverse {
		return
	}
	slices.Reverse(want)
	require.Equal(t, want, rowKeys(b.read(set, storage.ReadOptions{Filter: filter, Reverse: true})))
}
