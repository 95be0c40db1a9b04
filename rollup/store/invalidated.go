package store

import (
	"context"
	"fmt"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage/tombstone"
)

// Invalidated finds the states that deletions invalidate. A cell of states has a deletion horizon: it does not reflect
// deletions with larger ids. An Invalidated belongs to one goroutine. The zero value has no deletions.
type Invalidated struct {
	filter *tombstone.Filter
	series []*tombstone.Tombstone // of the current series
}

// NewInvalidated returns an Invalidated with the tombstones of a view, which the caller keeps open. A nil
// view has none.
func NewInvalidated(view *tombstone.View) Invalidated {
	if view == nil || view.Len() == 0 {
		return Invalidated{}
	}
	return Invalidated{filter: view.NewFilter()}
}

// Seek makes a series the current one.
func (v *Invalidated) Seek(ctx context.Context, prefix []byte) (err error) {
	if v.filter == nil {
		return nil
	}
	if v.series, err = v.filter.Series(ctx, prefix); err != nil {
		return fmt.Errorf("look up deletions of a series: %w", err)
	}
	return nil
}

// Hours returns the hours of a day that deletions after the horizon touch, as a bitmap.
func (v *Invalidated) Hours(day int64, horizon uint64) (hours uint32) {
	for _, t := range v.series {
		if t.ID <= horizon || !t.Overlaps(day*dayMs, day*dayMs+dayMs-1) {
			continue
		}
		first := max(keyschema.HourOf(t.FromMs)-day*keyschema.DayHours, 0)
		last := min(keyschema.HourOf(t.ToMs)-day*keyschema.DayHours, keyschema.DayHours-1)
		hours |= (1<<(last+1) - 1) &^ (1<<first - 1)
	}
	return hours
}

// Covers reports whether a state may contain samples that a deletion after the horizon removed.
func (v *Invalidated) Covers(s *rollup.State, horizon uint64) bool {
	for _, t := range v.series {
		if t.ID > horizon && t.Overlaps(s.FirstMs, s.LastMs) {
			return true
		}
	}
	return false
}

// Deletes reports whether a deletion after the horizon removed a sample.
func (v *Invalidated) Deletes(tsMs int64, horizon uint64) bool {
	for _, t := range v.series {
		if t.ID > horizon && t.Overlaps(tsMs, tsMs) {
			return true
		}
	}
	return false
}

// LastDeletion returns the id of the last deletion that touches the days from first to last, or 0.
func (v *Invalidated) LastDeletion(first, last int64) (id uint64) {
	for _, t := range v.series {
		if t.Overlaps(first*dayMs, last*dayMs+dayMs-1) {
			id = max(id, t.ID)
		}
	}
	return id
}
