package deletion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
	"halite/storage/periodic"
	"halite/storage/tombstone"
)

const (
	// cleanRows is the number of rows that a batch rewrites. Flushes wait meanwhile.
	cleanRows = 256
	// cleanRunSamplesMax bounds a chunk that is merged from several.
	cleanRunSamplesMax = 1 << 18
	monthDaysMax       = 31
	// cleanPause is the pause after the rewrite of a day of the index, as a multiple of its duration.
	cleanPause = 1
)

// Report is the result of CleanTombstones.
type Report struct {
	// Tombstones counts the dropped tombstones.
	Tombstones int
	// Waiting counts the tombstones that are too young, or have rows that could not be rewritten yet. The next call cleans them.
	Waiting int
	// RowsRewritten counts rewritten rows. RowsRemoved counts rows that had no samples left.
	RowsRewritten, RowsRemoved int64
	// Tables has the sizes before and after, including concurrent writes.
	Tables []TableBytes
}

// TableBytes is the approximate size of a table on disk.
type TableBytes struct {
	Table         string
	Before, After uint64
}

// Clean removes hours without samples from the index and deleted samples from the tables, frees their space and then drops
// the tombstones. It rewrites rows with samples left and removes other rows. It may take long, and writes and queries
// continue. After an interruption, the next call continues. Deletions that begin later wait for the next call.
func (d *Deleter) Clean(ctx context.Context) (report Report, err error) {
	d.cleanMu.Lock()
	defer d.cleanMu.Unlock()
	set := d.opts.Tombstones
	began := Progress{Began: d.opts.Now(), Deletions: set.Len()}
	d.cleaning.Store(&began)
	defer d.cleaning.Store(nil)
	// Once rows are removed, only a rebuild could remove their hours from the index. So the index comes first.
	if err := d.cleanIndex(ctx, cleanPause); err != nil {
		return report, err
	}
	view := set.View()
	todo := slices.DeleteFunc(slices.Clone(view.List()), func(t *tombstone.Tombstone) bool { return t.Pending })
	report.Waiting = view.Len() - len(todo) // deletions since cleanIndex; the index still has their hours
	view.Release()
	if err := d.opts.Store.Sync(ctx); err != nil {
		return report, fmt.Errorf("sync the tables: %w", err)
	}
	if err := report.SizesBefore(ctx, set.Base()); err != nil {
		return report, err
	}
	if len(todo) > 0 {
		if err := d.cleanRows(ctx, todo, &report); err != nil {
			return report, fmt.Errorf("clean the rows of %d deletions: %w", len(todo), err)
		}
	}
	if err := report.SizesAfter(ctx, set.Base()); err != nil {
		return report, err
	}
	d.opts.Logger.Info("tombstones cleaned", "deletions", report.Tombstones, "rows_rewritten", report.RowsRewritten,
		"rows_removed", report.RowsRemoved, "tables", report.sizesText())
	return report, nil
}

// sizesText lists the tables whose size has changed.
func (r *Report) sizesText() string {
	var changed []string
	for _, t := range r.Tables {
		if t.Before != t.After {
			changed = append(changed, fmt.Sprintf("%s %d to %d bytes", t.Table, t.Before, t.After))
		}
	}
	return strings.Join(changed, ", ")
}

// SizesBefore records the sizes of all tables before cleaning.
func (r *Report) SizesBefore(ctx context.Context, store storage.Store) error {
	return r.tableSizes(ctx, store, func(t *TableBytes) *uint64 { return &t.Before })
}

// SizesAfter records the sizes of all tables after cleaning.
func (r *Report) SizesAfter(ctx context.Context, store storage.Store) error {
	return r.tableSizes(ctx, store, func(t *TableBytes) *uint64 { return &t.After })
}

// tableSizes fills in the sizes of all tables.
func (r *Report) tableSizes(ctx context.Context, store storage.Store, field func(*TableBytes) *uint64) error {
	schemas, err := store.Tables(ctx)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	for _, schema := range schemas {
		at := slices.IndexFunc(r.Tables, func(t TableBytes) bool { return t.Table == schema.Name })
		if at < 0 {
			at = len(r.Tables)
			r.Tables = append(r.Tables, TableBytes{Table: schema.Name})
		}
		table, err := store.Table(ctx, schema.Name)
		if err != nil {
			return err
		}
		tablets, err := table.Tablets(ctx)
		if err != nil {
			return fmt.Errorf("ask for the size of table %s: %w", schema.Name, err)
		}
		for _, t := range tablets {
			*field(&r.Tables[at]) += t.SizeBytes
		}
	}
	return nil
}

// cleanRows cleans the rows of tombstones and drops the tombstones.
func (d *Deleter) cleanRows(ctx context.Context, todo []*tombstone.Tombstone, report *Report) error {
	set := d.opts.Tombstones
	raw, err := set.Base().Table(ctx, storage.TableData)
	if err != nil {
		return err
	}
	c := cleaner{d: d, raw: raw, report: report, progress: *d.cleaning.Load()}
	c.progress.Deletions = len(todo)
	defer func() {
		if c.view != nil {
			c.view.Release()
		}
	}()
	if err := c.renew(ctx); err != nil {
		return err
	}
	fromMs, toMs := Bounds(todo)
	if err := c.scan(ctx, fromMs, toMs, d.scanner().Rows(todo)); err != nil {
		return err
	}
	c.view.Release()
	c.view = nil
	if d.opts.States != nil {
		if err := d.opts.States.ApplyDeletions(ctx); err != nil {
			return err
		}
	}
	if err := d.opts.Store.Sync(ctx); err != nil {
		return fmt.Errorf("sync the tables: %w", err)
	}
	if report.Tombstones, err = set.Drop(ctx, IDs(todo)); err != nil {
		return err
	}
	return d.reclaim(ctx, d.scanner().Rows(todo).Ranges, fromMs/storage.DayMs, toMs/storage.DayMs)
}

// reclaim frees the space of deleted samples and states.
func (d *Deleter) reclaim(ctx context.Context, rows []storage.RowRange, firstDay, lastDay int64) error {
	store := d.opts.Tombstones.Base()
	for _, at := range []struct{ table, family string }{
		{storage.TableData, storage.FamilySamples}, {storage.TableData, storage.FamilyHistograms},
		{storage.TableData, storage.FamilyExemplars}, {storage.TableData, storage.FamilyStartTimes},
		{storage.TableRollup, storage.FamilyHours}, {storage.TableRollup, storage.FamilyDays},
	} {
		table, err := store.Table(ctx, at.table)
		if errors.Is(err, storage.ErrNoTable) {
			continue
		}
		if err != nil {
			return err
		}
		spans, ok := table.(storage.SpanTable)
		if !ok {
			continue
		}
		span := storage.CellSpan{Family: at.family, Rows: rows, FromDay: firstDay, ToDay: lastDay + 1}
		if at.family == storage.FamilyDays {
			span.ToDay += monthDaysMax // the states of a month's days have the time of the month's end
		}
		if err := spans.Reclaim(ctx, span); err != nil {
			return fmt.Errorf("free the space of table %s: %w", at.table, err)
		}
	}
	return nil
}

// cleaner rewrites rows.
type cleaner struct {
	d      *Deleter
	raw    storage.Table // with deleted samples
	view   *tombstone.View
	report *Report

	progress Progress

	row     chunk.Row
	encoder chunk.Encoder
}

// renew takes the tombstones in force and waits until no reader uses older ones.
func (c *cleaner) renew(ctx context.Context) (err error) {
	if c.view != nil {
		c.view.Release()
	}
	c.view, err = c.d.opts.Tombstones.SnapshotExclusive(ctx)
	return err
}

// scan finds rows with deleted samples and cleans them.
func (c *cleaner) scan(ctx context.Context, fromMs, toMs int64, set storage.RowSet) (err error) {
	filter := c.view.NewFilter()
	it := c.raw.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		Families: storage.SampleFamilies(), KeysOnly: true,
		FromMs: keyschema.HourStartMs(keyschema.HourOf(fromMs)), ToMs: keyschema.HourStartMs(keyschema.HourOf(toMs) + 1),
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	var keys [][]byte
	for it.Next() {
		row := it.Row()
		if c.progress.RowsRead++; c.progress.RowsRead%cleanRows == 0 {
			c.reportProgress()
		}
		matches, err := filter.MayDelete(ctx, &row)
		if err != nil {
			return err
		}
		if !matches {
			continue
		}
		if keys = append(keys, bytes.Clone(row.Key)); len(keys) == cleanRows {
			start := time.Now() // a duration, not a time of the data
			if err := c.rows(ctx, keys); err != nil {
				return err
			}
			keys = keys[:0]
			// The pause is as long as the work. So other work gets the lock and half of a CPU.
			if err := periodic.Sleep(ctx, time.Since(start)); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return c.rows(ctx, keys)
}

// rows cleans rows. No deletion and no flush runs meanwhile. So the chunks that it writes are the newest of their rows.
func (c *cleaner) rows(ctx context.Context, keys [][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	d := c.d
	d.opts.Flusher.Lock()
	for !c.view.Current() {
		d.opts.Flusher.Unlock() // renew may wait for slow queries
		if err := c.renew(ctx); err != nil {
			return err
		}
		d.opts.Flusher.Lock()
	}
	defer d.opts.Flusher.Unlock()
	muts, err := c.mutations(ctx, keys)
	if err != nil || len(muts) == 0 {
		return err
	}
	// The rows do not change for any reader, so caches stay valid.
	if err := c.raw.Apply(ctx, muts); err != nil {
		return fmt.Errorf("write %d rows to table %s: %w", len(muts), storage.TableData, err)
	}
	d.opts.Flusher.MarkUnsynced()
	d.opts.Metrics.CleanedRows.Add(float64(len(muts)))
	return nil
}

// mutations returns the mutations of the rows.
func (c *cleaner) mutations(ctx context.Context, keys [][]byte) (muts []storage.RowMutation, err error) {
	it := c.raw.ReadRows(ctx, storage.RowSet{Keys: keys}, storage.ReadOptions{Filter: storage.Filter{
		Families: storage.SampleFamilies(), VersionsMax: 1,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	filter := c.view.NewFilter()
	for it.Next() {
		row := it.Row()
		before := row
		_, changed, err := filter.Row(ctx, &row)
		if err != nil {
			return nil, err
		}
		if !changed {
			continue
		}
		m, err := c.mutation(ctx, before, row)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.Key, err)
		}
		muts = append(muts, m)
	}
	return muts, it.Err()
}

// mutation replaces the chunks of a row by their remaining samples. It merges chunks of floats. Chunks of other kinds keep
// their sequence numbers.
func (c *cleaner) mutation(ctx context.Context, before, after storage.Row) (m storage.RowMutation, err error) {
	k, err := keyschema.ParseRowKey(before.Key)
	if err != nil {
		return m, err
	}
	m.Key = bytes.Clone(before.Key)
	singles := map[string]bool{} // remaining single samples
	for _, cell := range after.Cells {
		if isSingle(&cell) {
			singles[string(cell.Qualifier)] = true
		}
	}
	freed := c.deleteFloats(&m, before.Cells, singles, k.Hour)
	c.row.Reset(keyschema.HourStartMs(k.Hour))
	for _, cell := range after.Cells {
		if cell.Family != storage.FamilySamples || singles[string(cell.Qualifier)] {
			continue // a single sample stays
		}
		if err := c.row.Add(cell.Qualifier, cell.Value); err != nil {
			return m, fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
		}
	}
	tsMs, values := c.row.Columns()
	others, shrunk := replaceChunks(&m, before.Cells, after.Cells, k.Hour)
	freed += shrunk
	if len(tsMs)+len(singles)+others == 0 {
		c.report.RowsRemoved++
	} else {
		c.report.RowsRewritten++
	}
	for len(tsMs) > 0 {
		n := min(len(tsMs), cleanRunSamplesMax)
		seq, err := c.d.opts.Sequence.Allocate(ctx)
		if err != nil {
			return m, err
		}
		value, err := c.encoder.Append(nil, keyschema.HourStartMs(k.Hour), tsMs[:n], values[:n])
		if err != nil {
			return m, err
		}
		freed -= len(value)
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(k.Hour),
			Qualifier: keyschema.AppendChunkQualifier(nil, seq), Value: value,
		})
		tsMs, values = tsMs[n:], values[n:]
	}
	c.d.opts.Metrics.CleanedBytes.Add(float64(max(0, freed)))
	return m, nil
}

// deleteFloats deletes the cells of floats except the remaining single samples. It returns the size of the deleted
// values.
func (c *cleaner) deleteFloats(
	m *storage.RowMutation, cells []storage.Cell, singles map[string]bool, hour int64,
) (freedBytes int) {
	for _, cell := range cells {
		if cell.Family == storage.FamilySamples && !singles[string(cell.Qualifier)] {
			freedBytes += len(cell.Value)
			m.Entries = append(m.Entries, deleteCell(&cell, hour))
		}
	}
	return freedBytes
}

func deleteCell(cell *storage.Cell, hour int64) storage.Entry {
	return storage.Entry{
		Kind: storage.DeleteCells, Family: cell.Family, Qualifier: bytes.Clone(cell.Qualifier),
		// Without a time range, an engine that places cells by time would search all days.
		FromMs: keyschema.HourStartMs(hour), ToMs: keyschema.HourStartMs(hour + 1),
	}
}

// replaceChunks replaces the changed cells of all kinds except floats. It returns the number of remaining cells and by how
// many bytes they shrank.
func replaceChunks(m *storage.RowMutation, before, after []storage.Cell, hour int64) (left, freedBytes int) {
	type name struct{ family, qualifier string }
	values := map[name][]byte{}
	for _, cell := range after {
		values[name{cell.Family, string(cell.Qualifier)}] = cell.Value
	}
	for _, cell := range before {
		if cell.Family == storage.FamilySamples {
			continue
		}
		value, kept := values[name{cell.Family, string(cell.Qualifier)}]
		switch {
		case !kept:
			m.Entries = append(m.Entries, deleteCell(&cell, hour))
		case !bytes.Equal(value, cell.Value):
			m.Entries = append(m.Entries, storage.Entry{
				Kind: storage.SetCell, Family: cell.Family, TsMs: cell.TsMs, Qualifier: bytes.Clone(cell.Qualifier),
				Value: bytes.Clone(value),
			})
		}
		if kept {
			left++
		}
		freedBytes += len(cell.Value) - len(value)
	}
	return left, freedBytes
}

func isSingle(cell *storage.Cell) bool {
	q, err := keyschema.ParseQualifier(cell.Qualifier)
	return err == nil && cell.Family == storage.FamilySamples && q.Kind == keyschema.KindSample
}
