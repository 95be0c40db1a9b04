package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Several servers delete like this: the tombstone is put in force in the tables for all of them at one moment, and each asks
// whether there is a new one before it reads, and after it has written. What was written before the deletion has a lower
// number than the tombstone, or none (package tombstone). Then hours without samples leave the catalogue, under a mark that
// tells all servers so. A writer that finds out that there is a deletion that it did not know writes its samples once more, and
// one that finds that marks have come or gone, or that there is one, tells the catalogue of them again.

// cleanKeysMax is the number of rows that are gathered before they are cleaned.
const cleanKeysMax = 4096

// find returns a finder; there is one only with deletions.
func (t *Through) find() finder {
	return finder{
		index: t.opts.Index, schema: t.opts.Schema, data: t.data, states: t.opts.States,
	}
}

// renew has the catalogue know what others told before the call. A look that ran beside the telling may miss a part, the
// next one does not.
func (t *Through) renew(ctx context.Context) error {
	for range 2 {
		if err := t.index.Refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSeries deletes samples. When it returns, no query that begins afterwards on any server sees them any more; samples
// whose writing began later are not concerned, whatever their times. It returns the number of series that match and may have
// had samples there. An error other than those of a bad request may come after samples were deleted: sending it again does no
// harm.
func (t *Through) DeleteSeries(ctx context.Context, d Deletion) (series int, err error) {
	set := t.opts.Tombstones
	if set == nil {
		return 0, ErrNoDeletions
	}
	if d, err = d.clip(); err != nil || d.ToMs < d.FromMs {
		return 0, err
	}
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Exit()
	if err := t.renew(ctx); err != nil {
		return 0, err
	}
	// Even if there are none: a write that failed may have left rows of which the catalogue does not know.
	found, err := t.find().selected(ctx, d)
	if err != nil {
		return 0, err
	}
	made := &tombstone.Tombstone{
		FromMs: d.FromMs, ToMs: d.ToMs, MadeMs: t.now().UnixMilli(), Pending: true, Selectors: d.Selectors,
	}
	published, leaving, err := set.Publish(ctx, *made, t.sequence.TakeHighest, t.now)
	if err != nil {
		return len(found), fmt.Errorf("delete %s: %w", made, err)
	}
	made = published
	// There is no way back: whoever asked may have gone away, but it has to be finished.
	ctx = context.WithoutCancel(ctx)
	t.ChangedTimes(d.FromMs, d.ToMs)
	if err := t.settle(ctx, leaving, made); err != nil {
		return len(found), fmt.Errorf("finish deletion %s: %w", made, err)
	}
	t.metrics.deletions.Inc()
	t.logger.Info("samples deleted", "deletion", made.String(), "series", len(found))
	return len(found), nil
}

// settle takes hours out of the catalogue in which series have no rows because of deletions. If it fails its mark stays: nobody
// knows what comes of what was begun.
func (t *Through) settle(ctx context.Context, leaving *tombstone.Settling, todo ...*tombstone.Tombstone) error {
	if leaving.Overtook {
		fromMs, toMs := leaving.Span()
		if err := t.index.FenceShared(ctx, keyschema.HourOf(fromMs), keyschema.HourOf(toMs)); err != nil {
			return err
		}
	}
	ids := make([]uint64, len(todo))
	for n, made := range todo {
		ids[n] = made.ID
		if err := t.index.RemoveShared(ctx, t.removal(made, leaving.Held)); err != nil {
			return err
		}
	}
	if err := t.renew(ctx); err != nil {
		return err
	}
	return leaving.Done(ctx, ids...)
}

// removal is that of the hours that a deletion may empty.
func (t *Through) removal(made *tombstone.Tombstone, held func(ctx context.Context) error) index.SharedRemoval {
	f := t.find()
	r := f.reach(made)
	gone := func(ctx context.Context, series []index.Series) (out [][]index.HourSpan, err error) {
		for some := range slices.Chunk(series, settleSeries) {
			empty, err := f.gone(ctx, some, r)
			if err != nil {
				return nil, err
			}
			out = append(out, empty...)
		}
		return out, nil
	}
	return index.SharedRemoval{First: r.first, Last: r.last, Matchers: made.Selectors, Gone: gone, Held: held}
}

// settleSpan settles deletions of a span of time.
func (t *Through) settleSpan(ctx context.Context, fromMs, toMs int64, todo ...*tombstone.Tombstone) error {
	leaving, err := t.opts.Tombstones.StartSettling(ctx, fromMs, toMs, t.now)
	if err != nil {
		return err
	}
	return t.settle(ctx, leaving, todo...)
}

// settlePending finishes deletions whose servers died.
func (t *Through) settlePending(ctx context.Context) error {
	set := t.opts.Tombstones
	if err := set.Refresh(ctx); err != nil {
		return err
	}
	view := set.View()
	defer view.Release()
	if fromMs, toMs, old := view.OldSettling(t.now()); old {
		return t.settleSpan(ctx, fromMs, toMs) // what is pending is for the next run
	}
	var errs []error
	for _, made := range view.List() {
		if made.Pending && !view.Settling(made.FromMs, made.ToMs) {
			if err := t.settleSpan(ctx, made.FromMs, made.ToMs, made); err != nil {
				errs = append(errs, fmt.Errorf("finish deletion %s: %w", made, err))
			}
		}
	}
	return errors.Join(errs...)
}

// CountDeletion counts what DeleteSeries would delete, and deletes nothing. It reads all of it.
func (t *Through) CountDeletion(ctx context.Context, d Deletion) (count DeletionCount, err error) {
	if t.opts.Tombstones == nil {
		return count, ErrNoDeletions
	}
	if d, err = d.clip(); err != nil || d.ToMs < d.FromMs {
		return count, err
	}
	if err := errors.Join(t.opts.Tombstones.Refresh(ctx), t.renew(ctx)); err != nil {
		return count, err
	}
	return t.find().count(ctx, d, t.opts.Tombstones, t.AppendSamples)
}

// confirm sees to it that a deletion whose beginning lies before the end of a write does not hide what was written, nor takes
// it out of the catalogue. The rows of the batch are in the table.
func (t *Through) confirm(ctx context.Context, b *throughBatch) error {
	set := t.opts.Tombstones
	for set != nil {
		if err := set.Refresh(ctx); err != nil {
			return err
		}
		view := set.View()
		version, floor, settling := view.Version(), view.Floor(), view.Settling(b.span())
		view.Release()
		if version == b.version && !settling {
			return nil
		}
		again := floor != b.floor
		if again {
			b.renumber(floor)
			if err := t.put(ctx, b); err != nil {
				return err
			}
		}
		// Hours may be leaving the catalogue at this moment because there were no rows before.
		for _, row := range b.rows {
			t.index.Retell(row.ref, row.hour)
		}
		if err := t.index.Persist(ctx); err != nil {
			return err
		}
		if b.version = version; !again {
			return nil
		}
	}
	return nil
}

// span is the time that the rows of a batch cover.
func (b *throughBatch) span() (fromMs, toMs int64) {
	first, last := int64(keyschema.HourMax), int64(0)
	for hour := range b.hours {
		first, last = min(first, hour), max(last, hour)
	}
	return keyschema.HourStartMs(first), keyschema.HourCellMs(last)
}

// renumber has the samples follow another deletion.
func (b *throughBatch) renumber(floor uint32) {
	b.floor = floor
	for _, row := range b.rows {
		for n := range row.mutation.Entries {
			e := &row.mutation.Entries[n]
			if q, err := keyschema.ParseQualifier(e.Qualifier); err == nil && q.Kind == keyschema.KindSample {
				e.Qualifier = keyschema.AppendLaterSampleQualifier(nil, q.OffsetMs, floor)
			}
		}
	}
}

// CleanTombstones takes what was deleted longer ago than PackDelay out of the tables and then forgets the tombstones. One
// server at a time does it; another one is told storage.ErrUnavailable. If it is cut off, what is left to do is done by the
// next call.
func (t *Through) CleanTombstones(ctx context.Context) (report CleanReport, err error) {
	set := t.opts.Tombstones
	if set == nil {
		return report, ErrNoDeletions
	}
	if err := t.Enter(); err != nil {
		return report, err
	}
	defer t.Exit()
	t.cleaning.Lock()
	defer t.cleaning.Unlock()
	turn, err := t.keeper("clean")
	if err != nil {
		return report, err
	}
	if held, err := turn.Renew(ctx); err != nil || !held {
		return report, errors.Join(err, fmt.Errorf("%w: another server is cleaning", storage.ErrUnavailable))
	}
	turn.Start()
	defer func() { err = errors.Join(err, turn.Close(context.WithoutCancel(ctx))) }()
	if err := set.Refresh(ctx); err != nil {
		return report, err
	}
	if err := tableSizes(ctx, set.Base(), &report, func(t *TableBytes) *uint64 { return &t.Before }); err != nil {
		return report, err
	}
	if err := t.clean(ctx, &report); err != nil {
		return report, fmt.Errorf("clean the rows of deletions: %w", err)
	}
	if err := tableSizes(ctx, set.Base(), &report, func(t *TableBytes) *uint64 { return &t.After }); err != nil {
		return report, err
	}
	t.logger.Info("tombstones cleaned", "deletions", report.Tombstones, "waiting", report.Waiting,
		"rows_rewritten", report.RowsRewritten, "rows_removed", report.RowsRemoved)
	return report, nil
}

// clean cleans the rows of the tombstones that are old enough and drops these.
func (t *Through) clean(ctx context.Context, report *CleanReport) error {
	view := t.opts.Tombstones.While(func(made *tombstone.Tombstone) bool {
		return t.now().UnixMilli()-made.MadeMs > t.packer.Delay().Milliseconds()
	})
	defer view.Release()
	todo := view.List()
	report.Waiting = t.opts.Tombstones.Len() - len(todo)
	if len(todo) == 0 {
		return nil
	}
	fromMs, toMs := hullOf(todo)
	// Who wrote during the deletion may have brought hours back to the catalogue.
	if err := t.settleSpan(ctx, fromMs, toMs, todo...); err != nil {
		return err
	}
	c := throughCleaner{t: t, report: report, filter: view.NewFilter(), hours: map[int64][][]byte{}, waits: map[uint64]bool{}}
	if err := c.scan(ctx, fromMs, toMs, t.find().rowsOf(todo)); err != nil {
		return err
	}
	t.metrics.cleanedRows.Add(float64(report.RowsRewritten + report.RowsRemoved))
	var clean []uint64
	for _, made := range todo {
		if !c.waits[made.ID] {
			clean = append(clean, made.ID)
		}
	}
	ids, err := t.applied(ctx, clean)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		if report.Tombstones, err = t.opts.Tombstones.Drop(ctx, ids); err != nil {
			return err
		}
	}
	report.Waiting += len(todo) - report.Tombstones
	return nil
}

// applied leaves out deletions that some states are not as of yet.
func (t *Through) applied(ctx context.Context, ids []uint64) ([]uint64, error) {
	if t.opts.States == nil || len(ids) == 0 {
		return ids, nil
	}
	if err := t.opts.States.ApplyDeletions(ctx); err != nil {
		return nil, err
	}
	last, err := t.opts.States.DeletionHorizon(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(ids, func(id uint64) bool { return id > last }), nil
}

// throughCleaner gathers the rows that have lost samples by hours.
type throughCleaner struct {
	t      *Through
	report *CleanReport
	filter *tombstone.Filter // by what is cleaned
	hours  map[int64][][]byte
	count  int
	waits  map[uint64]bool // ids of the deletions that may concern a row that has to wait
}

// leave notes which deletions rows wait for that are left for the next time.
func (c *throughCleaner) leave(ctx context.Context, hour int64, keys [][]byte) error {
	hourBytes := len(keyschema.AppendHour(nil, hour))
	for _, key := range keys {
		concern, err := c.filter.Series(ctx, key[:len(key)-hourBytes])
		if err != nil {
			return err
		}
		for _, made := range concern {
			if made.Overlaps(keyschema.HourStartMs(hour), keyschema.HourCellMs(hour)) {
				c.waits[made.ID] = true
			}
		}
	}
	return nil
}

func (c *throughCleaner) scan(ctx context.Context, fromMs, toMs int64, set storage.RowSet) (err error) {
	raw, err := c.t.opts.Tombstones.Base().Table(ctx, storage.TableData)
	if err != nil {
		return err
	}
	it := raw.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		Families: []string{storage.FamilySamples}, KeysOnly: true,
		FromMs: keyschema.HourStartMs(keyschema.HourOf(fromMs)), ToMs: keyschema.HourStartMs(keyschema.HourOf(toMs) + 1),
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		row := it.Row()
		concerned, err := c.filter.Concerned(ctx, &row)
		if err != nil {
			return err
		}
		k, err := keyschema.ParseRowKey(row.Key)
		if err != nil || !concerned {
			continue // no row of a series is none that was deleted
		}
		c.hours[k.Hour] = append(c.hours[k.Hour], bytes.Clone(row.Key))
		if c.count++; c.count == cleanKeysMax {
			if err := c.flush(ctx); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return c.flush(ctx)
}

func (c *throughCleaner) flush(ctx context.Context) error {
	for _, hour := range slices.Sorted(maps.Keys(c.hours)) {
		if c.t.now().UnixMilli() <= keyschema.HourCellMs(hour)+c.t.packer.Delay().Milliseconds() {
			// Samples in time do not tell a packer that they came.
			if err := c.leave(ctx, hour, c.hours[hour]); err != nil {
				return err
			}
			continue
		}
		cleaned, err := c.t.packer.Clean(ctx, hour, c.hours[hour])
		if err != nil {
			return err
		}
		if err := c.leave(ctx, hour, cleaned.Left); err != nil {
			return err
		}
		c.report.RowsRemoved += cleaned.Removed
		c.report.RowsRewritten += cleaned.Rows - cleaned.Removed
		c.t.metrics.cleanedBytes.Add(float64(max(0, cleaned.Bytes)))
	}
	c.hours, c.count = map[int64][][]byte{}, 0
	return nil
}
