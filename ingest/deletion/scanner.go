package deletion

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	rollupstore "halite/rollup/store"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/index/presence"
	"halite/storage/tombstone"
)

// Scanner finds the series and rows of deletions.
type Scanner struct {
	Index  *index.Index
	Schema *keyschema.Schema
	Data   storage.Table // hides deleted samples
	States States        // nil without rollups
}

// Select lists the series of a deletion, each once.
func (sc Scanner) Select(ctx context.Context, r Request) ([]index.Series, error) {
	var all []index.Series
	for _, ms := range r.Selectors {
		found, err := sc.Index.Select(ctx, nil, r.FromMs, r.ToMs, ms...)
		if err != nil {
			return nil, fmt.Errorf("select series: %w", err)
		}
		all = append(all, found...)
	}
	if len(r.Selectors) == 1 {
		return all, nil
	}
	slices.SortFunc(all, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(all, func(a, b index.Series) bool { return labels.Equal(a.Labels, b.Labels) }), nil
}

// prefixes visits the row key prefixes of a series, with the hours in [first, last] that have each prefix. The prefix is
// valid until visit returns.
func (sc Scanner) prefixes(s *index.Series, first, last int64, visit func(prefix []byte, from, to int64)) {
	var metric string
	var tags []keyschema.Tag
	for _, span := range s.Hours {
		from, to := max(span.First, first), min(span.Last, last)
		if from > to {
			continue
		}
		if metric == "" {
			metric, tags = TagsOf(s.Labels)
		}
		for _, g := range sc.Schema.Generations(metric, from, to) {
			visit(g.Rule.AppendPrefix(nil, metric, tags), max(from, g.FromHour), min(to, g.ToHour))
		}
	}
}

// TagsOf splits the labels of a series into its metric and its tags.
func TagsOf(ls labels.Labels) (metric string, tags []keyschema.Tag) {
	tags = make([]keyschema.Tag, 0, ls.Len())
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			metric = l.Value
			return
		}
		tags = append(tags, keyschema.Tag{Name: l.Name, Value: l.Value})
	})
	return metric, tags
}

// RowHours returns the hours of each series that have a row.
func (sc Scanner) RowHours(ctx context.Context, series []index.Series) (rows []map[int64]bool, err error) {
	rows = make([]map[int64]bool, len(series))
	var set storage.RowSet
	owners := map[string]int{}
	first, last := int64(keyschema.HourMax), int64(0)
	for n := range series {
		sc.prefixes(&series[n], 0, keyschema.HourMax, func(prefix []byte, from, to int64) {
			owners[string(prefix)] = n
			start, end := keyschema.SeriesRange(prefix, from, to)
			set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
			first, last = min(first, from), max(last, to)
		})
	}
	if len(set.Ranges) == 0 {
		return rows, nil
	}
	it := sc.Data.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
		FromMs: keyschema.HourStartMs(first), ToMs: keyschema.HourStartMs(last + 1), KeysOnly: true,
	}})
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Next() {
		prefix, hour, ok := keyschema.CutHour(it.Row().Key)
		if !ok {
			return nil, fmt.Errorf("%w: table %s: key %q has no hour", storage.ErrCorrupt, storage.TableData, it.Row().Key)
		}
		n := owners[string(prefix)]
		if rows[n] == nil {
			rows[n] = map[int64]bool{}
		}
		rows[n][hour] = true
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("look for remaining rows: %w", err)
	}
	return rows, nil
}

// Bounds returns the first and last millisecond of tombstones. There is at least one.
func Bounds(todo []*tombstone.Tombstone) (fromMs, toMs int64) {
	fromMs, toMs = todo[0].FromMs, todo[0].ToMs
	for _, t := range todo[1:] {
		fromMs, toMs = min(fromMs, t.FromMs), max(toMs, t.ToMs)
	}
	return fromMs, toMs
}

// Rows returns the ranges of rows that tombstones may affect.
func (sc Scanner) Rows(todo []*tombstone.Tombstone) storage.RowSet {
	var set storage.RowSet
	seen := map[string]bool{}
	add := func(start, end []byte) {
		if !seen[string(start)] {
			seen[string(start)] = true
			set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
		}
	}
	for _, t := range todo {
		metrics, tenants, ok := tombstone.Names(t.Selectors)
		if !ok {
			return storage.RowSet{Ranges: []storage.RowRange{{}}}
		}
		for _, tenant := range tenants {
			add(keyschema.TenantRows(tenant))
		}
		for _, metric := range metrics {
			for _, g := range sc.Schema.Generations(metric, 0, keyschema.HourMax) {
				for salt := range g.Rule.Salts {
					add(g.Rule.MetricRange(metric, salt))
				}
			}
		}
	}
	return set
}

// omitHoursWithStates removes the hours that have a rollup state from the hours of each series.
func (sc Scanner) omitHoursWithStates(ctx context.Context, series []index.Series, hours [][]presence.Span) error {
	if sc.States == nil {
		return nil
	}
	var queries []rollupstore.HoursQuery
	hasStates := make([]map[int64]bool, len(series))
	for n := range series {
		prefixes := map[string]bool{} // generations may share a prefix
		hasStates[n] = map[int64]bool{}
		one := index.Series{Labels: series[n].Labels, Hours: hours[n]}
		sc.prefixes(&one, 0, keyschema.HourMax, func(prefix []byte, from, to int64) {
			for hour := from; hour <= to; hour++ {
				hasStates[n][hour] = false
			}
			if !prefixes[string(prefix)] {
				prefixes[string(prefix)] = true
				queries = append(queries, rollupstore.HoursQuery{Prefix: prefix, Hours: hasStates[n]})
			}
		})
	}
	if err := sc.States.HasStates(ctx, queries); err != nil {
		return err
	}
	for n, all := range hours {
		hours[n] = nil
		forEachHour(all, func(hour int64) {
			if !hasStates[n][hour] {
				hours[n] = append(hours[n], presence.Span{First: hour, Last: hour})
			}
		})
	}
	return nil
}
