package pebble

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
)

// Apply is part of storage.Table. It writes rows in batches. One batch holds all cells of a row.
func (t *Table) Apply(ctx context.Context, muts []storage.RowMutation) error {
	if err := storage.CheckApply(muts); err != nil {
		return err
	}
	if err := t.store.waitWritable(ctx); err != nil {
		return err
	}
	schema := &t.state.Load().schema
	var failed []storage.RowError
	var exclusive, shared partition.StripeSet
	for i := range muts {
		if err := storage.CheckMutation(schema, &muts[i]); err != nil {
			failed = append(failed, storage.RowError{Index: i, Err: err})
			continue
		}
		if reads(&muts[i]) {
			exclusive |= t.stripeOf(muts[i].Key)
		} else {
			shared |= t.stripeOf(muts[i].Key)
		}
	}
	unlock := t.locks.Lock(exclusive, shared)
	defer unlock()
	a := applier{t: t, muts: muts, failed: failed}
	a.writer.t, a.writer.indexed = t, exclusive != 0
	defer a.writer.close()
	a.run(ctx)
	if len(a.failed) > 0 {
		return &storage.ApplyError{Rows: a.failed}
	}
	return nil
}

// reads reports whether a mutation must read the row before it can be written.
func reads(m *storage.RowMutation) bool {
	for i := range m.Entries {
		if k := m.Entries[i].Kind; k != storage.SetCell && k != storage.AddToCell {
			return true
		}
	}
	return false
}

// applier carries out one Apply.
type applier struct {
	t      *Table
	muts   []storage.RowMutation
	failed []storage.RowError // by index
	writer rowWriter
}

// run writes all rows that have not failed, batch by batch.
func (a *applier) run(ctx context.Context) {
	for first := 0; first < len(a.muts); {
		end, err := a.writeBatch(ctx, first)
		if err != nil {
			// No row of this batch or a later one was applied.
			for i := first; i < len(a.muts); i++ {
				a.fail(i, err)
			}
			return
		}
		a.t.tablets.Applied(a.muts[first:end], func(i int) bool { return a.hasFailed(first + i) })
		first = end
	}
}

// writeBatch writes the rows of one batch, from first on, and returns the index of the next row.
func (a *applier) writeBatch(ctx context.Context, first int) (end int, err error) {
	if end, err = a.fill(ctx, first); err != nil {
		return 0, err
	}
	return end, a.writer.commit()
}

// fill adds rows to the batch until it is large, and returns the index of the next row. It omits a row that it cannot write.
// A batch cannot remove a row, so fill then starts over without this row.
func (a *applier) fill(ctx context.Context, first int) (end int, err error) {
	for i := first; i < len(a.muts); i++ {
		if a.hasFailed(i) {
			continue
		}
		if err := a.writer.write(ctx, a.muts[i].Key, a.muts[i].Entries); err != nil {
			if err := a.t.store.health.Writable(); err != nil {
				return 0, err
			}
			a.fail(i, err)
			a.writer.discard()
			return a.fill(ctx, first)
		}
		if a.writer.batch.Len() >= applyBatchBytesMax {
			return i + 1, nil
		}
	}
	return len(a.muts), nil
}

func (a *applier) hasFailed(i int) bool {
	_, ok := slices.BinarySearchFunc(a.failed, i, byIndex)
	return ok
}

func (a *applier) fail(i int, err error) {
	if at, ok := slices.BinarySearchFunc(a.failed, i, byIndex); !ok {
		a.failed = slices.Insert(a.failed, at, storage.RowError{Index: i, Err: err})
	}
}

func byIndex(r storage.RowError, i int) int { return cmp.Compare(r.Index, i) }

// rowWriter collects rows in a batch. It belongs to one goroutine, which holds the row locks.
type rowWriter struct {
	t       *Table
	indexed bool // the batch must see its own writes, because some of its rows are read
	batch   *pebble.Batch
	scratch []byte
	// touched is the last changed day; it belongs to touchedFamily.
	touched       *partition.State
	touchedFamily *partition.Family
}

// close drops the uncommitted batch.
func (w *rowWriter) close() { w.discard() }

// discard drops the open batch.
func (w *rowWriter) discard() {
	if w.batch != nil {
		_ = w.batch.Close() // Close only returns the memory
		w.batch = nil
	}
}

// write adds one row's entries, in order.
func (w *rowWriter) write(ctx context.Context, key []byte, entries []storage.Entry) error {
	if w.batch == nil {
		if w.indexed {
			w.batch = w.t.store.db.NewIndexedBatch()
		} else {
			w.batch = w.t.store.db.NewBatch()
		}
	}
	for i := range entries {
		e := &entries[i]
		var err error
		switch e.Kind {
		case storage.SetCell, storage.AddToCell:
			err = w.put(ctx, key, e)
		case storage.DeleteCells:
			err = w.remove(key, e.Family, func(c *cellkey.Key) bool {
				return string(c.Qualifier) == string(e.Qualifier) && e.FromMs <= c.TsMs && (e.ToMs == 0 || c.TsMs < e.ToMs)
			}, e.FromMs, e.ToMs)
		case storage.DeleteFamily:
			err = w.remove(key, e.Family, nil, 0, 0)
		case storage.DeleteRow:
			err = w.remove(key, "", nil, 0, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put adds a cell or an aggregate's operand.
func (w *rowWriter) put(ctx context.Context, key []byte, e *storage.Entry) error {
	t := w.t
	f := t.family(e.Family)
	day := cellkey.DayOf(e.TsMs)
	state := w.touch(f, day)
	if err := t.noteVersion(ctx, f, key, e.TsMs); err != nil {
		return err
	}
	w.scratch = t.layout.Append(w.scratch[:0], cellkey.NewHeader(t.id, f.ID, day), key, e.Qualifier, e.TsMs)
	if t.layout.HourKeys {
		state.LateBytes.Add(int64(len(w.scratch) + len(e.Value)))
	}
	if e.Kind == storage.AddToCell {
		op := w.batch.MergeDeferred(len(w.scratch), cellkey.OperandBytes)
		copy(op.Key, w.scratch)
		cellkey.PutOperand(op.Value, f.Kind, e.Add)
		return fault.Wrap("merge cell", op.Finish())
	}
	op := w.batch.SetDeferred(len(w.scratch), len(e.Value))
	copy(op.Key, w.scratch)
	copy(op.Value, e.Value)
	return fault.Wrap("set cell", op.Finish())
}

// touch makes a day live and records that this writer changes it.
func (w *rowWriter) touch(f *partition.Family, day int32) *partition.State {
	if w.touched == nil || w.touchedFamily != f || w.touched.Day != day {
		w.touchedFamily, w.touched = f, f.Days.Add(day)
		w.touched.Changed(w.t.store.opts.Now)
	}
	return w.touched
}

// noteVersion updates the family's flags about versions before the write of a cell.
func (t *Table) noteVersion(ctx context.Context, f *partition.Family, key []byte, tsMs int64) error {
	if f.Mixed.Load() {
		if !f.Unswept.Load() {
			f.Unswept.Store(true)
		}
		return nil
	}
	if tsMs == cellkey.HourEndMs(cellkey.ParseHour(key[len(key)-cellkey.HourDigits:])) {
		return nil
	}
	if err := t.markMixed(ctx, f); err != nil {
		return fmt.Errorf("record that family %s has cells of any time: %w", f.Name, err)
	}
	return nil
}

// remove deletes the row's matching cells, in one family or in all. A nil match selects all cells.
func (w *rowWriter) remove(key []byte, familyName string, match func(*cellkey.Key) bool, fromMs, toMs int64) (err error) {
	t := w.t
	it, err := w.batch.NewIter(nil)
	if err != nil {
		return fault.Wrap("read row to delete", err)
	}
	defer func() { err = fault.CloseIter(it, err) }()
	place, after := t.rowPlace(key)
	var lower, upper []byte
	var days []int32
	for _, f := range t.families {
		if familyName != "" && f.Name != familyName {
			continue
		}
		days = f.Days.Load().Within(days[:0], fromMs, toMs)
		for _, day := range days {
			h := cellkey.NewHeader(t.id, f.ID, day)
			if w.touch(f, day).HasDayChunks.Load() {
				if err := w.removeFromDayChunk(it, h, cellkey.Range{Start: place, End: after}, match); err != nil {
					return err
				}
			}
			lower, upper = place.AppendSeek(lower[:0], h), after.AppendSeek(upper[:0], h)
			it.SetBounds(lower, upper)
			for ok := it.First(); ok; ok = it.Next() {
				if cellkey.IsDayChunk(it.Key(), cellkey.Split(it.Key())) {
					continue // removeFromDayChunk has handled it
				}
				c, ok := t.layout.Parse(it.Key())
				if !ok {
					return cellkey.Damaged(it.Key())
				}
				if match != nil && !match(&c) {
					continue
				}
				if err := w.batch.Delete(it.Key(), nil); err != nil {
					return err
				}
			}
			if err := it.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rowPlace returns the bounds of one row.
func (t *Table) rowPlace(key []byte) (at, after cellkey.Bound) {
	arena := make([]byte, 0, 2*cellkey.BoundBytesMax(len(key)+1))
	at, arena = t.layout.NewBound(arena, key)
	after, _ = t.layout.NewBound(arena, append(key[:len(key):len(key)], 0))
	return at, after
}

// commit makes the open batch visible.
func (w *rowWriter) commit() error {
	if w.batch == nil {
		return nil
	}
	b := w.batch
	w.batch = nil
	if b.Empty() {
		return fault.Wrap("close batch", b.Close())
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		_ = b.Close() // the error of the commit is more useful
		return fault.Wrap("commit", err)
	}
	w.t.store.applied.Add(1)
	return fault.Wrap("close batch", b.Close())
}

// CheckAndApply is part of storage.Table.
func (t *Table) CheckAndApply(
	ctx context.Context, key []byte, cond storage.Filter, then, otherwise storage.RowMutation,
) (bool, error) {
	schema := &t.state.Load().schema
	if err := storage.CheckKey(schema, key); err != nil {
		return false, err
	}
	for _, m := range []*storage.RowMutation{&then, &otherwise} {
		if len(m.Entries) == 0 {
			continue
		}
		if len(m.Key) > 0 && string(m.Key) != string(key) {
			return false, fmt.Errorf("%w: the mutation names row %.80q, the condition row %.80q", storage.ErrBadMutation, m.Key,
				key)
		}
		if err := storage.CheckMutation(schema, &storage.RowMutation{Key: key, Entries: m.Entries}); err != nil {
			return false, err
		}
	}
	if err := t.store.waitWritable(ctx); err != nil {
		return false, err
	}
	unlock := t.locks.Lock(t.stripeOf(key), 0)
	defer unlock()
	matched, err := storage.HasRow(ctx, t, storage.RowSet{Keys: [][]byte{key}}, cond)
	if err != nil {
		return false, err
	}
	chosen := storage.RowMutation{Key: key, Entries: otherwise.Entries}
	if matched {
		chosen.Entries = then.Entries
	}
	if len(chosen.Entries) == 0 {
		return matched, nil
	}
	w := rowWriter{t: t, indexed: reads(&chosen)}
	defer w.close()
	if err := w.write(ctx, key, chosen.Entries); err != nil {
		return false, err
	}
	if err := w.commit(); err != nil {
		return false, err
	}
	t.tablets.Applied([]storage.RowMutation{chosen}, nil)
	return matched, nil
}

// DropRows is part of storage.Table: one range deletion for each family and day.
func (t *Table) DropRows(ctx context.Context, r storage.RowRange) error {
	if len(r.End) > 0 && string(r.Start) >= string(r.End) {
		return nil
	}
	rows := t.layout.NewRanges([]storage.RowRange{r})
	return t.dropRanges(ctx, "drop rows", rows, func(yield func(*partition.Family, *partition.State) bool) {
		for _, f := range t.families {
			for _, state := range f.Days.States() {
				if !yield(f, state) {
					return
				}
			}
		}
	})
}

// dropRanges deletes all cells of the rows in the given days, in one batch. The argument what names the call in errors.
func (t *Table) dropRanges(
	ctx context.Context, what string, rows []cellkey.Range, days iter.Seq2[*partition.Family, *partition.State],
) error {
	if err := t.store.waitWritable(ctx); err != nil {
		return err
	}
	// All stripes: a write of a row happens completely before or completely after the drop.
	unlock := t.locks.Lock(partition.AllStripes, 0)
	defer unlock()
	b := t.store.db.NewBatch()
	defer b.Close()
	for f, state := range days {
		h := cellkey.NewHeader(t.id, f.ID, state.Day)
		state.Changed(t.store.opts.Now)
		for _, r := range rows {
			if err := b.DeleteRange(r.SeekStart(nil, h), r.SeekEnd(nil, h), nil); err != nil {
				return fault.Wrap(what, err)
			}
			if !state.HasDayChunks.Load() {
				continue
			}
			if err := t.dropFromDayChunks(b, h, r); err != nil {
				return fault.Wrap(what, err)
			}
		}
	}
	if b.Empty() {
		return nil
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fault.Wrap(what, err)
	}
	t.store.applied.Add(1)
	return nil
}
