package tiers

import (
	"bytes"
	"context"
	"math"
	"slices"

	"halite/keyschema"
	"halite/rollup"
)

// Asked are hours of a series, by the prefix of its row keys, and whether a state tells of samples there. Prefixes of one
// series may share the hours.
type Asked struct {
	Prefix []byte
	Hours  map[int64]bool
}

// Told finds out of which hours there are states with samples; where there is no state of an hour, that of the day speaks for
// it. Stale states count, for they stay where the samples are retired, and so do those that are too old to be seen: what
// becomes of a day may be computed from them. Each prefix is asked for once. It sorts them.
func (t *Tiers) Told(ctx context.Context, asked []Asked) error {
	if len(asked) == 0 {
		return nil
	}
	slices.SortFunc(asked, func(a, b Asked) int { return bytes.Compare(a.Prefix, b.Prefix) })
	req := Request{From: math.MaxInt64, stored: true}
	for _, a := range asked {
		req.Prefixes = append(req.Prefixes, a.Prefix)
		for hour := range a.Hours {
			req.From, req.To = min(req.From, hour), max(req.To, hour)
		}
	}
	unknown := make([]map[int64]bool, len(asked)) // hours
	err := t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		for hour, told := range asked[i].Hours {
			switch at := hour - req.From; {
			case told:
			case c.Known[at]:
				asked[i].Hours[hour] = c.Count[at] > 0
			case unknown[i] == nil:
				unknown[i] = map[int64]bool{hour: true}
			default:
				unknown[i][hour] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	req.Unit, req.From, req.To = Days, req.From/keyschema.DayHours, req.To/keyschema.DayHours
	return t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		for hour := range unknown[i] {
			asked[i].Hours[hour] = asked[i].Hours[hour] || c.Count[hour/keyschema.DayHours-req.From] > 0
		}
		return nil
	})
}

// MonthClosed tells whether there may be a state of a day.
func (t *Tiers) MonthClosed(day int64) bool { return MonthOfDay(day) <= t.ledger.view().ClosedMonth }
