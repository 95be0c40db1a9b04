package pebble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/partition"
)

// loadTables restores tables, their live partitions and their tablets.
func (s *Store) loadTables() error {
	recs, err := catalog.ReadRecords(s.db, s.opts.FS, s.opts.Dir, s.health)
	if err != nil {
		return err
	}
	for _, rec := range recs.All() {
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

// loadSplits restores the tablets of all tables. A table without split keys starts with one tablet, which splits again
// later.
func (s *Store) loadSplits() error {
	err := catalog.Read(s.db, catalog.Splits, func(name string, value []byte) error {
		t, ok := s.tables[name]
		if !ok {
			return nil
		}
		var keys [][]byte
		if err := json.Unmarshal(value, &keys); err != nil {
			return fmt.Errorf("%w: split keys of table %q: %w", storage.ErrCorrupt, name, err)
		}
		t.tablets.Restore(keys)
		return nil
	})
	if errors.Is(err, storage.ErrCorrupt) {
		s.health.Report("split keys are damaged; tablets split again", slog.LevelError, "err", err)
		return nil
	}
	return err
}

// EnsureTable is part of storage.Store. A new or changed schema is durable when it returns, because rows that Load made
// durable cannot be read without it.
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
	var rec catalog.Table
	if exists {
		var err error
		if rec, err = t.record().WithSchema(&schema); err != nil {
			return nil, err
		}
		if slices.Equal(t.record().Families, rec.Families) {
			return t, nil
		}
	} else {
		if len(s.tables) >= storage.TablesMax {
			return nil, fmt.Errorf("%w: %d tables exist already", storage.ErrBadMutation, storage.TablesMax)
		}
		rec = catalog.NewTable(s.tableIDMax+1, &schema)
	}
	if err := s.putRecord(ctx, catalog.Tables, schema.Name, rec); err != nil {
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

// markMixed records durably that the family gets cells with any timestamp. Without the record, reads would look for such
// cells in the wrong day, and a later Load could become durable before an earlier Apply.
func (t *Table) markMixed(ctx context.Context, f *partition.Family) error {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Mixed.Load() {
		return nil
	}
	rec := *t.record()
	rec.Families = slices.Clone(rec.Families)
	for i := range rec.Families {
		if rec.Families[i].ID == f.ID {
			rec.Families[i].Mixed = true
		}
	}
	if err := s.putRecord(ctx, catalog.Tables, rec.Name, rec); err != nil {
		return err
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	t.setRecord(rec)
	return nil
}

// alignRecords writes the current records to the copy and to the tree if either differs from them.
func (s *Store) alignRecords(r *catalog.Records) error {
	for _, t := range s.tablesByName() {
		rec := *t.record()
		if r.Stored(rec) {
			continue
		}
		if err := s.putRecord(context.Background(), catalog.Tables, rec.Name, rec); err != nil {
			return err
		}
	}
	return nil
}
