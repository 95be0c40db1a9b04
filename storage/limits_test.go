package storage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
)

func testSchema() storage.TableSchema {
	return storage.TableSchema{Name: "t", Families: []storage.Family{{Name: "a"}, {Name: "n", Kind: storage.SumInt64}}}
}

func TestSchemaValidate(t *testing.T) {
	valid := testSchema()
	require.NoError(t, valid.Validate())
	for _, s := range []storage.TableSchema{storage.DataSchema(time.Hour), storage.IndexSchema("series", time.Hour),
		storage.MetaSchema()} {
		require.NoError(t, s.Validate())
	}
	families := func(n int) (out []storage.Family) {
		for i := range n {
			out = append(out, storage.Family{Name: fmt.Sprint(i)})
		}
		return out
	}
	require.NoError(t, storage.TableSchema{Name: strings.Repeat("t", 50), Families: families(100)}.Validate())
	for name, s := range map[string]storage.TableSchema{
		"no name":         {Families: families(1)},
		"long name":       {Name: strings.Repeat("t", 51), Families: families(1)},
		"odd name":        {Name: "a-b", Families: families(1)},
		"no families":     {Name: "t"},
		"many families":   {Name: "t", Families: families(101)},
		"long family":     {Name: "t", Families: []storage.Family{{Name: strings.Repeat("f", 17)}}},
		"empty family":    {Name: "t", Families: []storage.Family{{}}},
		"same family":     {Name: "t", Families: append(families(2), families(1)...)},
		"unknown kind":    {Name: "t", Families: []storage.Family{{Name: "f", Kind: 4}}},
		"negative age":    {Name: "t", Families: []storage.Family{{Name: "f", GC: storage.GCPolicy{MaxAge: -1}}}},
		"negative number": {Name: "t", Families: []storage.Family{{Name: "f", GC: storage.GCPolicy{MaxVersions: -1}}}},
	} {
		require.ErrorIs(t, s.Validate(), storage.ErrBadMutation, name)
	}
}

func TestCheckKey(t *testing.T) {
	plain, hours := testSchema(), testSchema()
	hours.HourKeys = true
	require.NoError(t, storage.CheckKey(&plain, make([]byte, storage.KeyBytesMax)))
	require.ErrorIs(t, storage.CheckKey(&plain, make([]byte, storage.KeyBytesMax+1)), storage.ErrBadKey)
	require.ErrorIs(t, storage.CheckKey(&plain, nil), storage.ErrBadKey)
	for _, key := range []string{"a#b#c#1234567", "###0000000", "\x00#\xff#\x00\xff#9999999"} {
		require.NoError(t, storage.CheckKey(&hours, []byte(key)), key)
	}
	long := strings.Repeat("x", storage.KeyBytesMax-10)
	require.NoError(t, storage.CheckKey(&hours, []byte(long+"###0000000")))
	require.ErrorIs(t, storage.CheckKey(&hours, []byte(long+"x###0000000")), storage.ErrBadKey)
	for _, key := range []string{"", "a", "1234567", "##1234567", "####1234567", "###123456", "###12345678", "###12345x7",
		"###1234567 ", "a#b#c1234567", "#b#c#123456#", "###-123456", "###１234567"} {
		require.ErrorIs(t, storage.CheckKey(&hours, []byte(key)), storage.ErrBadKey, key)
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add([]byte("a#b#c#1234567"))
	f.Add([]byte("#"))
	f.Fuzz(func(t *testing.T, key []byte) {
		schema := testSchema()
		schema.HourKeys = true
		parts := strings.Split(string(key), "#")
		want := len(parts) == 4 && len(parts[3]) == 7 && strings.Trim(parts[3], "0123456789") == "" &&
			len(key) <= storage.KeyBytesMax
		require.Equal(t, want, storage.CheckKey(&schema, key) == nil)
	})
}

func TestCheckMutation(t *testing.T) {
	schema := testSchema()
	cell := make([]byte, storage.CellBytesMax)
	set := storage.Entry{Family: "a", Value: cell}
	full := storage.RowMutation{Key: []byte("k")}
	for range storage.RowMutationBytesMax / storage.CellBytesMax {
		full.Entries = append(full.Entries, set)
	}
	many := storage.RowMutation{Key: []byte("k"), Entries: make([]storage.Entry, storage.EntriesMax)}
	for i := range many.Entries {
		many.Entries[i].Family = "a"
	}
	one := func(e storage.Entry) storage.RowMutation {
		return storage.RowMutation{Key: []byte("k"), Entries: []storage.Entry{e}}
	}
	with := func(m storage.RowMutation, e storage.Entry) storage.RowMutation {
		m.Entries = append(m.Entries[:len(m.Entries):len(m.Entries)], e)
		return m
	}
	for name, m := range map[string]storage.RowMutation{
		"100 MiB":          full,
		"100,000 entries":  many,
		"largest time":     one(storage.Entry{Family: "a", TsMs: storage.TsMsMax}),
		"delete row":       one(storage.Entry{Kind: storage.DeleteRow}),
		"delete aggregate": one(storage.Entry{Kind: storage.DeleteCells, Family: "n", FromMs: 1, ToMs: 2}),
		"add":              one(storage.Entry{Kind: storage.AddToCell, Family: "n", Add: -1}),
	} {
		require.NoError(t, storage.CheckMutation(&schema, &m), name)
	}
	for name, m := range map[string]storage.RowMutation{
		"100 MiB and a byte":    with(full, storage.Entry{Family: "a", Qualifier: []byte("q")}),
		"100,001 entries":       with(many, storage.Entry{Family: "a"}),
		"no entries":            {Key: []byte("k")},
		"time too large":        one(storage.Entry{Family: "a", TsMs: storage.TsMsMax + 1}),
		"set in an aggregate":   one(storage.Entry{Family: "n"}),
		"add in a plain family": one(storage.Entry{Kind: storage.AddToCell, Family: "a"}),
		"long qualifier to delete": one(storage.Entry{Kind: storage.DeleteCells, Family: "a",
			Qualifier: cell[:storage.QualifierBytesMax+1]}),
		"negative range":            one(storage.Entry{Kind: storage.DeleteCells, Family: "a", FromMs: -1}),
		"range ends at its start":   one(storage.Entry{Kind: storage.DeleteCells, Family: "a", FromMs: 2, ToMs: 2}),
		"range ends before it":      one(storage.Entry{Kind: storage.DeleteCells, Family: "a", FromMs: 2, ToMs: 1}),
		"delete an unknown family":  one(storage.Entry{Kind: storage.DeleteFamily, Family: "zz"}),
		"unknown kind":              one(storage.Entry{Kind: storage.DeleteRow + 1}),
		"unknown family among many": with(full, storage.Entry{Family: "zz"}),
	} {
		require.ErrorIs(t, storage.CheckMutation(&schema, &m), storage.ErrBadMutation, name)
	}
	require.NoError(t, storage.CheckApply([]storage.RowMutation{many}))
	require.ErrorIs(t, storage.CheckApply([]storage.RowMutation{many, full}), storage.ErrBadMutation)
}

func TestGCPolicy(t *testing.T) {
	now := time.UnixMilli(1_000_000).Add(500 * time.Microsecond)
	require.Zero(t, storage.GCPolicy{}.CutoffMs(now))
	require.Equal(t, int64(999_001), storage.GCPolicy{MaxAge: time.Second}.CutoffMs(now))
	require.Equal(t, int64(999_000), storage.GCPolicy{MaxAge: time.Second}.CutoffMs(time.UnixMilli(1_000_000)))
	require.Zero(t, storage.GCPolicy{MaxAge: time.Hour}.CutoffMs(now), "nothing is older than 1970")
	age, versions := time.Second, 2
	for _, c := range []struct {
		policy      storage.GCPolicy
		old, newer2 bool // a cell past the age, a cell with two newer versions
		both        bool
	}{
		{storage.GCPolicy{}, false, false, false},
		{storage.GCPolicy{MaxAge: age}, true, false, true},
		{storage.GCPolicy{MaxVersions: versions}, false, true, true},
		{storage.GCPolicy{MaxAge: age, MaxVersions: versions}, true, true, true},
		{storage.GCPolicy{MaxAge: age, MaxVersions: versions, Intersection: true}, false, false, true},
		{storage.GCPolicy{MaxAge: age, Intersection: true}, true, false, true},
		{storage.GCPolicy{MaxVersions: versions, Intersection: true}, false, true, true},
		{storage.GCPolicy{Intersection: true}, false, false, false},
	} {
		cutoffMs := c.policy.CutoffMs(now)
		require.Equal(t, c.old, c.policy.Garbage(999_000, cutoffMs, 0), "%+v", c.policy)
		require.Equal(t, c.newer2, c.policy.Garbage(999_001, cutoffMs, 2), "%+v", c.policy)
		require.Equal(t, c.both, c.policy.Garbage(999_000, cutoffMs, 2), "%+v", c.policy)
		require.False(t, c.policy.Garbage(999_001, cutoffMs, 1), "%+v", c.policy)
	}
}

func TestApplyError(t *testing.T) {
	err := error(&storage.ApplyError{Rows: []storage.RowError{{Index: 3, Err: fmt.Errorf("x: %w", storage.ErrBadKey)},
		{Index: 5, Err: storage.ErrUnavailable}}})
	require.ErrorIs(t, err, storage.ErrBadKey)
	require.ErrorIs(t, err, storage.ErrUnavailable)
	require.NotErrorIs(t, err, storage.ErrCorrupt)
	require.ErrorContains(t, err, "2 rows failed, first: row 3")
	var apply *storage.ApplyError
	require.True(t, errors.As(fmt.Errorf("wrapped: %w", err), &apply))
}
