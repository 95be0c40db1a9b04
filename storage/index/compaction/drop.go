package compaction

import (
	"context"
	"fmt"

	"github.com/prometheus/common/model"

	"halite/storage"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// MetricDrop removes whole metrics from look-ups at once. Persist, Maintain and Rebuild wait until it is closed; Add,
// MarkActive and reads continue.
//
// A drop rewrites no day. First the hours leave memory, together with the samples. Then the manifest of each segment lists
// the metric as dropped. The journal of an open day still has the hours, so a crash restores them until RemoveHours.
type MetricDrop struct{ c *Compactor }

// StartDrop begins a drop in an index with one writing process. The caller closes it.
func (c *Compactor) StartDrop() MetricDrop {
	c.opts.Lock.Lock()
	return MetricDrop{c: c}
}

// Close ends the drop.
func (d MetricDrop) Close() { d.c.opts.Lock.Unlock() }

// Clear removes the hours from first to last of the series from memory. No sample of these series may arrive during the
// call.
func (d MetricDrop) Clear(refs []memory.Ref, first, last int64) {
	for _, day := range d.c.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		mask := presence.HoursWithin(day.Day, first, last)
		for _, ref := range refs {
			if day.ClearHours(ref, mask) {
				day.Journal.Stale = true
			}
		}
	}
}

// Segments drops the metric from the segment of each day whose hours of the metric all lie between first and last. It is
// durable when it returns.
func (d MetricDrop) Segments(ctx context.Context, metric string, first, last int64) error {
	changed := false
	for _, h := range d.c.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		dropped, err := d.c.dropFromDay(ctx, h, metric, presence.HoursWithin(h.Partition.FirstDay(), first, last))
		if err != nil {
			return fmt.Errorf("drop metric %q from %v: %w", metric, h.Partition, err)
		}
		changed = changed || dropped
	}
	if !changed {
		return nil
	}
	return d.c.opts.Sync(ctx)
}

// dropFromDay lists the metric as dropped in the manifest of a day, if the day has no other hours of the
// metric.
func (c *Compactor) dropFromDay(ctx context.Context, h *segment.Handle, metric string, hours uint32) (dropped bool, err error) {
	s, err := c.store.Open(ctx, h)
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
	cell := segment.ManifestCell(h.Partition, []byte{segment.QualManifest}, segment.EncodeManifest(r))
	row := storage.RowMutation{Key: segment.ManifestKey(h.Partition), Entries: []storage.Entry{cell}}
	if err := c.store.SeriesTable.Apply(ctx, []storage.RowMutation{row}); err != nil {
		return false, err
	}
	c.store.Closed.Install(h.Partition, r)
	return true, nil
}
