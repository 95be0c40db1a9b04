package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/sstable"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
)

// Load is part of storage.Table. It writes the cells of each partition to a sorted file, and the tree ingests all files in
// one synced step.
func (t *Table) Load(ctx context.Context, muts []storage.RowMutation) error {
	if len(muts) == 0 {
		return nil
	}
	if err := storage.CheckLoad(&t.state.Load().schema, muts); err != nil {
		return err
	}
	if err := t.store.waitWritable(ctx); err != nil {
		return err
	}
	parts, err := t.loadPartitions(ctx, muts)
	if err != nil {
		return err
	}
	w := loadWriter{t: t}
	defer func() { t.store.staging.remove(w.paths...) }()
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if err := w.writePartition(p, muts); err != nil {
			return fault.Wrap("write file to load", err)
		}
		w.sizes = append(w.sizes, w.sizeBytes)
		w.sizeBytes = 0
	}
	// Shared locks: like a plain write, a load must not happen between a row's check and its change.
	unlock := t.locks.Lock(0, partition.AllStripes)
	defer unlock()
	for i, p := range parts {
		if p.f.Mixed.Load() {
			p.f.Unswept.Store(true)
		}
		// Add it again under the locks, because garbage collection may have removed the day.
		state := p.f.Days.Add(p.day)
		state.Changed(t.store.opts.Now)
		state.LateBytes.Add(w.sizes[i])
	}
	if err := t.store.ingestAtOnce(ctx, w.paths); err != nil {
		return fault.Wrap("load files", err)
	}
	if err := t.store.health.Fatal(); err != nil {
		return err
	}
	t.tablets.Loaded(muts)
	return nil
}

// ingestAtOnce adds files to the tree. Each read sees all of their cells or none.
//
// Pebble installs the files before it publishes their sequence number. A compaction of the files in between may set sequence
// numbers to zero, so that reads see its output early. No compaction does that to cells newer than an open snapshot.
func (s *Store) ingestAtOnce(ctx context.Context, paths []string) error {
	before := s.db.NewSnapshot()
	return errors.Join(s.db.Ingest(ctx, paths), before.Close())
}

// loadPartition is a family and day with cells to load.
type loadPartition struct {
	f   *partition.Family
	day int32
}

// loadPartitions returns the partitions of all cells in the order of the tree, and makes them live.
func (t *Table) loadPartitions(ctx context.Context, muts []storage.RowMutation) ([]loadPartition, error) {
	seen := make(map[loadPartition]bool)
	var parts []loadPartition
	var last loadPartition
	for i := range muts {
		for j := range muts[i].Entries {
			e := &muts[i].Entries[j]
			if last.f == nil || last.f.Name != e.Family {
				last.f = t.family(e.Family)
				last.day = -1
			}
			if err := t.noteVersion(ctx, last.f, muts[i].Key, e.TsMs); err != nil {
				return nil, err
			}
			if day := cellkey.DayOf(e.TsMs); day != last.day {
				last.day = day
				if !seen[last] {
					seen[last] = true
					parts = append(parts, last)
					last.f.Days.Add(day)
				}
			}
		}
	}
	slices.SortFunc(parts, func(a, b loadPartition) int {
		return cmp.Or(cmp.Compare(a.f.ID, b.f.ID), cellkey.NewestFirst(a.day, b.day))
	})
	return parts, nil
}

// loadWriter writes the files of one Load.
type loadWriter struct {
	t     *Table
	paths []string
	sst   *sstable.Writer
	cells []*storage.Entry
	key   []byte
	// sizes are the sizes of the finished partitions. sizeBytes is the size of the current one so far.
	sizes     []int64
	sizeBytes int64
}

// writePartition writes the cells of one partition to one file, or to several if one file would be too large.
func (w *loadWriter) writePartition(p loadPartition, muts []storage.RowMutation) (err error) {
	h := cellkey.NewHeader(w.t.id, p.f.ID, p.day)
	defer func() {
		if w.sst != nil {
			err = errors.Join(err, w.finish())
		}
	}()
	for i := range muts {
		cells := w.rowCells(p, muts[i].Entries)
		if len(cells) == 0 {
			continue
		}
		if w.sst != nil && w.sst.Raw().EstimatedSize() >= loadFileBytesMax {
			if err := w.finish(); err != nil {
				return err
			}
		}
		if w.sst == nil {
			if err := w.begin(); err != nil {
				return err
			}
		}
		for _, e := range cells {
			w.key = w.t.layout.Append(w.key[:0], h, muts[i].Key, e.Qualifier, e.TsMs)
			if err := w.sst.Set(w.key, e.Value); err != nil {
				return err
			}
			w.sizeBytes += int64(len(w.key) + len(e.Value))
		}
	}
	return nil
}

// rowCells returns a row's cells in one partition, in the order of the tree. If several cells have one address, the
// last one wins.
func (w *loadWriter) rowCells(p loadPartition, entries []storage.Entry) []*storage.Entry {
	w.cells = w.cells[:0]
	for j := range entries {
		if e := &entries[j]; cellkey.DayOf(e.TsMs) == p.day && e.Family == p.f.Name {
			w.cells = append(w.cells, e)
		}
	}
	if len(w.cells) < 2 {
		return w.cells
	}
	order := func(a, b *storage.Entry) int {
		return cmp.Or(bytes.Compare(a.Qualifier, b.Qualifier), cmp.Compare(b.TsMs, a.TsMs))
	}
	slices.SortStableFunc(w.cells, order)
	kept := w.cells[:0]
	for i, e := range w.cells {
		if i+1 < len(w.cells) && order(e, w.cells[i+1]) == 0 {
			continue
		}
		kept = append(kept, e)
	}
	w.cells = kept
	return kept
}

func (w *loadWriter) begin() error {
	options := w.t.store.loadOptions
	if !w.t.layout.HourKeys {
		options = w.t.store.onceOptions
	}
	path, sst, err := w.t.store.staging.create(options)
	if err != nil {
		return err
	}
	w.paths, w.sst = append(w.paths, path), sst
	return nil
}

// finish completes and syncs the file.
func (w *loadWriter) finish() error {
	err := w.sst.Close()
	w.sst = nil
	return err
}
