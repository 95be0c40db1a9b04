package storagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testVersions(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{}))
	for _, tsMs := range []int64{0, 5, 4 * dayMs, 4*dayMs - 1, 4*dayMs + 1, storage.TsMsMax} {
		b.set("k", "a", "q", tsMs, fmt.Sprint(tsMs))
		b.set("k", "a", "p", tsMs/2, fmt.Sprint(tsMs/2))
	}
	times := func(opts storage.Filter) []int64 {
		opts.QualifierStart = []byte("q")
		var out []int64
		for _, r := range b.read(everything(), storage.ReadOptions{Filter: opts}) {
			for _, c := range r.Cells {
				require.Equal(t, fmt.Sprint(c.TsMs), string(c.Value))
				out = append(out, c.TsMs)
			}
		}
		return out
	}
	all := []int64{storage.TsMsMax, 4*dayMs + 1, 4 * dayMs, 4*dayMs - 1, 5, 0}
	require.Equal(t, all, times(storage.Filter{}))
	require.Equal(t, all[:2], times(storage.Filter{VersionsMax: 2}))
	require.Equal(t, all[2:4], times(storage.Filter{FromMs: 4*dayMs - 1, ToMs: 4*dayMs + 1}))
	require.Equal(t, all[2:3], times(storage.Filter{FromMs: 4*dayMs - 1, ToMs: 4*dayMs + 1, VersionsMax: 1}))
	require.Equal(t, all[:1], times(storage.Filter{FromMs: 4*dayMs + 2}))
	require.Empty(t, times(storage.Filter{FromMs: 6, ToMs: 4*dayMs - 1}))
	t.Run("same address is overwritten", func(t *testing.T) {
		b.set("k", "a", "q", 5, "5")
		require.Equal(t, all, times(storage.Filter{}))
	})
	t.Run("delete a time range", func(t *testing.T) {
		del := func(fromMs, toMs int64) {
			b.apply(mutation("k", storage.Entry{Kind: storage.DeleteCells, Family: "a", Qualifier: []byte("q"),
				FromMs: fromMs, ToMs: toMs}))
		}
		del(4*dayMs-1, 4*dayMs+1)
		require.Equal(t, []int64{storage.TsMsMax, 4*dayMs + 1, 5, 0}, times(storage.Filter{}))
		del(5, 0)
		require.Equal(t, []int64{0}, times(storage.Filter{}))
		del(0, 0)
		require.Empty(t, times(storage.Filter{}))
		rows := b.read(everything(), storage.ReadOptions{})
		require.Len(t, rows, 1)
		require.Len(t, rows[0].Cells, 5, "the other column is untouched")
	})
}

func testGC(t *testing.T, s *suite) {
	t.Run("age", func(t *testing.T) { testGCAge(t, s) })
	t.Run("versions", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{MaxVersions: 2}))
		for i := range int64(5) {
			b.set("k", "a", "q", startMs+i*dayMs/2, "v")
			b.set("k", "a", "p", startMs-i*dayMs/2, "v")
		}
		for range 2 {
			b.want(everything(), storage.ReadOptions{},
				fmt.Sprintf(`"k" a:"p"@%d="v"`, startMs), fmt.Sprintf(`"k" a:"p"@%d="v"`, startMs-dayMs/2),
				fmt.Sprintf(`"k" a:"q"@%d="v"`, startMs+2*dayMs), fmt.Sprintf(`"k" a:"q"@%d="v"`, startMs+3*dayMs/2))
			require.NoError(t, b.store.CollectGarbage(b.ctx))
		}
		if s.caps.InexactGC {
			return
		}
		b.apply(mutation("k", storage.Entry{Kind: storage.DeleteCells, Family: "a", Qualifier: []byte("q"),
			FromMs: startMs + 2*dayMs}))
		rows := b.read(everything(), storage.ReadOptions{Filter: storage.Filter{QualifierStart: []byte("q")}})
		require.Len(t, rows[0].Cells, 1, "collected versions do not come back")
	})
	t.Run("versions in hour tables", func(t *testing.T) { testGCHours(t, s) })
	t.Run("union", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{MaxAge: time.Hour, MaxVersions: 2}))
		wantCells(b, []int64{0, -1, -2, -2 * hourMs}, 2)
		wantCells(b, []int64{0, -2 * hourMs}, 1)
	})
	t.Run("intersection", func(t *testing.T) {
		if s.caps.NoIntersection {
			t.Skip("declared gap")
		}
		b := s.start(t, plainSchema(storage.GCPolicy{MaxAge: time.Hour, MaxVersions: 2, Intersection: true}))
		wantCells(b, []int64{0, -1, -2, -2 * hourMs}, 3)
		wantCells(b, []int64{0, -2 * hourMs, -3 * hourMs}, 2)
		wantCells(b, []int64{-9 * dayMs, -10 * dayMs, -11 * dayMs}, 2)
	})
	t.Run("policy is replaced", func(t *testing.T) {
		b := s.start(t, plainSchema(storage.GCPolicy{}))
		for i := range int64(4) {
			b.set("k", "a", "q", startMs-i*dayMs, "v")
		}
		require.Len(t, b.read(everything(), storage.ReadOptions{})[0].Cells, 4)
		b.ensure(plainSchema(storage.GCPolicy{MaxVersions: 3}))
		require.Len(t, b.read(everything(), storage.ReadOptions{})[0].Cells, 3)
		b.ensure(plainSchema(storage.GCPolicy{MaxAge: 30 * time.Hour}))
		require.NoError(t, b.store.CollectGarbage(b.ctx))
		require.Len(t, b.read(everything(), storage.ReadOptions{})[0].Cells, 2)
	})
}

// wantCells writes one column with cells at these distances from now and checks how many remain, before and after the
// garbage is collected.
func wantCells(b *bench, offsetsMs []int64, want int) {
	b.Helper()
	now := b.clock.now().UnixMilli()
	b.apply(mutation("k", storage.Entry{Kind: storage.DeleteRow}))
	for _, offset := range offsetsMs {
		b.set("k", "a", "q", now+offset, "v")
	}
	for range 2 {
		rows := b.read(everything(), storage.ReadOptions{})
		require.Len(b, rows, 1)
		require.Len(b, rows[0].Cells, want)
		require.NoError(b, b.store.CollectGarbage(b.ctx))
	}
}

// testGCHours writes second versions into a table whose cells had one version each.
func testGCHours(t *testing.T, s *suite) {
	b := s.start(t, storage.DataSchema(0))
	hour := int64(startMs / hourMs)
	key := hourKey("m#00#a=b#", hour)
	b.set(key, "s", "q", hourEndMs(hour), "regular")
	require.NoError(t, b.store.Sync(b.ctx))
	b.set(key, "s", "q", hourEndMs(hour)+3*dayMs, "newer")
	b.set(key, "h", "q", hourEndMs(hour), "other family")
	want := []string{
		fmt.Sprintf(`%q h:"q"@%d="other family"`, key, hourEndMs(hour)),
		fmt.Sprintf(`%q s:"q"@%d="newer"`, key, hourEndMs(hour)+3*dayMs)}
	b.want(everything(), storage.ReadOptions{}, want...)
	// A read with a time range sees the column's older versions.
	b.want(everything(), storage.ReadOptions{Filter: storage.Filter{ToMs: hourEndMs(hour) + 1, Families: []string{"s"}}},
		fmt.Sprintf(`%q s:"q"@%d="regular"`, key, hourEndMs(hour)))
	require.NoError(t, b.store.CollectGarbage(b.ctx))
	b.want(everything(), storage.ReadOptions{}, want...)
	if !s.caps.InexactGC {
		b.want(everything(), storage.ReadOptions{Filter: storage.Filter{ToMs: hourEndMs(hour) + 1, Families: []string{"s"}}})
	}
}

func testGCAge(t *testing.T, s *suite) {
	b := s.start(t, plainSchema(storage.GCPolicy{MaxAge: 2 * time.Hour}))
	for _, tsMs := range []int64{startMs - 2*hourMs - 1, startMs - 2*hourMs, startMs, startMs + dayMs} {
		b.set("k", "a", "q", tsMs, "v")
	}
	b.set("k", "c", "keeps", 0, "v")
	count := func(want int) {
		t.Helper()
		rows := b.read(everything(), storage.ReadOptions{})
		require.Len(t, rows, 1)
		require.Len(t, rows[0].Cells, want+1)
	}
	count(3)
	require.NoError(t, b.store.CollectGarbage(b.ctx))
	count(3)
	b.clock.advance(time.Millisecond)
	count(2)
	b.clock.advance(2 * time.Hour)
	count(1)
	require.NoError(t, b.store.CollectGarbage(b.ctx))
	count(1)
	b.clock.advance(48 * time.Hour)
	count(0)
	require.NoError(t, b.store.CollectGarbage(b.ctx))
	count(0)
	b.set("k", "a", "q", startMs, "late")
	count(0)
	b.set("k", "a", "q", startMs+3*dayMs, "fresh")
	count(1)
}
