package compaction

import (
	"context"
	"errors"
	"fmt"
	"math"

	"halite/storage"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// The sources of a month's next generation are its previous generation and the days that are new or were compacted again.
// This is correct because a compaction of a day only adds rows to its segment. Three changes may remove rows: a rebuild, a
// removal, and the compaction of a day whose segment was lost. They first empty the month, so only the days are inputs of
// its next generation.

// compactMonths compacts the months whose days have changed and returns the first error. A failed compaction leaves its
// month unchanged. A month omits a damaged day without an error: the damage was logged, and readers of the day get an error.
func (c *Compactor) compactMonths(ctx context.Context) error {
	var first error
	for _, g := range c.store.Closed.ByMonth(0, presence.DayMax) {
		for more := true; more; {
			var err error
			if more, err = c.compactMonth(ctx, g); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// compactMonth adds due days to a month, within the limit of memory, and reports whether more days are due.
func (c *Compactor) compactMonth(ctx context.Context, g segment.MonthDays) (more bool, err error) {
	c.opts.Lock.Lock()
	defer c.opts.Lock.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("compact %v: %w", g.Partition, err)
			c.opts.Metrics.Failures.Inc()
			more = false
		}
	}()
	var sources []Source
	contained := make([]segment.DayVersion, presence.MonthDaysMax)
	previous, err := c.previousMonth(ctx, g.Partition)
	if err != nil {
		return false, err
	}
	if previous != nil {
		sources = append(sources, SegmentSource{Segment: previous})
		copy(contained, previous.Manifest.Days)
	}
	due := c.monthDue(g, contained)
	if c.opts.Shared && len(due) > 0 {
		if err := c.reserveMonth(ctx, g.Partition, previous, due); err != nil {
			return false, err
		}
		defer delete(c.state.reserved, g.Partition)
	}
	days, more, err := c.openBatch(ctx, due, previous)
	if len(days) == 0 || err != nil {
		return false, err
	}
	for _, s := range days {
		at := s.Handle.Partition.FirstDay() - g.Partition.FirstDay()
		contained[at] = segment.DayVersion{Gen: s.Manifest.Gen, Series: s.Manifest.Series}
		sources = append(sources, SegmentSource{Segment: s, Shift: uint8(at)})
	}
	err = c.Replace(ctx, g.Partition, sources, Inputs{Days: contained}, nil)
	if c.noteDamagedSources(sources, err) {
		return true, nil // once more, without the damaged days
	}
	return more, err
}

// openBatch opens the segments of the due days that the next compaction of a month adds.
func (c *Compactor) openBatch(
	ctx context.Context, due []*segment.Handle, previous *segment.Segment,
) (batch []*segment.Segment, more bool, err error) {
	var days []*segment.Segment
	var series []uint64
	for _, h := range due {
		s, err := c.store.Open(ctx, h)
		if errors.Is(err, storage.ErrCorrupt) {
			c.noteDamaged(h, err)
			continue
		}
		if err != nil {
			return nil, false, err
		}
		days, series = append(days, s), append(series, s.Manifest.Series)
	}
	left := uint64(c.opts.MonthSeriesMax)
	switch {
	case left == 0:
		left = math.MaxUint64
	case previous != nil:
		left -= min(left, previous.Manifest.Series)
	}
	indices, more := monthBatch(series, left, c.store.Layout.MonthRows)
	for _, i := range indices {
		batch = append(batch, days[i])
	}
	return batch, more, nil
}

// previousMonth returns the segment that a compaction of a month replaces: nil if there is none, or if it is damaged.
func (c *Compactor) previousMonth(ctx context.Context, p presence.Partition) (*segment.Segment, error) {
	h := c.store.Closed.Month(p)
	if h == nil || h.Broken.Load() {
		return nil, nil
	}
	s, err := c.store.Open(ctx, h)
	if errors.Is(err, storage.ErrCorrupt) {
		c.store.MarkBroken(h, err)
		return nil, nil
	}
	return s, err
}

// monthDue lists the days of a month that its next compaction adds.
func (c *Compactor) monthDue(g segment.MonthDays, contained []segment.DayVersion) (due []*segment.Handle) {
	days := make([]monthDay, len(g.Days))
	for i, h := range g.Days {
		version := contained[h.Partition.FirstDay()-g.Partition.FirstDay()]
		days[i] = monthDay{gen: h.Gen.Load(), contained: version.Gen, skip: c.isDamaged(h) || h.Dropped.Load()}
	}
	for _, i := range dueDays(days, c.store.Layout.Months.DaysMin, c.opts.Now(), c.state.compactedAt[g.Partition]) {
		due = append(due, g.Days[i])
	}
	return due
}

// voidMonthOf voids the month of a day if the month contains a generation of that day.
func (c *Compactor) voidMonthOf(ctx context.Context, day presence.Partition) error {
	gen, err := c.generationInMonth(ctx, day)
	if err != nil || gen == 0 {
		return err
	}
	return c.VoidMonth(ctx, presence.MonthOf(day.FirstDay()))
}

// VoidMonth durably makes a month contain no days, because it may contain rows that a day is about to lose. The caller holds
// the lock.
func (c *Compactor) VoidMonth(ctx context.Context, p presence.Partition) error {
	if c.store.Closed.Month(p) == nil {
		return nil
	}
	if err := c.Replace(ctx, p, nil, Inputs{Days: make([]segment.DayVersion, presence.MonthDaysMax)}, nil); err != nil {
		return fmt.Errorf("void %v: %w", p, err)
	}
	delete(c.state.compactedAt, p)
	return nil
}
