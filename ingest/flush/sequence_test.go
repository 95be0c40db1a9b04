package flush

import (
	"testing"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/storagetest"
)

// FuzzSequence checks that for any row, numbers ascend and stay in their range, or that there is an error.
func FuzzSequence(f *testing.F) {
	f.Add([]byte(sequenceQualifier), []byte("\x00\x00\x00\x00\x00\x00\x07\x00"), []byte("c\x00\x00\x00\x00\x00\x00\x03\x00"))
	f.Add([]byte(sequenceQualifier), []byte("\xff\xff\xff\xff\xff\xff\xff\xff"), []byte("c"))
	f.Add([]byte(sequenceQualifier), []byte{1}, []byte{})
	f.Fuzz(func(t *testing.T, qualifier, value, claim []byte) {
		store := storagetest.NewModel(time.Now)
		meta, err := store.EnsureTable(t.Context(), storage.MetaSchema())
		if err != nil {
			t.Fatal(err)
		}
		cell := storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: qualifier, Value: value}
		other := storage.Entry{Kind: storage.SetCell, Family: storage.FamilyMeta, Qualifier: claim}
		m := []storage.RowMutation{{Key: []byte(sequenceRow), Entries: []storage.Entry{cell, other}}}
		if meta.Apply(t.Context(), m) != nil {
			return // no table accepts such a row
		}
		s, err := OpenSequence(t.Context(), store, meta)
		if err != nil {
			return
		}
		last := uint32(0)
		for range 3 {
			n, err := s.AllocateAbove(t.Context(), 500, last)
			if err != nil {
				return
			}
			if n < last || uint64(n)+500 > keyschema.ChunkSeqMax {
				t.Fatalf("number %d after %d", n, last)
			}
			last = n + 499
		}
	})
}
