package pebble

import (
	"context"
	"slices"

	"halite/storage"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/fault"
	"halite/storage/pebble/partition"
)

// spanDays checks a span. It returns the family of the span and its live days, newest first.
func (t *Table) spanDays(span *storage.CellSpan) (*partition.Family, []*partition.State, error) {
	if err := t.store.checkOpen(); err != nil {
		return nil, nil, err
	}
	if err := storage.CheckSpan(&t.state.Load().schema, span); err != nil {
		return nil, nil, err
	}
	f := t.family(span.Family)
	var days []*partition.State
	for _, state := range f.Days.States() {
		if day := int64(state.Day); day >= span.FromDay && day < span.ToDay {
			days = append(days, state)
		}
	}
	return f, days, nil
}

// DropCells is part of storage.SpanTable. It writes one range deletion for each row range and day.
func (t *Table) DropCells(ctx context.Context, span storage.CellSpan) error {
	f, days, err := t.spanDays(&span)
	if err != nil || len(days) == 0 {
		return err
	}
	ranges := t.layout.NewRanges(span.Rows)
	if len(ranges) == 0 {
		return nil
	}
	return t.dropRanges(ctx, "drop cells", ranges, func(yield func(*partition.Family, *partition.State) bool) {
		for _, state := range days {
			if !yield(f, state) {
				return
			}
		}
	})
}

// Reclaim is part of storage.SpanTable. It compacts the files under the span's deletions.
func (t *Table) Reclaim(ctx context.Context, span storage.CellSpan) error {
	f, days, err := t.spanDays(&span)
	if err != nil || len(days) == 0 {
		return err
	}
	if err := t.store.flush(ctx); err != nil {
		return err
	}
	for _, state := range days {
		h := cellkey.NewHeader(t.id, f.ID, state.Day)
		for _, r := range t.layout.NewRanges(span.Rows) {
			if err := t.store.db.Compact(ctx, r.SeekStart(nil, h), r.SeekEnd(nil, h), false); err != nil {
				return fault.Wrap("compact", err)
			}
		}
	}
	return nil
}

// SpanBytes is part of storage.SpanTable.
func (t *Table) SpanBytes(_ context.Context, span storage.CellSpan) (int64, error) {
	f, days, err := t.spanDays(&span)
	if err != nil {
		return 0, err
	}
	sum := uint64(0)
	for _, r := range t.layout.NewRanges(span.Rows) {
		for _, state := range days {
			h := cellkey.NewHeader(t.id, f.ID, state.Day)
			size, err := t.store.db.EstimateDiskUsage(r.SeekStart(nil, h), r.SeekEnd(nil, h))
			if err != nil {
				return 0, fault.Wrap("estimate size", err)
			}
			sum += size
		}
	}
	return int64(sum), nil
}

// Days is part of storage.SpanTable.
func (t *Table) Days(_ context.Context, name string) ([]int64, error) {
	_, days, err := t.spanDays(&storage.CellSpan{Family: name, ToDay: storage.TsMsMax/storage.DayMs + 1})
	if err != nil {
		return nil, err
	}
	out := make([]int64, 0, len(days))
	for _, state := range slices.Backward(days) {
		out = append(out, int64(state.Day))
	}
	return out, nil
}
