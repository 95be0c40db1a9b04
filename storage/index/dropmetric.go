package index

import (
	"context"
	"fmt"

	"github.com/prometheus/common/model"

	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// MetricDrop takes whole metrics out of the lists at once. Persist, Maintain and Rebuild wait until it is closed; Add, MarkActive
// and reads go on.
//
// A drop rewrites no day. Memory forgets the hours first, when the samples go. Then the root of each segment names the
// metric as dropped. The journal of an open day still has the hours: a crash brings them back until RemoveHours.
type MetricDrop struct{ x *Index }

// StartDrop begins a drop in an index that one process writes. Close it when done.
func (x *Index) StartDrop() MetricDrop {
	x.maint.Lock()
	return MetricDrop{x: x}
}

// Close ends the drop.
func (d MetricDrop) Close() { d.x.maint.Unlock() }

// Clear forgets in memory that series have samples in the hours from first to last. No sample of these series may arrive
// meanwhile.
func (d MetricDrop) Clear(refs []memory.Ref, first, last int64) {
	for _, day := range d.x.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		mask := presence.HoursWithin(day.Day, first, last)
		for _, ref := range refs {
			if day.ClearHours(ref, mask) {
				day.Journal.Stale = true
			}
		}
	}
}

// Segments drops the metric from the segment of each day in which all its hours lie between first and last. It is durable
// when it returns.
func (d MetricDrop) Segments(ctx context.Context, metric string, first, last int64) error {
	changed := false
	for _, c := range d.x.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		dropped, err := d.x.dropFromDay(ctx, c, metric, presence.HoursWithin(c.Of.FirstDay(), first, last))
		if err != nil {
			return fmt.Errorf("index: drop metric %q from %v: %w", metric, c.Of, err)
		}
		changed = changed || dropped
	}
	if !changed {
		return nil
	}
	return d.x.opts.Store.Sync(ctx)
}

// dropFromDay notes in the root of a day that the metric is dropped, if it has no other hours than these.
func (x *Index) dropFromDay(ctx context.Context, c *segment.Handle, metric string, hours uint32) (dropped bool, err error) {
	s, err := x.store.Open(ctx, c)
	if err != nil || s.Manifest.Metrics == 0 {
		return false, err
	}
	names, err := s.Dict(ctx, model.MetricNameLabel)
	if err != nil {
		return false, err
	}
	id, err := names.Lookup(ctx, metric)
	if err != nil || id == 0 || s.Manifest.IsDropped(id) {
		return false, err
	}
	if only, err := s.HasOnly(ctx, id, hours); err != nil || !only {
		return false, err
	}
	r := s.Manifest.WithDropped(id)
	cell := rootCell(c.Of, []byte{segment.QualManifest}, segment.EncodeManifest(r))
	row := storage.RowMutation{Key: segment.ManifestKey(c.Of), Entries: []storage.Entry{cell}}
	if err := x.store.SeriesTable.Apply(ctx, []storage.RowMutation{row}); err != nil {
		return false, err
	}
	x.store.Closed.Install(c.Of, r)
	return true, nil
}
