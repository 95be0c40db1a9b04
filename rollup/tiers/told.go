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

// Told finds out of which hours there are states with samples; where states of hours are retired, that of the day speaks
// for all of its hours. Each prefix is asked for once. It sorts them.
func (t *Tiers) Told(ctx context.Context, asked []Asked) error {
	if len(asked) == 0 {
		return nil
	}
	slices.SortFunc(asked, func(a, b Asked) int { return bytes.Compare(a.Prefix, b.Prefix) })
	req := Request{From: math.MaxInt64}
	for _, a := range asked {
		req.Prefixes = append(req.Prefixes, a.Prefix)
		for hour := range a.Hours {
			req.From, req.To = min(req.From, hour), max(req.To, hour)
		}
	}
	err := t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		for hour := range asked[i].Hours {
			asked[i].Hours[hour] = asked[i].Hours[hour] || c.Count[hour-req.From] > 0
		}
		return nil
	})
	if err != nil {
		return err
	}
	kept := t.keptOf(keyschema.Hours)
	req.Unit, req.From, req.To = Days, req.From/keyschema.DayHours, req.To/keyschema.DayHours
	return t.Read(ctx, req, func(i int, c *rollup.Columns) error {
		keptMs := kept.sinceMs(asked[i].Prefix)
		for hour, told := range asked[i].Hours {
			day := hour / keyschema.DayHours
			if retired := dayCellMs(day) < keptMs; retired && !told {
				asked[i].Hours[hour] = c.Count[day-req.From] > 0
			}
		}
		return nil
	})
}
