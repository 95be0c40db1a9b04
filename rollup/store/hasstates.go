package store

import (
	"bytes"
	"context"
	"math"
	"slices"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/rollup"
)

// HoursQuery selects the hours of a series that have a state with samples. Series with several prefixes may share Hours.
type HoursQuery struct {
	Prefix []byte
	Hours  map[int64]bool
}

// HasStates sets to true the hours that have a state with samples or native histograms. For an hour without state, it uses
// the state of the day. It includes dirty states, because they stay if their samples have expired. It includes expired
// states, because the job may still compute a day from them. Each prefix occurs once. HasStates sorts the queries.
func (s *Store) HasStates(ctx context.Context, queries []HoursQuery) error {
	if len(queries) == 0 {
		return nil
	}
	slices.SortFunc(queries, func(a, b HoursQuery) int { return bytes.Compare(a.Prefix, b.Prefix) })
	req := Request{From: math.MaxInt64, stored: true}
	for _, q := range queries {
		req.Prefixes = append(req.Prefixes, q.Prefix)
		for hour := range q.Hours {
			req.From, req.To = min(req.From, hour), max(req.To, hour)
		}
	}
	err := s.ReadHistograms(ctx, req, func(i int, samples []histchunk.Sample) error {
		for _, sample := range samples {
			if _, wanted := queries[i].Hours[keyschema.HourOf(sample.TsMs)]; wanted {
				queries[i].Hours[keyschema.HourOf(sample.TsMs)] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	unknown := make([]map[int64]bool, len(queries)) // hours
	err = s.Read(ctx, req, func(i int, c *rollup.Columns) error {
		for hour, found := range queries[i].Hours {
			switch at := hour - req.From; {
			case found:
			case c.Known[at]:
				queries[i].Hours[hour] = c.Count[at] > 0
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
	days := req
	days.Unit, days.From, days.To = Days, req.From/keyschema.DayHours, req.To/keyschema.DayHours
	return s.Read(ctx, days, func(i int, c *rollup.Columns) error {
		for hour := range unknown[i] {
			queries[i].Hours[hour] = queries[i].Hours[hour] || c.Count[hour/keyschema.DayHours-days.From] > 0
		}
		return nil
	})
}
