package compactor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"halite/keyschema"
	"halite/storage"
)

// A note is a cell of the meta table that says that an hour has single samples: row pack#hour, in the hour's reversed form;
// the qualifier is 'o' if they were written in time, 'l' if they came late, and 8 random bytes.
const (
	notePrefix = "pack#"
	noteEnd    = "pack$"
	noteInTime = 'o'
	noteLate   = 'l'
	noteBytes  = 9
)

// Note is the mutation of TableMeta that brings the compactor to an hour. A note in time may be left once by each process,
// before it acknowledges its first sample of the hour; late tells of samples with a mark and is left after each request
// that wrote some.
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
	inTime     bool // not only late samples
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

// done is the mutation that takes away the notes that were seen, and none that came since.
func (n *noted) done() storage.RowMutation {
	m := storage.RowMutation{Key: n.key}
	for _, q := range n.qualifiers {
		m.Entries = append(m.Entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyMeta, Qualifier: q})
	}
	return m
}
