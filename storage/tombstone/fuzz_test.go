package tombstone_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"halite/storage"
	"halite/storage/storagetest"
	"halite/storage/tombstone"
)

// FuzzRow: a row of tombstones with any two cells is read, or refused as damaged. A set that was read accepts further
// tombstones.
func FuzzRow(f *testing.F) {
	const seven, most = "\x00\x00\x00\x00\x00\x00\x00\x07", "\xff\xff\xff\xff\xff\xff\xff\xff"
	f.Add([]byte("next"), []byte(seven), []byte("v"+seven), []byte("whose"))
	f.Add([]byte("floor"), []byte{0, 0, 1, 0}, []byte("a12345678"), []byte(seven))
	f.Add([]byte(seven), []byte{1}, []byte("v"), []byte{})
	f.Add([]byte("s12345678"), []byte(seven+seven+most), []byte("s87654321"), []byte(seven))
	f.Add([]byte("next"), []byte(most), []byte("v"+most), []byte{})
	f.Fuzz(func(t *testing.T, q1, v1, q2, v2 []byte) {
		store := storagetest.NewModel(time.Now)
		meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
		if err != nil {
			t.Fatal(err)
		}
		cell := func(q, v []byte) storage.Entry {
			return storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: q, Value: v}
		}
		m := storage.RowMutation{Key: []byte("tombstones#live"), Entries: []storage.Entry{cell(q1, v1), cell(q2, v2)}}
		if meta.Apply(t.Context(), []storage.RowMutation{m}) != nil {
			return // no table accepts such a row
		}
		for _, accept := range []bool{false, true} {
			set, err := tombstone.Open(t.Context(), tombstone.Options{Store: store, Shared: true, AcceptLoss: accept})
			if err != nil {
				if !errors.Is(err, storage.ErrCorrupt) {
					t.Fatal(err)
				}
				continue
			}
			number := func(context.Context) (uint32, error) { return set.View().Floor() + 1, nil }
			if _, err = set.Publish(t.Context(), deletion(), number); err == nil && set.Len() == 0 {
				t.Fatal("what was published is not in force")
			}
		}
	})
}
