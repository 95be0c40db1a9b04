package store

import (
	"context"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/rollup"
)

// Orphans counts states that a deletion removes permanently, because retention has dropped their samples.
type Orphans struct {
	// Hours counts states of hours. Days counts states of days that have no states of hours left.
	Hours, Days int64
	// Partial counts orphans that may have samples outside the deletion. These samples are also lost.
	Partial int64
}

// orphanCounter counts orphans of a deletion from fromMs to toMs.
type orphanCounter struct {
	Orphans
	fromMs, toMs int64
}

func (o *orphanCounter) add(s rollup.State, states *int64) {
	if s.Count == 0 || s.FirstMs > o.toMs || s.LastMs < o.fromMs {
		return
	}
	*states++
	if s.FirstMs < o.fromMs || s.LastMs > o.toMs {
		o.Partial++
	}
}

// histogramHours are the hours of one series that have kept histograms.
type histogramHours map[int64]*rollup.State

// add collects the hours with histograms. It sets only the first and last time of their states.
func (h histogramHours) add(samples []histchunk.Sample) {
	for _, s := range samples {
		hour := keyschema.HourOf(s.TsMs)
		if h[hour] == nil {
			h[hour] = &rollup.State{FirstMs: s.TsMs}
		}
		h[hour].Count, h[hour].LastMs = h[hour].Count+1, s.TsMs
	}
}

// CountOrphans counts the orphans of a deletion from fromMs to toMs, among the states of series from day first to day last.
// Prefixes are as in a Request. has reports whether series i has a row of an hour. Only the rows show which samples
// retention has dropped, because an earlier retention may have been shorter.
func (s *Store) CountOrphans(
	ctx context.Context, prefixes [][]byte, first, last, fromMs, toMs int64, has func(i int, hour int64) bool,
) (Orphans, error) {
	counter := orphanCounter{fromMs: fromMs, toMs: toMs}
	retention, daysRetention := s.retentionFilter(keyschema.Hours), s.retentionFilter(keyschema.Days)
	daysWithHours := make([]map[int64]bool, len(prefixes))
	req := Request{
		Prefixes: prefixes, From: first * keyschema.DayHours, To: (last+1)*keyschema.DayHours - 1, stored: true,
	}
	histograms := make([]histogramHours, len(prefixes))
	err := s.ReadHistograms(ctx, req, func(i int, samples []histchunk.Sample) error {
		histograms[i] = histogramHours{}
		histograms[i].add(samples)
		return nil
	})
	if err != nil {
		return counter.Orphans, err
	}
	err = s.Read(ctx, req, func(i int, c *rollup.Columns) error {
		daysWithHours[i] = map[int64]bool{}
		cutoffMs := retention.cutoffMs(prefixes[i])
		for n, known := range c.Known {
			if !known {
				continue
			}
			hour := req.From + int64(n)
			day := hour / keyschema.DayHours
			daysWithHours[i][day] = true
			if DayCellMs(day) < cutoffMs || has(i, hour) {
				continue
			}
			state := c.State(n)
			if kept := histograms[i][hour]; kept != nil && state.Count == 0 {
				state = *kept
			}
			counter.add(state, &counter.Hours)
		}
		return nil
	})
	if err != nil {
		return counter.Orphans, err
	}
	days := Request{Prefixes: prefixes, Unit: Days, From: first, To: last, stored: true}
	err = s.Read(ctx, days, func(i int, c *rollup.Columns) error {
		cutoffMs := daysRetention.cutoffMs(prefixes[i])
		for n := range c.Len() {
			day := first + int64(n)
			if !daysWithHours[i][day] && MonthCellMs(MonthOfDay(day)) >= cutoffMs {
				counter.add(c.State(n), &counter.Days)
			}
		}
		return nil
	})
	return counter.Orphans, err
}
