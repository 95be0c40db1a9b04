package compactor

import (
	"testing"

	"halite/storage"
)

// FuzzNote decodes rows with any key and cell. The result is an error, or an hour whose mutation removes its notes.
func FuzzNote(f *testing.F) {
	note := Note(470_000, true)
	f.Add(note.Key, note.Entries[0].Qualifier)
	f.Add([]byte("pack#999"), []byte{})
	f.Add([]byte("pa"), []byte("o"))
	f.Fuzz(func(t *testing.T, key, qualifier []byte) {
		n, err := parseNote(storage.Row{Key: key, Cells: []storage.Cell{{Qualifier: qualifier}}})
		if err != nil {
			return
		}
		if done := n.done(); string(done.Key) != string(key) || string(done.Entries[0].Qualifier) != string(qualifier) {
			t.Fatalf("%q %x: %+v", key, qualifier, done)
		}
	})
}
