package tiers

import (
	"context"
	"encoding/binary"
	"fmt"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage"
	"halite/storage/tombstone"
)

// void tells which states stand for samples that were deleted since. A cell of states is as of a deletion: of those with
// larger ids it knows nothing. It belongs to one goroutine; the zero value says that nothing was deleted.
type void struct {
	filter *tombstone.Filter
	of     []*tombstone.Tombstone // of the series at hand
}

// newVoid knows the tombstones of a view, which the caller holds; nil has none.
func newVoid(view *tombstone.View) void {
	if view == nil || view.Len() == 0 {
		return void{}
	}
	return void{filter: view.NewFilter()}
}

// series turns to a series.
func (v *void) series(ctx context.Context, prefix []byte) (err error) {
	if v.filter == nil {
		return nil
	}
	if v.of, err = v.filter.Series(ctx, prefix); err != nil {
		return fmt.Errorf("find out what was deleted: %w", err)
	}
	return nil
}

// hours are those of a day whose states in a cell as of a deletion are void.
func (v *void) hours(day int64, asOf uint64) (hours uint32) {
	for _, t := range v.of {
		if t.ID <= asOf || !t.Overlaps(day*dayMs, day*dayMs+dayMs-1) {
			continue
		}
		first := max(keyschema.HourOf(t.FromMs)-day*keyschema.DayHours, 0)
		last := min(keyschema.HourOf(t.ToMs)-day*keyschema.DayHours, keyschema.DayHours-1)
		hours |= (1<<(last+1) - 1) &^ (1<<first - 1)
	}
	return hours
}

// reaches tells whether a state, as of a deletion, may have samples that were deleted since.
func (v *void) reaches(s *rollup.State, asOf uint64) bool {
	for _, t := range v.of {
		if t.ID > asOf && t.Overlaps(s.FirstMs, s.LastMs) {
			return true
		}
	}
	return false
}

// last is the id of the last deletion that concerns the days from first to last, 0 if there is none.
func (v *void) last(first, last int64) (id uint64) {
	for _, t := range v.of {
		if t.Overlaps(first*dayMs, last*dayMs+dayMs-1) {
			id = max(id, t.ID)
		}
	}
	return id
}

// isAsOf tells whether a cell says of which deletion the states beside it are: of a day's hours, or of a month's days.
func isAsOf(c *storage.Cell) bool {
	if c.Family == storage.FamilyDays {
		return len(c.Qualifier) == 1 && c.Qualifier[0] == kindAsOf
	}
	return len(c.Qualifier) == 2 && c.Qualifier[1] == kindAsOf
}

func asOfValue(id uint64) []byte { return binary.AppendUvarint(nil, id) }

// parseAsOf returns 0, which is before all deletions, for what is unreadable.
func parseAsOf(value []byte) uint64 {
	id, n := binary.Uvarint(value)
	if n != len(value) {
		return 0
	}
	return id
}
