package tiers

import (
	"context"

	"halite/keyschema"
	"halite/rollup"
)

// Lost are the states that a deletion would remove because retention has taken the samples they were computed from.
type Lost struct {
	// Hours and Days are states, those of days where no states of hours are left.
	Hours, Days int64
	// Cut are those of them that have samples outside the span perhaps, which go as well.
	Cut int64
}

// loss counts states that a deletion from fromMs to toMs would remove.
type loss struct {
	Lost
	fromMs, toMs int64
}

func (l *loss) count(s rollup.State, states *int64) {
	if s.Count == 0 || s.FirstMs > l.toMs || s.LastMs < l.fromMs {
		return
	}
	*states++
	if s.FirstMs < l.fromMs || s.LastMs > l.toMs {
		l.Cut++
	}
}

// CountLost counts the states of series from the day first to the day last that a deletion from fromMs to toMs would remove.
// Prefixes are as in a Request; has tells of which hours of the series i there are rows. What is retired is found out from what
// is there: ages may have been shorter before than they are.
func (t *Tiers) CountLost(
	ctx context.Context, prefixes [][]byte, first, last, fromMs, toMs int64, has func(i int, hour int64) bool,
) (Lost, error) {
	l := loss{fromMs: fromMs, toMs: toMs}
	kept := t.keptOf(keyschema.Hours)
	withHours := make([]map[int64]bool, len(prefixes)) // days
	req := Request{
		Prefixes: prefixes, From: first * keyschema.DayHours, To: (last+1)*keyschema.DayHours - 1, stored: true,
	}
	err := t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		withHours[i] = map[int64]bool{}
		keptMs := kept.sinceMs(prefixes[i])
		for n, known := range c.Known {
			if !known {
				continue
			}
			hour := req.From + int64(n)
			day := hour / keyschema.DayHours
			withHours[i][day] = true
			if c.Count[n] > 0 && dayCellMs(day) >= keptMs && !has(i, hour) {
				l.count(c.State(n), &l.Hours)
			}
		}
		return nil
	})
	if err != nil {
		return l.Lost, err
	}
	kept = t.keptOf(keyschema.Days)
	req.Unit, req.From, req.To = Days, first, last
	err = t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		keptMs := kept.sinceMs(prefixes[i])
		for n := range c.Len() {
			day := first + int64(n)
			if !withHours[i][day] && monthCellMs(MonthOfDay(day)) >= keptMs {
				l.count(c.State(n), &l.Days)
			}
		}
		return nil
	})
	return l.Lost, err
}
