package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"halite/keyschema"
	"halite/storage"
)

// rangesByRule lists, for each rule, the ranges of row keys of its metrics. Ranges of different rules are disjoint. Where
// the pattern does not match all metrics of a range, it reads the metrics of the table.
func rangesByRule(ctx context.Context, table storage.Table, ages *keyschema.RetentionByMetric) ([][]storage.RowRange, error) {
	rules := ages.Rules()
	out := make([][]storage.RowRange, len(rules))
	var claimed []storage.RowRange
	for i := range rules {
		var mine []storage.RowRange
		for _, r := range rules[i].KeyRanges() {
			rows := storage.RowRange{Start: r.Start, End: r.End}
			if r.Exact {
				mine = append(mine, rows)
				continue
			}
			metrics, err := metricsOf(ctx, table, ages, i, rows)
			if err != nil {
				return nil, err
			}
			mine = append(mine, metrics...)
		}
		for _, r := range mine {
			out[i] = append(out[i], without(r, claimed)...)
		}
		claimed = append(claimed, out[i]...)
	}
	return out, nil
}

// metricsOf lists the rows of each metric of a rule within a range.
func metricsOf(
	ctx context.Context, table storage.Table, ages *keyschema.RetentionByMetric, rule int, within storage.RowRange,
) ([]storage.RowRange, error) {
	var out []storage.RowRange
	for {
		it := table.ReadRows(ctx, storage.RowSet{Ranges: []storage.RowRange{within}}, storage.ReadOptions{
			RowsMax: 1, Filter: storage.Filter{KeysOnly: true}})
		var key []byte
		if it.Next() {
			key = bytes.Clone(it.Row().Key)
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil || key == nil {
			return out, err
		}
		metric, err := keyschema.MetricOf(key)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", storage.ErrCorrupt, err)
		}
		var r storage.RowRange
		r.Start, r.End = keyschema.MetricRows(metric)
		if ages.RuleOf(metric) == rule {
			out = append(out, r)
		}
		within.Start = r.End
	}
}

// without returns the parts of a range that are in none of the other ranges.
func without(r storage.RowRange, others []storage.RowRange) []storage.RowRange {
	left := []storage.RowRange{r}
	for _, o := range others {
		var next []storage.RowRange
		for _, l := range left {
			if len(l.End) > 0 && bytes.Compare(l.End, o.Start) <= 0 || len(o.End) > 0 && bytes.Compare(o.End, l.Start) <= 0 {
				next = append(next, l)
				continue
			}
			if bytes.Compare(l.Start, o.Start) < 0 {
				next = append(next, storage.RowRange{Start: l.Start, End: o.Start})
			}
			if len(o.End) > 0 && (len(l.End) == 0 || bytes.Compare(o.End, l.End) < 0) {
				next = append(next, storage.RowRange{Start: o.End, End: l.End})
			}
		}
		left = next
	}
	return left
}
