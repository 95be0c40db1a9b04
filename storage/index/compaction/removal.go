package compaction

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage/index/lookup"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/periodic"
)

// HourRemoval specifies the hours that RemoveHours removes: hours of matching series in which Emptied finds no samples.
type HourRemoval struct {
	// First and Last bound the hours.
	First, Last int64
	// Matchers returns the selectors of the series to check on a day. A day without selectors stays
	// unchanged.
	Matchers func(day int64) [][]*labels.Matcher
	// Emptied returns which hours of each series have no samples. All hours are of one day.
	Emptied func(ctx context.Context, series []lookup.Series) (hours [][]presence.Span, err error)
	// Flushes is locked during the check of a day, so that no samples move from memory to the tables. nil locks nothing.
	Flushes sync.Locker
	// Unflushed calls visit while no sample of an active series arrives. has reports whether the series has unflushed
	// samples of an hour. nil means that all samples are flushed.
	Unflushed func(ref memory.Ref, visit func(has func(hour int64) bool))
	// Pause is the time without work after each rewritten day, as a multiple of the time that the rewrite took.
	Pause int
	// Held is called in an index of several processes, once no earlier removal can change the day. Its error ends the
	// removal. nil checks nothing.
	Held func(ctx context.Context) error
}

// removedHours are the removed hours of a day.
type removedHours struct {
	matchers [][]*labels.Matcher // the series
	hours    map[string]uint32   // hours by the bytes of labels
}

// RemoveHours removes hours without samples from the index and rewrites their days. It is durable when it returns. If it fails,
// some days may already be rewritten: call it again.
func (c *Compactor) RemoveHours(ctx context.Context, r HourRemoval) error {
	for _, day := range c.knownDays(r.First, r.Last) {
		start := time.Now() // a duration, not a time of the data
		rewritten, err := c.removeFromDay(ctx, day, r)
		if err != nil {
			return fmt.Errorf("day %d: %w", day, err)
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
func (c *Compactor) knownDays(first, last int64) (days []int64) {
	for _, d := range c.open.Between(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, d.Day)
	}
	for _, h := range c.store.Closed.DaysBetween(presence.DayOf(first), presence.DayOf(last)) {
		days = append(days, h.Partition.FirstDay())
	}
	slices.Sort(days)
	return slices.Compact(days)
}

// removeFromDay rewrites a day if it has hours without samples or a dropped metric.
func (c *Compactor) removeFromDay(ctx context.Context, day int64, r HourRemoval) (rewritten bool, err error) {
	if len(r.Matchers(day)) == 0 {
		return false, ctx.Err()
	}
	if r.Flushes != nil {
		r.Flushes.Lock()
		defer r.Flushes.Unlock()
	}
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	removed, err := c.emptyHours(ctx, day, r)
	if err != nil {
		return false, err
	}
	open, h := c.open.Get(day), c.store.Closed.Day(day)
	if len(removed.hours) == 0 && (open == nil || !open.Journal.Stale) && (h == nil || !h.Dropped.Load()) {
		return false, nil
	}
	return true, c.compactDay(ctx, day, removed)
}

// emptyHours returns the hours of a day without samples, after it has removed them from memory.
func (c *Compactor) emptyHours(ctx context.Context, day int64, r HourRemoval) (*removedHours, error) {
	removed := &removedHours{matchers: r.Matchers(day), hours: map[string]uint32{}}
	first, last := max(r.First, presence.FirstHour(day)), min(r.Last, presence.LastHour(day))
	open := c.open.Get(day)
	var key []byte
	for _, ms := range removed.matchers {
		known, err := c.lookup.SelectBy(ctx, nil, lookup.ByDays, keyschema.HourStartMs(first), keyschema.HourCellMs(last), ms...)
		if err != nil {
			return nil, err
		}
		known = slices.DeleteFunc(known, func(s lookup.Series) bool { return len(s.Hours) == 0 })
		hours, err := r.Emptied(ctx, known)
		if err != nil {
			return nil, err
		}
		for i, s := range known {
			mask := presence.HoursOf(day, hours[i])
			if mask == 0 {
				continue
			}
			if mask = clearHours(day, open, s.Ref, mask, r.Unflushed); mask != 0 {
				key = s.Labels.Bytes(key[:0])
				removed.hours[string(key)] |= mask
			}
		}
	}
	return removed, nil
}

// clearHours removes hours of a series from memory, except hours with unflushed samples. It returns the hours
// without unflushed samples.
func clearHours(
	day int64, open *memory.OpenDay, ref memory.Ref, mask uint32,
	unflushed func(ref memory.Ref, visit func(has func(hour int64) bool)),
) uint32 {
	if ref == 0 {
		return mask
	}
	clearInMemory := func() {
		if open != nil && open.ClearHours(ref, mask) {
			open.Journal.Stale = true // set even if the rewrite fails
		}
	}
	if unflushed == nil {
		clearInMemory()
		return mask
	}
	unflushed(ref, func(has func(hour int64) bool) {
		for hour := presence.FirstHour(day); hour <= presence.LastHour(day); hour++ {
			if bit := presence.HourBit(hour); mask&bit != 0 && has(hour) {
				mask &^= bit
			}
		}
		clearInMemory()
	})
	return mask
}

// removedRows returns the rows of a day's segment with removed hours, and these hours, by block and row.
func (c *Compactor) removedRows(ctx context.Context, day int64, removed *removedHours) (map[int]map[uint32]uint32, error) {
	masks := map[int]map[uint32]uint32{}
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
			if mask := removed.hours[string(bytes)]; mask != 0 {
				if masks[b.Number] == nil {
					masks[b.Number] = map[uint32]uint32{}
				}
				masks[b.Number][row] |= mask
			}
		}
		return nil
	}
	first, last := presence.FirstHour(day), presence.LastHour(day)
	for _, ms := range removed.matchers {
		if err := c.lookup.ScanDays(ctx, keyschema.HourStartMs(first), keyschema.HourCellMs(last), ms, visit); err != nil {
			return nil, err
		}
	}
	return masks, nil
}
