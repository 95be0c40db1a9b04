package index

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/compaction"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/periodic"
)

// HourRemoval says which hours RemoveHours removes: those of matching series in which Emptied finds no samples.
type HourRemoval struct {
	// First and Last bound the hours.
	First, Last int64
	// Matchers returns the selectors of the series to check on a day; none leaves the day as it is.
	Matchers func(day int64) [][]*labels.Matcher
	// Emptied returns which hours of each series have no samples. It is called with hours of one day.
	Emptied func(ctx context.Context, series []Series) (hours [][]presence.Span, err error)
	// Flushes is held while a day is checked: no samples leave memory for the tables meanwhile. nil holds nothing.
	Flushes sync.Locker
	// Unflushed runs visit while no sample of an active series arrives. has reports whether the series has unflushed samples
	// of an hour. nil if samples are never unflushed.
	Unflushed func(ref memory.Ref, visit func(has func(hour int64) bool))
	// Pause is for how many times as long as the rewrite of a day took nothing happens after it.
	Pause int
	// Held is asked in an index of several processes, when nobody who asked earlier can remove anything of the day any more;
	// its error ends the removal. nil asks nothing.
	Held func(ctx context.Context) error
}

// RemoveHours removes hours without samples from the lists and rewrites the days that had some. It is durable when it
// returns. If it fails, some days may be done: call it again.
func (x *Index) RemoveHours(ctx context.Context, r HourRemoval) error {
	if x.shared() {
		return x.removeHoursShared(ctx, r)
	}
	for _, day := range x.knownDays(r.First, r.Last) {
		start := time.Now() // a duration, not a time of the data
		rewritten, err := x.removeFromDay(ctx, day, r)
		if err != nil {
			return fmt.Errorf("index: remove hours of day %d: %w", day, err)
		}
		if !rewritten {
			continue
		}
		if err := periodic.Sleep(ctx, time.Duration(r.Pause)*time.Since(start)); err != nil {
			return err
		}
	}
	return nil
}

// knownDays lists the days of hours from first to last that are open or have a segment.
func (x *Index) knownDays(first, last int64) (days []int64) {
	for _, d := range x.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, d.Day)
	}
	for _, c := range x.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, c.Of.FirstDay())
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// removeFromDay rewrites a day if it has hours without samples, or a metric was dropped from it.
func (x *Index) removeFromDay(ctx context.Context, day int64, r HourRemoval) (rewritten bool, err error) {
	if len(r.Matchers(day)) == 0 {
		return false, ctx.Err()
	}
	if r.Flushes != nil {
		r.Flushes.Lock()
		defer r.Flushes.Unlock()
	}
	x.maint.Lock()
	defer x.maint.Unlock()
	lost, err := x.emptyHours(ctx, day, r)
	if err != nil {
		return false, err
	}
	open, c := x.open.Get(day), x.store.Closed.Day(day)
	if len(lost) == 0 && (open == nil || !open.Journal.Stale) && (c == nil || !c.Dropped.Load()) {
		return false, nil
	}
	former, err := x.formerWithout(ctx, day, r.Matchers(day), lost)
	if err != nil {
		return false, err
	}
	if open != nil {
		return true, x.compactOpenWith(ctx, open, former)
	}
	m, err := x.store.Manifest(ctx, c)
	if err != nil {
		return false, err
	}
	return true, x.compactInto(ctx, c.Of, former, contents{journalSeq: m.JournalSeq}, func() {})
}

// emptyHours returns the hours of a day without samples, by the labels of the series. Memory has forgotten them.
func (x *Index) emptyHours(ctx context.Context, day int64, r HourRemoval) (map[string]uint32, error) {
	lost := map[string]uint32{}
	first, last := max(r.First, presence.FirstHour(day)), min(r.Last, presence.LastHour(day))
	open := x.open.Get(day)
	var key []byte
	for _, ms := range r.Matchers(day) {
		known, err := x.lookup.SelectBy(ctx, nil, lookup.ByDays, keyschema.HourStartMs(first), keyschema.HourCellMs(last), ms...)
		if err != nil {
			return nil, err
		}
		known = slices.DeleteFunc(known, func(s Series) bool { return len(s.Hours) == 0 })
		hours, err := r.Emptied(ctx, known)
		if err != nil {
			return nil, err
		}
		for i, s := range known {
			mask := presence.HoursOf(day, hours[i])
			if mask == 0 {
				continue
			}
			if mask = forgetHours(day, open, s.Ref, mask, r.Unflushed); mask != 0 {
				key = s.Labels.Bytes(key[:0])
				lost[string(key)] |= mask
			}
		}
	}
	return lost, nil
}

// forgetHours makes memory forget the hours of a series that have no unflushed samples, and returns these hours.
func forgetHours(
	day int64, open *memory.OpenDay, ref memory.Ref, mask uint32,
	unflushed func(ref memory.Ref, visit func(has func(hour int64) bool)),
) uint32 {
	if ref == 0 {
		return mask
	}
	forget := func() {
		if open != nil && open.ClearHours(ref, mask) {
			open.Journal.Stale = true // also if the rewrite fails
		}
	}
	if unflushed == nil {
		forget()
		return mask
	}
	unflushed(ref, func(has func(hour int64) bool) {
		for hour := presence.FirstHour(day); hour <= presence.LastHour(day); hour++ {
			if bit := presence.HourBit(hour); mask&bit != 0 && has(hour) {
				mask &^= bit
			}
		}
		forget()
	})
	return mask
}

// formerWithout is the segment of a day without lost hours, as a source of its next one; none if the day has no segment. The
// month of the day forgets it: a month that only takes in days would keep the hours.
func (x *Index) formerWithout(
	ctx context.Context, day int64, matchers [][]*labels.Matcher, lost map[string]uint32,
) ([]compaction.Source, error) {
	if err := x.forgetInMonth(ctx, presence.DayPartition(day)); err != nil {
		return nil, err
	}
	c := x.store.Closed.Day(day)
	if c == nil {
		return nil, nil
	}
	s, err := x.store.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	masks := map[int]map[uint32]uint32{} // by block and row
	for _, ms := range matchers {
		if err := x.findRows(ctx, day, ms, lost, masks); err != nil {
			return nil, err
		}
	}
	s.Lost = masks
	src, err := compaction.NewDaySource(ctx, s)
	return []compaction.Source{src}, err
}

// findRows adds to masks the rows of a day's segment that belong to series with lost hours.
func (x *Index) findRows(
	ctx context.Context, day int64, ms []*labels.Matcher, lost map[string]uint32, masks map[int]map[uint32]uint32,
) error {
	builder := labels.NewScratchBuilder(16)
	var key, bytes []byte
	visit := func(s *segment.Segment, b *segment.Block, rows []uint32) error {
		reader, err := s.RowReader(ctx, b)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if key, err = reader.Key(key[:0], row); err != nil {
				return err
			}
			bytes = reader.Labels(&builder).Bytes(bytes[:0])
			if mask := lost[string(bytes)]; mask != 0 {
				if masks[b.Number] == nil {
					masks[b.Number] = map[uint32]uint32{}
				}
				masks[b.Number][row] |= mask
			}
		}
		return nil
	}
	first, last := presence.FirstHour(day), presence.LastHour(day)
	return x.lookup.ScanDays(ctx, keyschema.HourStartMs(first), keyschema.HourCellMs(last), ms, visit)
}
