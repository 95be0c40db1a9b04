package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halite/storage"
)

// A month is folded from its days as they are folded: from its former generation and the days that are new or were
// folded again since. That is right because a fold of a day only adds to its segment; a rebuild, which may take away, and
// a fold of a day whose segment was lost void the month first, so that it is folded from its days alone.

// monthRefoldEvery is the least time between two folds of a month that bring no new day, only late data.
const monthRefoldEvery = 6 * time.Hour

// foldMonths folds the months whose days have changed. One that fails stays as it was, and the first error is returned.
func (x *Index) foldMonths(ctx context.Context) error {
	var first error
	for _, g := range x.closed.byMonth(0, dayMax) {
		for more := true; more; {
			var err error
			if more, err = x.foldMonth(ctx, g); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// foldMonth takes in what is due of a month's days, as much at once as memory bears, and reports whether there is more.
func (x *Index) foldMonth(ctx context.Context, g monthDays) (more bool, err error) {
	x.maint.Lock()
	defer x.maint.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("index: fold %v: %w", g.of, err)
			x.metrics.foldFailures.Inc()
			more = false
		}
	}()
	var sources []source
	held := make([]monthDay, monthDaysMax)
	former, err := x.formerMonth(ctx, g.of)
	if err != nil {
		return false, err
	}
	if former != nil {
		sources = append(sources, closedSource{s: former})
		copy(held, former.root.days)
	}
	due := x.monthDue(g, held)
	rows := uint64(0)
	for i, d := range due {
		s, err := x.segment(ctx, d)
		if err != nil {
			return false, err
		}
		if rows += s.root.series; i > 0 && rows > x.layout.monthRows {
			more = true
			break
		}
		at := d.of.firstDay() - g.of.firstDay()
		held[at] = monthDay{gen: s.root.gen, series: s.root.series}
		sources = append(sources, closedSource{s: s, shift: uint8(at)})
	}
	if len(due) == 0 {
		return false, nil
	}
	return more, x.foldInto(ctx, g.of, sources, contents{days: held}, func() {})
}

// formerMonth is the month's segment, nil if there is none or only a damaged one.
func (x *Index) formerMonth(ctx context.Context, p period) (*segment, error) {
	m := x.closed.month(p)
	if m == nil || m.broken.Load() {
		return nil, nil
	}
	s, err := x.segment(ctx, m)
	if errors.Is(err, storage.ErrCorrupt) {
		x.monthBroken(m, err)
		return nil, nil
	}
	return s, err
}

// monthDue lists the days to take in: all that are not held as they are, if there are new ones or some have been late
// for long.
func (x *Index) monthDue(g monthDays, held []monthDay) (due []*folded) {
	fresh := false
	if len(g.days) < x.layout.months.daysMin {
		return nil
	}
	for _, d := range g.days {
		has := held[d.of.firstDay()-g.of.firstDay()]
		if d.gen.Load() != has.gen || has.gen == 0 {
			due = append(due, d)
			fresh = fresh || has.gen == 0
		}
	}
	if last, ok := x.foldedAt[g.of]; !fresh && ok && x.opts.Now().Sub(last) < monthRefoldEvery {
		return nil
	}
	return due
}

// forgetInMonth voids the month of a day that is folded without a former segment if the month contains one that was
// lost or has expired.
func (x *Index) forgetInMonth(ctx context.Context, day period) error {
	gen, err := x.generationInMonth(ctx, day)
	if err != nil || gen == 0 {
		return err
	}
	return x.voidMonth(ctx, monthOf(day.firstDay()))
}

// voidMonth makes a month forget its days, durably: what one of them is going to hold is not what the month holds of it
// and perhaps more. The caller holds maint.
func (x *Index) voidMonth(ctx context.Context, p period) error {
	if x.closed.month(p) == nil {
		return nil
	}
	if err := x.foldInto(ctx, p, nil, contents{days: make([]monthDay, monthDaysMax)}, func() {}); err != nil {
		return fmt.Errorf("void %v: %w", p, err)
	}
	delete(x.foldedAt, p)
	return nil
}
