package pebble

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
)

// sweepRowsMax is the number of rows that a sweep cleans while it holds their locks.
const sweepRowsMax = 256

// CollectGarbage is part of storage.Store. It drops each expired day by one range deletion, which drops whole files. The
// oldest day stays until all of it has expired. In families that need it, CollectGarbage deletes other garbage cell by cell.
func (s *Store) CollectGarbage(ctx context.Context) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	for _, t := range s.tablesByName() {
		for _, f := range t.families {
			if err := t.collectFamily(ctx, f); err != nil {
				return fmt.Errorf("collect garbage in table %s family %s: %w", t.record().Name, f.Name, err)
			}
		}
	}
	// A range deletion frees no space until it is flushed.
	if err := s.flush(ctx); err != nil {
		return err
	}
	s.writeDayChunksOf(ctx, 0, (*Table).dayChunksDue)
	for _, t := range s.tablesByName() {
		if err := t.tablets.Check(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) collectFamily(ctx context.Context, f *partition.Family) error {
	p := t.state.Load().gc[f.Name]
	if ageAlone(p) {
		if err := t.dropDays(ctx, f, p.CutoffMs(t.store.opts.GCNow())); err != nil {
			return err
		}
	}
	if p.MaxVersions > 0 && f.Mixed.Load() && (f.Unswept.Load() || p.Intersection && p.MaxAge > 0) {
		return t.sweep(ctx, f)
	}
	return nil
}

// dropDays deletes the days that end before the cutoff.
func (t *Table) dropDays(ctx context.Context, f *partition.Family, cutoffMs int64) error {
	if err := t.store.waitWritable(ctx); err != nil {
		return err
	}
	// All stripes: no writer may add a cell to a day that leaves the set of live days.
	unlock := t.locks.Lock(partition.AllStripes, 0)
	defer unlock()
	b := t.store.db.NewBatch()
	defer b.Close()
	var gone []int32
	for _, state := range f.Days.States() {
		day := state.Day
		if (int64(day)+1)*cellkey.DayMs > cutoffMs {
			continue
		}
		state.Changed(t.store.opts.Now)
		h := cellkey.NewHeader(t.id, f.ID, day)
		if err := b.DeleteRange(cellkey.AppendPartitionStart(nil, h), cellkey.AppendPartitionStart(nil, h.Next()), nil); err != nil {
			return fault.Wrap("drop day", err)
		}
		gone = append(gone, day)
	}
	if len(gone) == 0 {
		return nil
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fault.Wrap("drop days", err)
	}
	t.store.applied.Add(1)
	f.Days.Remove(gone)
	return nil
}

// sweep deletes garbage cell by cell.
func (t *Table) sweep(ctx context.Context, f *partition.Family) (err error) {
	// The scan sees all writes before this point. Later writes set the flag again.
	unlock := t.locks.Lock(partition.AllStripes, 0)
	f.Unswept.Store(false)
	unlock()
	defer func() {
		if err != nil {
			f.Unswept.Store(true)
		}
	}()
	scan := t.newSweep(ctx, f, storage.RowSet{Ranges: []storage.RowRange{{}}})
	defer scan.Close()
	var found storage.RowSet
	for scan.Next() {
		found.Keys = append(found.Keys, append([]byte(nil), scan.Row().Key...))
		if len(found.Keys) == sweepRowsMax {
			if err := t.sweepRows(ctx, f, found); err != nil {
				return err
			}
			found.Keys = found.Keys[:0]
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return t.sweepRows(ctx, f, found)
}

// newSweep returns a read that yields only garbage.
func (t *Table) newSweep(ctx context.Context, f *partition.Family, set storage.RowSet) *rowIter {
	it := &rowIter{t: t, ctx: ctx, sweep: true, opts: storage.ReadOptions{
		Filter: storage.Filter{Families: []string{f.Name}, KeysOnly: true}}}
	it.start(set)
	return it
}

// sweepRows reads rows again under their locks and deletes their garbage.
func (t *Table) sweepRows(ctx context.Context, f *partition.Family, rows storage.RowSet) error {
	if len(rows.Keys) == 0 {
		return nil
	}
	if err := t.store.waitWritable(ctx); err != nil {
		return err
	}
	var stripes partition.StripeSet
	for _, key := range rows.Keys {
		stripes |= t.stripeOf(key)
	}
	unlock := t.locks.Lock(stripes, 0)
	defer unlock()
	it := t.newSweep(ctx, f, rows)
	defer it.Close()
	w := rowWriter{t: t, indexed: true, batch: t.store.db.NewIndexedBatch()}
	defer w.close()
	for it.Next() {
		for _, c := range it.Row().Cells {
			if w.touch(f, cellkey.DayOf(c.TsMs)).HasDayChunks.Load() {
				if err := w.removeCell(f, it.Row().Key, &c); err != nil {
					return fault.Wrap("delete garbage", err)
				}
				continue
			}
			w.scratch = t.layout.Append(w.scratch[:0], cellkey.NewHeader(t.id, f.ID, cellkey.DayOf(c.TsMs)), it.Row().Key,
				c.Qualifier, c.TsMs)
			if err := w.batch.Delete(w.scratch, nil); err != nil {
				return fault.Wrap("delete garbage", err)
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return w.commit()
}
