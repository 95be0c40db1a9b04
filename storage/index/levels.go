package index

import (
	"errors"

	"halite/storage"
	"halite/storage/index/presence"
)

// A closed day may be read in two places: its own segment, and its month's, which repeats what the days hold. A month
// answers a long window at the cost of one look-up; a day is smaller where series come and go. A month says which
// generation of each day it contains: days that were folded again since are read by themselves, so that a month that
// is late, or gone, costs time but never an answer.

// monthRule says from when on a month is read instead of its days.
type monthRule struct {
	// daysMin is the least number of days that the month must take off a query.
	daysMin int
	// share: the days' series together must be at least 1/share of the month's.
	share uint64
}

// staleRetriesMax is how often a period is read again because a fold replaced it; its folds are minutes apart.
const staleRetriesMax = 8

// eachClosed calls run with segments that together hold the closed days of the query, each with its window. With
// wholeOnly a month is asked for whole days only. If a period is folded meanwhile run is called again with a new
// segment: it must bear to see a row twice.
func (q *query) eachClosed(wholeOnly bool, run func(s *segment) error) error {
	for _, g := range q.closed {
		served, err := q.inMonth(g, wholeOnly, run)
		if err != nil {
			return err
		}
		for _, d := range g.days {
			if served>>(d.of.FirstDay()-g.of.FirstDay())&1 != 0 {
				continue
			}
			if err := q.inDay(d, run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *query) inDay(d *folded, run func(s *segment) error) error {
	for try := 0; ; try++ {
		s, err := q.x.segment(q.ctx, d)
		if err == nil {
			s.window[0] = presence.HoursWithin(d.of.FirstDay(), q.from, q.to)
			q.x.metrics.dayReads.Inc()
			err = run(s)
		}
		if !errors.Is(err, errStale) || try == staleRetriesMax {
			return err
		}
	}
}

// inMonth runs on the month's segment, if that is worth while, and returns the days that it has served.
func (q *query) inMonth(g monthDays, wholeOnly bool, run func(s *segment) error) (served uint32, err error) {
	if g.month == nil || len(g.days) < q.months.daysMin || g.month.broken.Load() {
		return 0, nil
	}
	for try := 0; ; try++ {
		s, err := q.x.segment(q.ctx, g.month)
		if err == nil {
			if served = q.monthWindow(s, g, wholeOnly); served == 0 {
				return 0, nil
			}
			q.x.metrics.monthReads.Inc()
			err = run(s)
		}
		switch {
		case err == nil:
			return served, nil
		case errors.Is(err, errStale) && try < staleRetriesMax:
			continue
		case errors.Is(err, errStale):
			return 0, nil
		case errors.Is(err, storage.ErrCorrupt):
			q.x.monthBroken(g.month, err)
			return 0, nil
		}
		return 0, err
	}
}

// monthWindow asks the segment for the days that it contains as they are now, and returns them; none if their own
// segments are the better choice.
func (q *query) monthWindow(s *segment, g monthDays, wholeOnly bool) (served uint32) {
	count, series := 0, uint64(0)
	for _, d := range g.days {
		i := d.of.FirstDay() - g.of.FirstDay()
		hours := presence.HoursWithin(d.of.FirstDay(), q.from, q.to)
		if has, now := s.root.days[i], d.gen.Load(); now == 0 || has.gen != now || d.removed.Load() || wholeOnly &&
			hours != presence.HoursMask {
			continue
		}
		s.window[i] = hours
		served |= 1 << i
		count++
		series += s.root.days[i].series
	}
	if count < q.months.daysMin || series < s.root.series/q.months.share {
		return 0
	}
	return served
}

// monthBroken makes queries read the days of a damaged month until Maintain has folded it anew.
func (x *Index) monthBroken(m *folded, err error) {
	if m.broken.Swap(true) {
		return
	}
	x.metrics.repairs.Inc()
	x.opts.Logger.Error("catalogue month is damaged; its days are read instead until it is folded anew",
		"period", m.of.String(), "err", err)
}
