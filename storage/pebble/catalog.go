package pebble

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Table id 0 is the store's own key space: one record a table, and its tablets' split keys.
const (
	catalogTable  = 0
	catalogTables = 1 // family id of table records
	catalogSplits = 2 // family id of split keys
)

// tableRecord describes a table on disk, as JSON so that new fields can come without a new format.
type tableRecord struct {
	ID       uint16         `json:"id"`
	Name     string         `json:"name"`
	HourKeys bool           `json:"hour_keys"`
	Families []familyRecord `json:"families"`
	// DayChunkCodec names the codec of the day chunks, if there are any. DayChunkDays are the days that may have some.
	DayChunkCodec string        `json:"day_chunk_codec,omitempty"`
	DayChunkDays  []dayChunkDay `json:"day_chunk_days,omitempty"`
}

// dayChunkDay is a family and day that may have day chunks.
type dayChunkDay struct {
	Family uint8 `json:"f"`
	Day    int32 `json:"d"`
	// Complete says that nothing was left beside the day chunks when this was written.
	Complete bool `json:"c,omitempty"`
}

type familyRecord struct {
	ID           uint8              `json:"id"`
	Name         string             `json:"name"`
	Kind         storage.FamilyKind `json:"kind"`
	MaxAgeNs     int64              `json:"max_age_ns,omitempty"`
	MaxVersions  int                `json:"max_versions,omitempty"`
	Intersection bool               `json:"intersection,omitempty"`
	Mixed        bool               `json:"mixed,omitempty"`
}

func newTableRecord(id uint16, schema *storage.TableSchema) tableRecord {
	rec := tableRecord{ID: id, Name: schema.Name, HourKeys: schema.HourKeys}
	for i, f := range schema.Families {
		rec.Families = append(rec.Families, familyRecord{ID: uint8(i + 1), Name: f.Name, Kind: f.Kind,
			MaxAgeNs: int64(f.GC.MaxAge), MaxVersions: f.GC.MaxVersions, Intersection: f.GC.Intersection,
			Mixed: !schema.HourKeys})
	}
	return rec
}

func (r *tableRecord) schema() storage.TableSchema {
	s := storage.TableSchema{Name: r.Name, HourKeys: r.HourKeys}
	for _, f := range r.Families {
		s.Families = append(s.Families, storage.Family{Name: f.Name, Kind: f.Kind, GC: storage.GCPolicy{
			MaxAge: time.Duration(f.MaxAgeNs), MaxVersions: f.MaxVersions, Intersection: f.Intersection}})
	}
	return s
}

// withSchema returns the record with the GC policies of schema, or storage.ErrSchemaMismatch.
func (r *tableRecord) withSchema(schema *storage.TableSchema) (tableRecord, error) {
	if r.HourKeys != schema.HourKeys {
		return tableRecord{}, fmt.Errorf("%w: table %s has HourKeys %t on disk", storage.ErrSchemaMismatch, r.Name,
			r.HourKeys)
	}
	if len(r.Families) != len(schema.Families) {
		return tableRecord{}, fmt.Errorf("%w: table %s has %d families on disk, not %d", storage.ErrSchemaMismatch,
			r.Name, len(r.Families), len(schema.Families))
	}
	out := *r
	out.Families = append([]familyRecord(nil), r.Families...)
	for i := range out.Families {
		f := &out.Families[i]
		want, ok := schema.Family(f.Name)
		if !ok || want.Kind != f.Kind {
			return tableRecord{}, fmt.Errorf("%w: table %s has family %s of kind %d on disk", storage.ErrSchemaMismatch,
				r.Name, f.Name, f.Kind)
		}
		f.MaxAgeNs, f.MaxVersions, f.Intersection = int64(want.GC.MaxAge), want.GC.MaxVersions, want.GC.Intersection
	}
	return out, nil
}

func catalogKey(family uint8, name string) []byte {
	h := cellkey.NewHeader(catalogTable, family, 0)
	return append(append(h[:], name...), cellkey.Sentinel)
}

// readCatalog calls fn with name and value of every record of one kind.
func readCatalog(db *pebble.DB, family uint8, fn func(name string, value []byte) error) (err error) {
	h := cellkey.NewHeader(catalogTable, family, 0)
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: cellkey.AppendPartitionStart(nil, h),
		UpperBound: cellkey.AppendPartitionStart(nil, h.Next())})
	if err != nil {
		return engineError("read table catalogue", err)
	}
	defer func() { err = closeIter(it, err) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := fn(string(bytes.TrimSuffix(it.Key()[cellkey.HeaderBytes:], []byte{cellkey.Sentinel})), value); err != nil {
			return err
		}
	}
	return nil
}

// closeIter closes an iterator and returns the first error of the read.
func closeIter(it *pebble.Iterator, err error) error {
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return engineError("read", err)
}

// loadTables restores tables, their live partitions and tablets when a store opens.
func (s *Store) loadTables() error {
	recs, err := readRecords(s.db, &s.opts, s.health)
	if err != nil {
		return err
	}
	for _, rec := range recs.all() {
		if err := s.checkCodec(&rec); err != nil {
			return err
		}
		s.addTable(newTable(s, rec))
	}
	if !s.opts.ReadOnly {
		if err := s.alignRecords(&recs); err != nil {
			return err
		}
	}
	for _, t := range s.tables {
		if err := t.discoverPartitions(); err != nil {
			return err
		}
	}
	return s.loadSplits()
}

// loadSplits restores the tablets of all tables. Without split keys, a table has one tablet, which is split again.
func (s *Store) loadSplits() error {
	err := readCatalog(s.db, catalogSplits, func(name string, value []byte) error {
		t, ok := s.tables[name]
		if !ok {
			return nil
		}
		var keys [][]byte
		if err := json.Unmarshal(value, &keys); err != nil {
			return fmt.Errorf("%w: split keys of table %q: %v", storage.ErrCorrupt, name, err)
		}
		t.tablets.restore(keys)
		return nil
	})
	if errors.Is(err, storage.ErrCorrupt) {
		s.health.report("split keys are damaged, tablets are split again", slog.LevelError, "err", err)
		return nil
	}
	return err
}

// discoverPartitions finds the days that have keys by one seek each. Beside damaged blocks it finds them by probePartitions.
func (t *Table) discoverPartitions() error {
	err := t.seekPartitions()
	if errors.Is(err, storage.ErrCorrupt) {
		t.store.health.report("a table is damaged, reads that need the damaged part fail", slog.LevelError, "table",
			t.record().Name, "err", err)
		err = t.probePartitions()
	}
	if err != nil {
		return err
	}
	for _, b := range t.record().DayChunkDays {
		i := slices.IndexFunc(t.families, func(f *family) bool { return f.id == b.Family })
		if i < 0 {
			continue
		}
		if state := t.families[i].days.load().state(b.Day); state != nil {
			state.hasDayChunks.Store(true)
			state.complete = b.Complete
		}
	}
	return nil
}

// seekPartitions finds the days that have keys by one seek each.
func (t *Table) seekPartitions() (err error) {
	lower := cellkey.NewHeader(t.id, 0, cellkey.DayMax)
	it, err := t.store.db.NewIter(&pebble.IterOptions{LowerBound: cellkey.AppendPartitionStart(nil, lower),
		UpperBound: cellkey.AppendPartitionStart(nil, cellkey.NewHeader(t.id+1, 0, cellkey.DayMax))})
	if err != nil {
		return engineError("find partitions", err)
	}
	defer func() { err = closeIter(it, err) }()
	byID := make(map[uint8]*family, len(t.families))
	for _, f := range t.families {
		byID[f.id] = f
	}
	var seek []byte
	for ok := it.First(); ok; ok = it.SeekGE(seek) {
		var h cellkey.Header
		copy(h[:], it.Key())
		f := byID[h[cellkey.TableIDBytes]]
		if f == nil {
			return cellkey.Damaged(it.Key())
		}
		f.days.add(h.Day())
		seek = cellkey.AppendPartitionStart(seek[:0], h.Next())
	}
	return nil
}

// EnsureTable is part of storage.Store. A new or changed schema is durable when it returns, because rows that Load has
// made durable mean nothing without it.
func (s *Store) EnsureTable(ctx context.Context, schema storage.TableSchema) (storage.Table, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, exists := s.tables[schema.Name]
	var rec tableRecord
	if exists {
		var err error
		if rec, err = t.record().withSchema(&schema); err != nil {
			return nil, err
		}
		if slices.Equal(t.record().Families, rec.Families) {
			return t, nil
		}
	} else {
		if len(s.tables) >= storage.TablesMax {
			return nil, fmt.Errorf("%w: %d tables exist already", storage.ErrBadMutation, storage.TablesMax)
		}
		rec = newTableRecord(s.tableIDMax+1, &schema)
	}
	if err := s.putRecord(ctx, catalogTables, schema.Name, rec); err != nil {
		return nil, err
	}
	if err := s.flush(ctx); err != nil {
		return nil, fmt.Errorf("make schema of table %s durable: %w", schema.Name, err)
	}
	if exists {
		t.setRecord(rec)
		return t, nil
	}
	t = newTable(s, rec)
	s.addTable(t)
	return t, nil
}

// markMixed notes durably that cells of any time follow in the family. Without the note such cells would be sought in
// the wrong day; and a later Load could be durable before an earlier Apply.
func (t *Table) markMixed(ctx context.Context, f *family) error {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.mixed.Load() {
		return nil
	}
	rec := *t.record()
	rec.Families = slices.Clone(rec.Families)
	for i := range rec.Families {
		if rec.Families[i].ID == f.id {
			rec.Families[i].Mixed = true
		}
	}
	if err := s.putRecord(ctx, catalogTables, rec.Name, rec); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	t.setRecord(rec)
	return nil
}

// putRecord writes a record of the tree's own key space. Records of tables go to their copy first.
func (s *Store) putRecord(ctx context.Context, family uint8, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode catalogue record of %s: %w", name, err)
	}
	if err := s.waitRoom(ctx); err != nil {
		return err
	}
	if rec, ok := value.(tableRecord); ok {
		if err := s.storeRecords(rec); err != nil {
			return err
		}
	}
	if err := s.db.Set(catalogKey(family, name), data, pebble.NoSync); err != nil {
		return engineError("write catalogue record of "+name, err)
	}
	s.applied.Add(1)
	return nil
}
