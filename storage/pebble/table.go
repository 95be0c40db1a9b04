package pebble

import (
	"cmp"
	"slices"
	"sync/atomic"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Table is one table of a Store. It implements storage.Table.
type Table struct {
	store    *Store
	id       uint16
	hourKeys bool
	locks    *rowLocks
	tablets  *tablets
	families []*family // by name
	state    atomic.Pointer[tableState]
}

// tableState is what EnsureTable may replace while the table is in use.
type tableState struct {
	record tableRecord
	schema storage.TableSchema
	gc     map[string]storage.GCPolicy
}

func newTable(s *Store, rec tableRecord) *Table {
	t := &Table{store: s, id: rec.ID, hourKeys: rec.HourKeys, locks: newRowLocks()}
	for _, f := range rec.Families {
		t.families = append(t.families, &family{name: f.Name, id: f.ID, kind: f.Kind})
	}
	slices.SortFunc(t.families, func(a, b *family) int { return cmp.Compare(a.name, b.name) })
	t.tablets = newTablets(t)
	t.setRecord(rec)
	return t
}

func (t *Table) record() *tableRecord { return &t.state.Load().record }

// setRecord puts a new record into force.
func (t *Table) setRecord(rec tableRecord) {
	for _, f := range rec.Families {
		own := t.family(f.Name)
		if f.Mixed {
			own.mixed.Store(true)
		}
		own.unswept.Store(true)
	}
	t.replaceRecord(rec)
}

// replaceRecord puts a record with the same families into force.
func (t *Table) replaceRecord(rec tableRecord) {
	st := &tableState{record: rec, schema: rec.schema(), gc: make(map[string]storage.GCPolicy, len(rec.Families))}
	for _, f := range st.schema.Families {
		st.gc[f.Name] = f.GC
	}
	t.state.Store(st)
}

// Schema is part of storage.Table.
func (t *Table) Schema() storage.TableSchema {
	s := t.state.Load().schema
	s.Families = slices.Clone(s.Families)
	return s
}

// family returns the family of that name, or nil. Tables have few families, so a scan beats a map.
func (t *Table) family(name string) *family {
	for _, f := range t.families {
		if f.name == name {
			return f
		}
	}
	return nil
}

// stripeOf returns the lock of a row. All hours of a series have one, because they may share a day chunk. The key must
// have passed storage.CheckKey.
func (t *Table) stripeOf(key []byte) stripeSet {
	if t.hourKeys {
		key = key[:len(key)-cellkey.HourDigits]
	}
	return t.locks.stripeOf(key)
}
