package direct

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"halite/ingest"
	"halite/ingest/deletion"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/tombstone"
)

// Servers delete as follows. A deletion publishes its tombstone in the tables, where all servers see it at the same moment.
// Each server checks for new tombstones before it reads and after it has written. Samples written before the deletion have a
// lower number than the tombstone, or no number (package tombstone). Later the server with the lease removes hours without
// samples from the index, under a lock that all servers see. A writer that finds a new deletion writes its samples again. A
// writer that finds a lock, or finds that locks have changed, adds its hours to the index again.

// cleanKeysMax is the number of rows that one call of the compactor cleans.
const cleanKeysMax = 4096

// scanner finds the series and rows of deletions.
func (t *Direct) scanner() deletion.Scanner {
	return deletion.Scanner{Index: t.opts.Index, Schema: t.opts.Schema, Data: t.data, States: t.opts.States}
}

// renew reads everything that other servers added before the call. A refresh that already runs may miss part of it, but the
// next one does not.
func (t *Direct) renew(ctx context.Context) error {
	for range 2 {
		if err := t.opts.Index.Refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}

// DeleteSeries deletes samples. When it returns, no later query on any server sees them. Samples whose write began later
// stay, whatever their times. It returns the number of matching series that may have had samples in the time range. After an
// error other than a bad request, some samples may be deleted. The caller may then repeat the deletion.
func (t *Direct) DeleteSeries(ctx context.Context, r deletion.Request) (series int, err error) {
	set := t.opts.Tombstones
	if set == nil {
		return 0, deletion.ErrUnsupported
	}
	if r, err = r.Clip(); err != nil || r.Empty() {
		return 0, err
	}
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Exit()
	if err := t.renew(ctx); err != nil {
		return 0, err
	}
	// A deletion without series is published too, because a failed write may have left rows that the index does not list.
	found, err := t.scanner().Select(ctx, r)
	if err != nil {
		return 0, err
	}
	made := &tombstone.Tombstone{
		FromMs: r.FromMs, ToMs: r.ToMs, MadeMs: t.opts.Now().UnixMilli(), Pending: true, Selectors: r.Selectors,
	}
	published, err := set.Publish(ctx, *made, t.sequence.TakeHighest)
	if err != nil {
		return len(found), fmt.Errorf("delete %s: %w", made, err)
	}
	made = published
	// The deletion is in force and must be finished, even if the client has closed the connection.
	ctx = context.WithoutCancel(ctx)
	t.ChangedTimes(r.FromMs, r.ToMs)
	if len(deletion.WholeMetrics(made.Selectors)) > 0 {
		if err := t.cleanIndex(ctx, made); err != nil {
			return len(found), fmt.Errorf("remove the metrics of deletion %s from the index: %w", made, err)
		}
	}
	t.DeletionMetrics().Deletions.Inc()
	t.opts.Logger.Info("samples deleted", "deletion", made.String(), "series", len(found))
	return len(found), nil
}

// cleanIndex removes hours without samples from the index after deletions. If a step fails, the lock stays, because the
// effects of the step are unknown.
func (t *Direct) cleanIndex(ctx context.Context, list ...*tombstone.Tombstone) error {
	fromMs, toMs := deletion.Bounds(list)
	lock, err := t.lockIndex(ctx, fromMs, toMs)
	if err != nil {
		return err
	}
	r := t.scanner().Removal(list)
	r.Held = lock.Check
	if err := t.opts.Index.RemoveHours(ctx, r); err != nil {
		return err
	}
	if err := t.renew(ctx); err != nil {
		return err
	}
	return lock.Release(ctx, deletion.IDs(list)...)
}

// lockIndex takes the cleanup lock of a time range. Owners of stolen locks remove nothing more.
func (t *Direct) lockIndex(ctx context.Context, fromMs, toMs int64) (*tombstone.CleanupLock, error) {
	lock, err := t.opts.Tombstones.LockCleanup(ctx, fromMs, toMs, t.opts.Now)
	if err != nil || !lock.StoleLock {
		return lock, err
	}
	fromMs, toMs = lock.Span()
	return lock, t.opts.Index.FenceShared(ctx, keyschema.HourOf(fromMs), keyschema.HourOf(toMs))
}

// maintainDeletions removes hours without samples from the index once a deletion is older than deletion.IndexDelay. It also
// steals the locks of dead servers.
func (t *Direct) maintainDeletions(ctx context.Context) error {
	set := t.opts.Tombstones
	if err := set.Refresh(ctx); err != nil {
		return err
	}
	view := set.View()
	fromMs, toMs, expired := view.ExpiredLock(t.opts.Now())
	view.Release()
	if expired {
		lock, err := t.lockIndex(ctx, fromMs, toMs)
		if err != nil {
			return err
		}
		if err := lock.Release(ctx); err != nil {
			return err
		}
	}
	if pending, due := deletion.Pending(set, t.opts.Now()); due {
		return t.cleanIndex(ctx, pending...)
	}
	return nil
}

// CountDeletion counts the samples that DeleteSeries would delete. It deletes nothing, but it reads all these samples.
func (t *Direct) CountDeletion(ctx context.Context, r deletion.Request) (count deletion.Count, err error) {
	if t.opts.Tombstones == nil {
		return count, deletion.ErrUnsupported
	}
	if r, err = r.Clip(); err != nil || r.Empty() {
		return count, err
	}
	if err := errors.Join(t.opts.Tombstones.Refresh(ctx), t.renew(ctx)); err != nil {
		return count, err
	}
	return t.scanner().Count(ctx, r, t.opts.Tombstones, t.AppendSamples)
}

// confirm protects the samples of a batch from deletions that began before the write ended. Such a deletion must neither
// hide the samples nor remove their hours from the index. The table already has the rows of the batch.
func (t *Direct) confirm(ctx context.Context, b *rowBatch) error {
	set := t.opts.Tombstones
	for set != nil {
		if err := set.Refresh(ctx); err != nil {
			return err
		}
		view := set.View()
		version, floor, locked := view.Version(), view.Floor(), view.IsLocked(b.span())
		view.Release()
		if version == b.version && !locked {
			return nil
		}
		again := floor != b.floor
		if again {
			b.renumber(floor)
			if err := t.put(ctx, b); err != nil {
				return err
			}
		}
		// A cleaning that found no rows earlier may be removing the hours from the index.
		for _, row := range b.rows {
			t.opts.Index.MarkDirty(row.ref, row.hour)
		}
		if err := t.opts.Index.Persist(ctx); err != nil {
			return err
		}
		if b.version = version; !again {
			return nil
		}
	}
	return nil
}

// span returns the first and last time of the rows of a batch.
func (b *rowBatch) span() (fromMs, toMs int64) {
	first, last := int64(keyschema.HourMax), int64(0)
	for hour := range b.hours {
		first, last = min(first, hour), max(last, hour)
	}
	return keyschema.HourStartMs(first), keyschema.HourCellMs(last)
}

// renumber gives the samples the number of a later deletion.
func (b *rowBatch) renumber(floor uint32) {
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

// CleanTombstones removes samples that were deleted more than PackDelay ago from the tables, and then drops their
// tombstones. One server at a time cleans; on others it returns storage.ErrUnavailable. After an interruption, the next call
// continues.
func (t *Direct) CleanTombstones(ctx context.Context) (report deletion.Report, err error) {
	set := t.opts.Tombstones
	if set == nil {
		return report, deletion.ErrUnsupported
	}
	if err := t.Enter(); err != nil {
		return report, err
	}
	defer t.Exit()
	t.cleaning.Lock()
	defer t.cleaning.Unlock()
	lease, err := t.keeper("clean")
	if err != nil {
		return report, err
	}
	if held, err := lease.Renew(ctx); err != nil || !held {
		return report, errors.Join(err, fmt.Errorf("%w: another server is cleaning", storage.ErrUnavailable))
	}
	lease.Start()
	defer func() { err = errors.Join(err, lease.Close(context.WithoutCancel(ctx))) }()
	if err := set.Refresh(ctx); err != nil {
		return report, err
	}
	if err := report.SizesBefore(ctx, set.Base()); err != nil {
		return report, err
	}
	if err := t.clean(ctx, &report); err != nil {
		return report, fmt.Errorf("clean the rows of deletions: %w", err)
	}
	if err := report.SizesAfter(ctx, set.Base()); err != nil {
		return report, err
	}
	t.opts.Logger.Info("tombstones cleaned", "deletions", report.Tombstones, "waiting", report.Waiting,
		"rows_rewritten", report.RowsRewritten, "rows_removed", report.RowsRemoved)
	return report, nil
}

// clean cleans the rows of the tombstones that are old enough, and drops these tombstones.
func (t *Direct) clean(ctx context.Context, report *deletion.Report) error {
	view := t.opts.Tombstones.SnapshotIf(func(made *tombstone.Tombstone) bool {
		return t.opts.Now().UnixMilli()-made.MadeMs > t.compactor.Delay().Milliseconds()
	})
	defer view.Release()
	todo := view.List()
	report.Waiting = t.opts.Tombstones.Len() - len(todo)
	// Writers may have added hours to the index again during a deletion. Remove these hours for all dropped tombstones.
	unclean, _ := deletion.Pending(t.opts.Tombstones, t.opts.Now())
	known := func(made *tombstone.Tombstone) bool { return slices.Contains(todo, made) }
	unclean = append(slices.DeleteFunc(unclean, known), todo...)
	if len(unclean) == 0 {
		return nil
	}
	if err := t.cleanIndex(ctx, unclean...); err != nil || len(todo) == 0 {
		return err
	}
	fromMs, toMs := deletion.Bounds(todo)
	c := cleaner{t: t, report: report, filter: view.NewFilter(), hours: map[int64][][]byte{}, waits: map[uint64]bool{}}
	if err := c.scan(ctx, fromMs, toMs, t.scanner().Rows(todo)); err != nil {
		return err
	}
	t.DeletionMetrics().CleanedRows.Add(float64(report.RowsRewritten + report.RowsRemoved))
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

// applied returns the deletions that all states reflect.
func (t *Direct) applied(ctx context.Context, ids []uint64) ([]uint64, error) {
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

// cleaner collects the rows that have lost samples, by hour.
type cleaner struct {
	t      *Direct
	report *deletion.Report
	filter *tombstone.Filter // of the tombstones to clean
	hours  map[int64][][]byte
	count  int
	waits  map[uint64]bool // ids of the deletions that may affect a skipped row
}

// leave records the deletions of rows that the next cleaning has to rewrite.
func (c *cleaner) leave(ctx context.Context, hour int64, keys [][]byte) error {
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

func (c *cleaner) scan(ctx context.Context, fromMs, toMs int64, set storage.RowSet) (err error) {
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
		matches, err := c.filter.MayDelete(ctx, &row)
		if err != nil {
			return err
		}
		k, err := keyschema.ParseRowKey(row.Key)
		if err != nil || !matches {
			continue // not the row of a series
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

func (c *cleaner) flush(ctx context.Context) error {
	for _, hour := range slices.Sorted(maps.Keys(c.hours)) {
		if c.t.opts.Now().UnixMilli() <= keyschema.HourCellMs(hour)+c.t.compactor.Delay().Milliseconds() {
			// Only late samples have a mark, so the compactor does not notice the others.
			if err := c.leave(ctx, hour, c.hours[hour]); err != nil {
				return err
			}
			continue
		}
		cleaned, err := c.t.compactor.Clean(ctx, hour, c.hours[hour])
		if err != nil {
			return err
		}
		if err := c.leave(ctx, hour, cleaned.Left); err != nil {
			return err
		}
		c.report.RowsRemoved += cleaned.Removed
		c.report.RowsRewritten += cleaned.Rows - cleaned.Removed
		c.t.DeletionMetrics().CleanedBytes.Add(float64(max(0, cleaned.Bytes)))
	}
	c.hours, c.count = map[int64][][]byte{}, 0
	return nil
}

// CountTenant returns deletion.ErrTenant.
func (t *Direct) CountTenant(context.Context, string) (c ingest.TenantContent, err error) {
	return c, deletion.ErrTenant
}

// DropTenant returns deletion.ErrTenant.
func (t *Direct) DropTenant(context.Context, string) (series int, err error) {
	return 0, deletion.ErrTenant
}
