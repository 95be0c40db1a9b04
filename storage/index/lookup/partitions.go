package lookup

import (
	"errors"

	"halite/storage"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Two places hold a closed day: its own segment, and the segment of its month. For a long window, a month needs only one
// look-up. A day is smaller if series come and go. A month names the generation of each day that it contains. If a day was
// compacted again later, look-ups read the day's own segment. So a late or missing month costs time, but no result is wrong.

// staleRetriesMax bounds the retries of a read after a compaction has replaced the partition. Compactions of a partition are
// minutes apart.
const staleRetriesMax = 8

// forEachClosed calls run with segments that together hold the closed days of the query, each with its window. If a compaction
// replaces a partition during run, it calls run again with the new segment. So run must accept duplicate rows.
func (q *query) forEachClosed(run func(s *segment.Segment) error) error {
	for _, g := range q.closed {
		served, err := q.inMonth(g, run)
		if err != nil {
			return err
		}
		for _, d := range g.Days {
			if served>>(d.Partition.FirstDay()-g.Partition.FirstDay())&1 != 0 {
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
		err := q.tryDay(d, run)
		if !errors.Is(err, segment.ErrStale) || try == staleRetriesMax {
			return err
		}
	}
}

// tryDay runs on the current segment of a day. The error is segment.ErrStale if a compaction has replaced it.
func (q *query) tryDay(d *segment.Handle, run func(s *segment.Segment) error) error {
	s, err := q.reader.store.Open(q.ctx, d)
	if err != nil {
		return err
	}
	s.Window[0] = presence.HoursWithin(d.Partition.FirstDay(), q.from, q.to)
	q.reader.opts.DayReads.Inc()
	q.work.DaySegments++
	return run(s)
}

// inMonth runs on the segment of a month if that is cheaper, and returns the days that it has covered.
func (q *query) inMonth(g segment.MonthDays, run func(s *segment.Segment) error) (served uint32, err error) {
	if g.Month == nil || len(g.Days) < q.months.DaysMin || g.Month.Broken.Load() {
		return 0, nil
	}
	for try := 0; ; try++ {
		served, err := q.tryMonth(g, run)
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

// tryMonth is inMonth for the current segment of the month. The error is segment.ErrStale if a compaction has replaced it.
func (q *query) tryMonth(g segment.MonthDays, run func(s *segment.Segment) error) (served uint32, err error) {
	s, err := q.reader.store.Open(q.ctx, g.Month)
	if err != nil {
		return 0, err
	}
	if served = q.monthWindow(s, g); served == 0 {
		return 0, nil
	}
	q.reader.opts.MonthReads.Inc()
	q.work.MonthSegments++
	return served, run(s)
}

// monthWindow returns the days whose current generation the month contains. It returns none if reading the segments of the
// days is better.
func (q *query) monthWindow(s *segment.Segment, g segment.MonthDays) (served uint32) {
	count, series := 0, uint64(0)
	for _, d := range g.Days {
		i := d.Partition.FirstDay() - g.Partition.FirstDay()
		hours := presence.HoursWithin(d.Partition.FirstDay(), q.from, q.to)
		if has, now := s.Manifest.Days[i], d.Gen.Load(); now == 0 || has.Gen != now || d.Dropped.Load() ||
			q.wholeDays && hours != presence.HoursMask {
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
