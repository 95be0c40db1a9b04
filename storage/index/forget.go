package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Removal takes hours from series, because their samples were deleted. Persist, Maintain and Rebuild wait until it is
// closed; Add, Touch and reads go on: what is touched in memory after it was cleared there stays.
//
// Samples leave in two steps. What open days know in memory is cleared first, at the moment at which the samples go; then
// Fold has the roots of segments and the journals say which hours are gone, so that no day need be written anew. A crash in
// between leaves the hours: remove them once more. The next Maintain folds the days without them.
type Removal struct {
	x *Index
}

// ErrShared: what several processes write to, one of them does not take hours out of by a Removal.
var ErrShared = errors.New("index: hours are removed by RemoveShared from a catalogue that several processes share")

// StartRemoval begins a removal, or fails with ErrShared. Close it when done.
func (x *Index) StartRemoval() (*Removal, error) {
	if x.shared() {
		return nil, ErrShared
	}
	x.maint.Lock()
	return &Removal{x: x}, nil
}

// Close ends the removal.
func (r *Removal) Close() { r.x.maint.Unlock() }

// Clear forgets in memory that series were touched in the hours from first to last, both inclusive. The caller sees to it
// that nobody touches these hours of the series meanwhile.
func (r *Removal) Clear(refs []memory.Ref, first, last int64) {
	for _, d := range r.x.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		mask := presence.HoursWithin(d.Day, first, last)
		if mask == 0 {
			continue
		}
		for _, ref := range refs {
			r.clear(d, ref, mask)
		}
	}
}

func (r *Removal) clear(d *memory.OpenDay, ref memory.Ref, mask uint32) {
	hours, row := d.TakeHours(ref, mask)
	if hours == 0 || row == 0 && len(d.Parts) == 0 {
		return
	}
	c := r.x.cleared[d.Day]
	if c == nil {
		c = &clearedHours{}
		r.x.cleared[d.Day] = c
	}
	if c.unnumbered = c.unnumbered || len(d.Parts) > 0; row != 0 {
		c.runs = append(c.runs, segment.HourRun{Row: row - 1, Count: 1, Hours: hours})
	}
}

// Touched appends to spans the hours from first to last that memory knows of a series.
func (r *Removal) Touched(spans []presence.Span, ref memory.Ref, first, last int64) []presence.Span {
	for _, d := range r.x.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		spans = presence.AppendSpans(spans, d.Day, d.Hours(ref)&presence.HoursWithin(d.Day, first, last))
	}
	return spans
}

// Gone says of a series which of the hours that are asked for have no samples any more. It is asked about hours that
// segments know, of one day at a time.
type Gone func(ctx context.Context, series []Series) (hours [][]presence.Span, err error)

// Fold takes hours from first to last away from what is stored: those that were cleared in memory, and of segments those
// within sure, whose First is after its Last if there are none, and of the others those that gone names. It is durable when
// it returns.
func (r *Removal) Fold(
	ctx context.Context, first, last int64, sure presence.Span, matchers [][]*labels.Matcher, gone Gone,
) error {
	x := r.x
	var days []int64
	for _, d := range x.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, d.Day)
	}
	for _, c := range x.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, c.Of.FirstDay())
	}
	slices.Sort(days)
	changed := false
	for _, day := range slices.Compact(days) {
		if err := ctx.Err(); err != nil {
			return err
		}
		d := removedDay{x: x, day: day, gone: gone, sure: presence.HoursWithin(day, sure.First, sure.Last)}
		did, err := d.remove(ctx, max(first, presence.FirstHour(day)), min(last, presence.LastHour(day)), matchers)
		if err != nil {
			return fmt.Errorf("index: remove hours of day %d: %w", day, err)
		}
		changed = changed || did
	}
	if !changed {
		return nil
	}
	return x.opts.Store.Sync(ctx)
}
