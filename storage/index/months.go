package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A month is compacted from its days as they are compacted: from its former generation and the days that are new or were
// compacted again since. That is right because a compaction of a day only adds to its segment; a rebuild and a removal, which may
// take away, and a compaction of a day whose segment was lost void the month first, so that it is compacted from its days alone.

// monthRecompactEvery is the least time between two compactions of a month that bring no new day, only late data.
const monthRecompactEvery = 6 * time.Hour

// compactMonths compacts the months whose days have changed. One that fails stays as it was, and the first error is returned. A
// damaged day is left out, which is no error: it has been logged, and whoever reads the day is told.
func (x *Index) compactMonths(ctx context.Context) error {
	var first error
	for _, g := range x.store.Closed.ByMonth(0, presence.DayMax) {
		for more := true; more; {
			var err error
			if more, err = x.compactMonth(ctx, g); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// compactMonth takes in what is due of a month's days, as much at once as memory bears, and reports whether there is more.
func (x *Index) compactMonth(ctx context.Context, g segment.MonthDays) (more bool, err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("index: compact %v: %w", g.Of, err)
			x.metrics.compactionFailures.Inc()
			more = false
		}
	}()
	var sources []compaction.Source
	held := make([]segment.DayVersion, presence.MonthDaysMax)
	former, err := x.formerMonth(ctx, g.Of)
	if err != nil {
		return false, err
	}
	if former != nil {
		sources = append(sources, compaction.SegmentSource{Segment: former})
		copy(held, former.Manifest.Days)
	}
	due := x.monthDue(g, held)
	if x.shared() && len(due) > 0 {
		if err := x.reserveMonth(ctx, g.Of, former, due); err != nil {
			return false, err
		}
		defer delete(x.reserved, g.Of)
	}
	rows, most := uint64(0), x.monthSeriesLeft(former)
	taken := 0
	for _, d := range due {
		s, err := x.store.Open(ctx, d)
		if errors.Is(err, storage.ErrCorrupt) {
			x.dayDamaged(d, err)
			continue
		}
		if err != nil {
			return false, err
		}
		if s.Manifest.Series > most {
			continue // it stays a day of its own
		}
		most -= s.Manifest.Series
		if rows += s.Manifest.Series; taken > 0 && rows > x.store.Layout.MonthRows {
			more = true
			break
		}
		taken++
		at := d.Of.FirstDay() - g.Of.FirstDay()
		held[at] = segment.DayVersion{Gen: s.Manifest.Gen, Series: s.Manifest.Series}
		sources = append(sources, compaction.SegmentSource{Segment: s, Shift: uint8(at)})
	}
	if taken == 0 {
		return false, nil
	}
	err = x.compactInto(ctx, g.Of, sources, contents{days: held}, func() {})
	if x.blame(sources, err) {
		return true, nil // again, without what is damaged
	}
	return more, err
}

// monthSeriesLeft is the number of series that a month may still take in after its former generation.
func (x *Index) monthSeriesLeft(former *segment.Segment) uint64 {
	left := uint64(x.opts.MonthSeriesMax)
	switch {
	case left == 0:
		return math.MaxUint64
	case former != nil:
		left -= min(left, former.Manifest.Series)
	}
	return left
}

// blame notes which of a compaction's sources are damaged, if that is why it failed, and reports whether it found any.
func (x *Index) blame(sources []compaction.Source, err error) (found bool) {
	if !errors.Is(err, storage.ErrCorrupt) {
		return false
	}
	for _, src := range sources {
		c, ok := src.(compaction.SegmentSource)
		switch {
		case !ok || !c.Segment.Damaged:
			continue
		case c.Segment.Of.Of.IsMonth():
			x.store.MarkBroken(c.Segment.Of, err)
		default:
			x.dayDamaged(c.Segment.Of, err)
		}
		found = true
	}
	return found
}

// damagedDay is a generation that a month could not take in.
type damagedDay struct {
	gen   uint32
	tried time.Time
}

// dayDamaged leaves a day out of its month until it is rebuilt, or for some hours. The caller holds maint.
func (x *Index) dayDamaged(d *segment.Handle, err error) {
	gen := d.Gen.Load()
	if was, ok := x.damaged[d.Of]; !ok || was.gen != gen {
		x.opts.Logger.Error("index day is damaged and left out of its month; rebuild it", "period", d.Of.String(), "err", err)
	}
	x.damaged[d.Of] = damagedDay{gen: gen, tried: x.opts.Now()}
	x.metrics.damagedDays.Set(float64(len(x.damaged)))
}

// leftOut reports whether a day is known to be damaged as it is. The caller holds maint.
func (x *Index) leftOut(d *segment.Handle) bool {
	was, ok := x.damaged[d.Of]
	if ok && was.gen != d.Gen.Load() {
		delete(x.damaged, d.Of)
		x.metrics.damagedDays.Set(float64(len(x.damaged)))
		return false
	}
	return ok && x.opts.Now().Sub(was.tried) < monthRecompactEvery
}

// formerMonth is the month's segment, nil if there is none or only a damaged one.
func (x *Index) formerMonth(ctx context.Context, p presence.Partition) (*segment.Segment, error) {
	m := x.store.Closed.Month(p)
	if m == nil || m.Broken.Load() {
		return nil, nil
	}
	s, err := x.store.Open(ctx, m)
	if errors.Is(err, storage.ErrCorrupt) {
		x.store.MarkBroken(m, err)
		return nil, nil
	}
	return s, err
}

// monthDue lists the days to take in: all that are not held as they are, if there are new ones or some have been late
// for long.
func (x *Index) monthDue(g segment.MonthDays, held []segment.DayVersion) (due []*segment.Handle) {
	fresh := false
	if len(g.Days) < x.store.Layout.Months.DaysMin {
		return nil
	}
	for _, d := range g.Days {
		if x.leftOut(d) || d.Dropped.Load() { // RemoveHours compacts the latter soon
			continue
		}
		has := held[d.Of.FirstDay()-g.Of.FirstDay()]
		if d.Gen.Load() != has.Gen || has.Gen == 0 {
			due = append(due, d)
			fresh = fresh || has.Gen == 0
		}
	}
	if last, ok := x.compactedAt[g.Of]; !fresh && ok && x.opts.Now().Sub(last) < monthRecompactEvery {
		return nil
	}
	return due
}

// forgetInMonth voids the month of a day that is compacted without a former segment if the month contains one that was
// lost or has expired.
func (x *Index) forgetInMonth(ctx context.Context, day presence.Partition) error {
	gen, err := x.generationInMonth(ctx, day)
	if err != nil || gen == 0 {
		return err
	}
	return x.voidMonth(ctx, presence.MonthOf(day.FirstDay()))
}

// voidMonth makes a month forget its days, durably: what one of them is going to hold is not what the month holds of it
// and perhaps more. The caller holds maint.
func (x *Index) voidMonth(ctx context.Context, p presence.Partition) error {
	if x.store.Closed.Month(p) == nil {
		return nil
	}
	if err := x.compactInto(ctx, p, nil, contents{days: make([]segment.DayVersion, presence.MonthDaysMax)}, func() {}); err != nil {
		return fmt.Errorf("void %v: %w", p, err)
	}
	delete(x.compactedAt, p)
	return nil
}
