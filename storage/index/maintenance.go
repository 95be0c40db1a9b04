package index

import (
	"context"
	"fmt"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/journal"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/recovery"
	"halite/storage/index/segment"
)

// HourRemoval specifies the hours that RemoveHours removes.
type HourRemoval = compaction.HourRemoval

// MetricDrop removes whole metrics from look-ups at once.
type MetricDrop = compaction.MetricDrop

// Difference is the result of Verify for a day.
type Difference = recovery.Difference

// NewWriter returns a random name for Options.Writer.
func NewWriter() string { return segment.NewWriter() }

// annotate prefixes an error of the index with the operation.
func annotate(what string, err error) error {
	if err != nil {
		return fmt.Errorf("index: %s%w", what, err)
	}
	return nil
}

// Persist writes the series and hours that were marked before the call and are not in the tables yet. It writes a series once
// a day, and its hours when it has new ones. They are durable after the caller's Store.Sync. After an error, the next call
// writes the remaining records.
func (x *Index) Persist(ctx context.Context) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	return annotate("", x.journal.Persist(ctx))
}

// Maintain compacts the closed days and their months, and deletes the cells of interrupted compactions. It drops days beyond
// retention from memory, and frees the memory of retired series. A failed compaction leaves its day unchanged. Maintain
// continues with the other days and returns the first error. With Options.Writer it compacts nothing: see Compact.
func (x *Index) Maintain(ctx context.Context) (err error) {
	if x.opts.shared() {
		x.maint.Lock()
		x.compactor.Expire()
		x.maint.Unlock()
	} else {
		err = annotate("", x.compactor.Compact(ctx))
	}
	x.FreeRetired()
	return err
}

// ChangeRetention calls replace, which applies a new retention. longest is the longest retention of any series after the call.
// If the retention grows, the index first restores days that it has dropped because of their age.
func (x *Index) ChangeRetention(ctx context.Context, longest keyschema.Age, replace func()) error {
	x.maint.Lock()
	defer x.maint.Unlock()
	end := x.compactor.Expire()
	first := presence.DayOf(keyschema.HourOf(longest.CutoffMs(x.opts.RetentionNow().UnixMilli())))
	if first < end {
		if err := x.recovery.RestoreDays(ctx, first, end-1); err != nil {
			return annotate("restore days for a longer retention: ", err)
		}
	}
	replace()
	return nil
}

// Compact compacts the closed days and their months if several processes share the tables. Without Options.Writer it does
// nothing. One process at a time should call it; if two do, the work of one is lost. No other operation waits for it. This
// Index and other processes see the result after Refresh.
func (x *Index) Compact(ctx context.Context) error {
	if !x.opts.shared() {
		return nil
	}
	return annotate("", x.collect(func(c *compaction.Compactor) error { return c.CompactShared(ctx) }))
}

// Refresh reads the records of other processes since the last call. Their series and hours become visible. Look-ups then read
// compacted days from their segments. Without Options.Writer it does nothing.
func (x *Index) Refresh(ctx context.Context) error {
	if !x.opts.shared() {
		return nil
	}
	return annotate("", x.recovery.Refresh(ctx))
}

// RemoveHours removes hours without samples from the index and rewrites their days. It is durable when it returns. If it fails,
// some days may already be rewritten: call it again.
func (x *Index) RemoveHours(ctx context.Context, r HourRemoval) error {
	if !x.opts.shared() {
		return annotate("remove hours: ", x.compactor.RemoveHours(ctx, r))
	}
	return annotate("remove hours: ", x.collect(func(c *compaction.Compactor) error { return c.RemoveHoursShared(ctx, r) }))
}

// FenceShared stops every earlier RemoveHours that overlaps the hours from first to last, in any process. Such a
// RemoveHours fails or calls Held.
func (x *Index) FenceShared(ctx context.Context, first, last int64) error {
	return annotate("fence days: ", x.collect(func(c *compaction.Compactor) error { return c.FenceShared(ctx, first, last) }))
}

// StartDrop begins a drop in an index with one writing process. The caller closes it.
func (x *Index) StartDrop() MetricDrop { return x.compactor.StartDrop() }

// Rebuild rebuilds the index of the unix days fromDay to toDay, both inclusive. It reads the keys of the data rows, and the
// keys of the rollup rows for series without samples. If a segment is damaged, the caller first flushes the active series,
// because Rebuild may not find them.
func (x *Index) Rebuild(ctx context.Context, fromDay, toDay int64) error {
	return annotate("", x.recovery.Rebuild(ctx, fromDay, toDay))
}

// Verify compares the index of a day with the keys of the data rows. Verify may report rows as missing if they are written
// while it runs.
func (x *Index) Verify(ctx context.Context, day int64) (Difference, error) {
	diff, err := x.recovery.Verify(ctx, day)
	return diff, annotate("", err)
}

// IsPersisted reports whether the index's tables list the hour of the series. A result of false may be out of date.
// MarkActive followed by Persist makes it true, unless a compaction of the day runs between them.
func (x *Index) IsPersisted(ref memory.Ref, hour int64) bool {
	d := x.open.Get(presence.DayOf(hour))
	return d != nil && d.IsPersisted(ref, presence.HourBit(hour))
}

// MarkDirty makes the next Persist write the hour of the series again.
func (x *Index) MarkDirty(ref memory.Ref, hour int64) {
	if !presence.ValidHour(hour) || !x.active.Knows(ref) {
		return
	}
	for done := false; !done; { // a compaction may remove the day before MarkDirty
		x.MarkActive(ref, hour)
		done = x.open.MarkDirty(ref, hour)
	}
}

// LabelSet returns the label set whose hash is in the row keys of a metric. It looks in the tables and in the active index.
func (x *Index) LabelSet(ctx context.Context, metric, hash string) ([]keyschema.Tag, error) {
	return journal.LabelSet(ctx, x.tables.meta, x.active, metric, hash)
}

// StoredLabelSet reads the label set whose hash is in row keys from table meta.
func StoredLabelSet(ctx context.Context, meta storage.Table, hash string) ([]keyschema.Tag, error) {
	return journal.StoredLabelSet(ctx, meta, hash)
}
