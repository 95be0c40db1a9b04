package lookup

import (
	"errors"

	"halite/storage"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// A closed day may be read in two places: its own segment, and its month's, which repeats what the days hold. A month
// answers a long window at the cost of one look-up; a day is smaller where series come and go. A month says which
// generation of each day it contains: days that were compacted again since are read by themselves, so that a month that
// is late, or gone, costs time but never an answer.

// staleRetriesMax is how often a partition is read again because a compaction replaced it; its compactions are minutes apart.
const staleRetriesMax = 8

// eachClosed calls run with segments that together hold the closed days of the query, each with its window. With
// wholeOnly a month is asked for whole days only. If a partition is compacted meanwhile run is called again with a new
// segment: it must bear to see a row twice.
func (q *query) eachClosed(wholeOnly bool, run func(s *segment.Segment) error) error {
	for _, g := range q.closed {
		served, err := q.inMonth(g, wholeOnly, run)
		if err != nil {
			return err
		}
		for _, d := range g.Days {
			if served>>(d.Of.FirstDay()-g.Of.FirstDay())&1 != 0 {
				continue
			}
			if err := q.inDay(d, run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (q *query) inDay(d *segment.Handle, run func(s *segment.Segment) error) error {
	for try := 0; ; try++ {
		s, err := q.reader.store.Open(q.ctx, d)
		if err == nil {
			s.Window[0] = presence.HoursWithin(d.Of.FirstDay(), q.from, q.to)
			q.reader.opts.DayReads.Inc()
			err = run(s)
		}
		if !errors.Is(err, segment.ErrStale) || try == staleRetriesMax {
			return err
		}
	}
}

// inMonth runs on the month's segment, if that is worth while, and returns the days that it has served.
func (q *query) inMonth(g segment.MonthDays, wholeOnly bool, run func(s *segment.Segment) error) (served uint32, err error) {
	if g.Month == nil || len(g.Days) < q.months.DaysMin || g.Month.Broken.Load() {
		return 0, nil
	}
	for try := 0; ; try++ {
		s, err := q.reader.store.Open(q.ctx, g.Month)
		if err == nil {
			if served = q.monthWindow(s, g, wholeOnly); served == 0 {
				return 0, nil
			}
			q.reader.opts.MonthReads.Inc()
			err = run(s)
		}
		switch {
		case err == nil:
			return served, nil
		case errors.Is(err, segment.ErrStale) && try < staleRetriesMax:
			continue
		case errors.Is(err, segment.ErrStale):
			return 0, nil
		case errors.Is(err, storage.ErrCorrupt):
			q.reader.store.MarkBroken(g.Month, err)
			return 0, nil
		}
		return 0, err
	}
}

// monthWindow asks the segment for the days that it contains as they are now, and returns them; none if their own
// segments are the better choice.
func (q *query) monthWindow(s *segment.Segment, g segment.MonthDays, wholeOnly bool) (served uint32) {
	count, series := 0, uint64(0)
	for _, d := range g.Days {
		i := d.Of.FirstDay() - g.Of.FirstDay()
		hours := presence.HoursWithin(d.Of.FirstDay(), q.from, q.to)
		if has, now := s.Manifest.Days[i], d.Gen.Load(); now == 0 || has.Gen != now || d.Dropped.Load() || wholeOnly &&
			hours != presence.HoursMask {
			continue
		}
		s.Window[i] = hours
		served |= 1 << i
		count++
		series += s.Manifest.Days[i].Series
	}
	if count < q.months.DaysMin || series < s.Manifest.Series/q.months.Share {
		return 0
	}
	return served
}
