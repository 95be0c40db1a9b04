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

// CountLost counts the states of series from the hour first to the hour last that a deletion from fromMs to toMs would
// remove. Prefixes are as in a Request.
func (t *Tiers) CountLost(ctx context.Context, prefixes [][]byte, first, last, fromMs, toMs int64) (lost Lost, err error) {
	raw, hours := t.keptOf(keyschema.Raw), t.keptOf(keyschema.Hours)
	count := func(s rollup.State, states *int64) {
		if s.Count == 0 || s.FirstMs > toMs || s.LastMs < fromMs {
			return
		}
		*states++
		if s.FirstMs < fromMs || s.LastMs > toMs {
			lost.Cut++
		}
	}
	req := Request{Prefixes: prefixes, From: first, To: last}
	err = t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		keptMs := raw.sinceMs(prefixes[i])
		for n := range c.Len() {
			if keyschema.HourCellMs(first+int64(n)) < keptMs {
				count(c.State(n), &lost.Hours)
			}
		}
		return nil
	})
	if err != nil {
		return lost, err
	}
	req.Unit, req.From, req.To = Days, first/keyschema.DayHours, last/keyschema.DayHours
	return lost, t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		keptMs := hours.sinceMs(prefixes[i])
		for n := range c.Len() {
			if dayCellMs(req.From+int64(n)) < keptMs {
				count(c.State(n), &lost.Days)
			}
		}
		return nil
	})
}
