package compactor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"halite/keyschema"
	"halite/storage"
)

// A note is a cell of the meta table that says that an hour has single samples. Its row is pack#hour, with the hour in
// reversed form. Its qualifier is 'o' for samples in time or 'l' for late ones, followed by 8 random bytes.
const (
	notePrefix = "pack#"
	noteEnd    = "pack$"
	noteInTime = 'o'
	noteLate   = 'l'
	noteBytes  = 9
)

// Note returns the mutation of TableMeta that makes the compactor pack an hour. Each process writes one note for samples in
// time, before it acknowledges its first sample of the hour. After each request with late samples it writes a late note.
// Late samples also have a mark.
func Note(hour int64, late bool) storage.RowMutation {
	kind := byte(noteInTime)
	if late {
		kind = noteLate
	}
	return storage.RowMutation{Key: keyschema.AppendHour([]byte(notePrefix), hour), Entries: []storage.Entry{{
		Kind: storage.SetCell, Family: storage.FamilyMeta,
		Qualifier: binary.BigEndian.AppendUint64([]byte{kind}, rand.Uint64()),
	}}}
}

// noted is an hour with its notes.
type noted struct {
	key        []byte
	hour       int64
	qualifiers [][]byte
	inTime     bool // some samples are not late
}

func parseNote(row storage.Row) (noted, error) {
	n := noted{key: bytes.Clone(row.Key)}
	digits := row.Key[min(len(row.Key), len(notePrefix)):]
	var ok bool
	if n.hour, ok = keyschema.ParseHour(digits); !ok {
		return n, fmt.Errorf("%w: table %s, row %q is not a note of an hour", storage.ErrCorrupt, storage.TableMeta, row.Key)
	}
	for _, c := range row.Cells {
		n.qualifiers = append(n.qualifiers, bytes.Clone(c.Qualifier))
		n.inTime = n.inTime || len(c.Qualifier) != noteBytes || c.Qualifier[0] != noteLate
	}
	return n, nil
}

// done returns the mutation that removes the notes read. Later notes stay.
func (n *noted) done() storage.RowMutation {
	m := storage.RowMutation{Key: n.key}
	for _, q := range n.qualifiers {
		m.Entries = append(m.Entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: q})
	}
	return m
}
