package pebble

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/partition"
	"halite/storage/pebble/tablet"
)

// Table is one table of a Store. It implements storage.Table.
type Table struct {
	store    *Store
	id       uint16
	layout   cellkey.Layout
	locks    *partition.RowLocks
	tablets  *tablet.Set
	families []*partition.Family // by name
	state    atomic.Pointer[tableState]
}

// tableState is the part of a table that EnsureTable may replace while the table is in use.
type tableState struct {
	record catalog.Table
	schema storage.TableSchema
	gc     map[string]storage.GCPolicy
}

func newTable(s *Store, rec catalog.Table) *Table {
	t := &Table{store: s, id: rec.ID, layout: cellkey.Layout{HourKeys: rec.HourKeys}, locks: partition.NewRowLocks()}
	for _, f := range rec.Families {
		t.families = append(t.families, &partition.Family{Name: f.Name, ID: f.ID, Kind: f.Kind})
	}
	slices.SortFunc(t.families, func(a, b *partition.Family) int { return cmp.Compare(a.Name, b.Name) })
	t.tablets = tablet.NewSet(tablet.Config{TableID: t.id, Layout: t.layout, Families: t.families, DB: s.db,
		BytesMax: s.opts.TabletBytesMax, RowsHot: s.opts.TabletRowsHot, Save: func(ctx context.Context, splits [][]byte) error {
			return s.putRecord(ctx, catalog.Splits, t.record().Name, splits)
		}, Changed: func(kind string, key []byte, reason string) {
			if s.opts.TabletChanged != nil {
				s.opts.TabletChanged(storage.TabletChange{Kind: kind, Table: t.record().Name, Key: key, Reason: reason})
			}
		}})
	t.setRecord(rec)
	return t
}

func (t *Table) record() *catalog.Table { return &t.state.Load().record }

// setRecord installs a new record.
func (t *Table) setRecord(rec catalog.Table) {
	for _, f := range rec.Families {
		own := t.family(f.Name)
		if f.Mixed {
			own.Mixed.Store(true)
		}
		own.Unswept.Store(true)
	}
	t.replaceRecord(rec)
}

// replaceRecord installs a record with the same families.
func (t *Table) replaceRecord(rec catalog.Table) {
	st := &tableState{record: rec, schema: rec.Schema(), gc: make(map[string]storage.GCPolicy, len(rec.Families))}
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

// family returns the family with this name, or nil. Tables have few families, so a scan is faster than a map.
func (t *Table) family(name string) *partition.Family {
	for _, f := range t.families {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// stripeOf returns the lock of a row. All hours of a series have one lock, because they may share a day chunk. The key must
// have passed storage.CheckKey.
func (t *Table) stripeOf(key []byte) partition.StripeSet {
	if t.layout.HourKeys {
		key = key[:len(key)-cellkey.HourDigits]
	}
	return t.locks.StripeOf(key)
}

// Tablets is part of storage.Table. It estimates sizes from the indexes of files. Loads count from the later of two times:
// the creation of the tablet and the start of the process.
func (t *Table) Tablets(ctx context.Context) ([]storage.Tablet, error) {
	if err := t.store.checkOpen(); err != nil {
		return nil, err
	}
	return t.tablets.Describe(ctx)
}

// ageAlone reports whether every cell older than the cutoff is garbage under the policy.
func ageAlone(p storage.GCPolicy) bool {
	return p.MaxAge > 0 && (!p.Intersection || p.MaxVersions == 0)
}
