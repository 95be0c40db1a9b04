package ingest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index"
	"halite/storage/tombstone"
)

// Deleting tells of a deletion that is about to be seen; see ThroughOptions.Deleting.
type Deleting struct {
	// FromMs and ToMs are the first and last millisecond.
	FromMs, ToMs int64
	// Rows lists the rows of a unix day that are concerned: row key prefixes of series, in no order, with a mask of hours
	// of the day.
	Rows func(day int64) iter.Seq2[[]byte, uint32]
}

// finder finds the series and rows of a deletion.
type finder struct {
	index  *index.Index
	schema *keyschema.Schema
	data   storage.Table // without what was deleted
}

func (i *Ingester) find() finder { return finder{i.opts.Index, i.opts.Schema, i.data} }

// selected lists the series of a deletion, each once.
func (f finder) selected(ctx context.Context, d Deletion) ([]index.Series, error) {
	var all []index.Series
	for _, ms := range d.Selectors {
		found, err := f.index.Select(ctx, d.FromMs, d.ToMs, ms...)
		if err != nil {
			return nil, fmt.Errorf("select series: %w", err)
		}
		all = append(all, found...)
	}
	if len(d.Selectors) == 1 {
		return all, nil
	}
	slices.SortFunc(all, func(a, b index.Series) int { return labels.Compare(a.Labels, b.Labels) })
	return slices.CompactFunc(all, func(a, b index.Series) bool { return labels.Equal(a.Labels, b.Labels) }), nil
}

// deleting describes a deletion to those who have to know in advance.
func (f finder) deleting(t *tombstone.Tombstone, found []index.Series) Deleting {
	return Deleting{FromMs: t.FromMs, ToMs: t.ToMs, Rows: func(day int64) iter.Seq2[[]byte, uint32] {
		first, last := day*keyschema.DayHours, day*keyschema.DayHours+keyschema.DayHours-1
		return func(yield func([]byte, uint32) bool) {
			more := true
			for n := range found {
				f.prefixes(&found[n], first, last, func(prefix []byte, from, to int64) {
					mask := uint32(1)<<(to-from+1) - 1
					more = more && yield(prefix, mask<<(from-first))
				})
				if !more {
					return
				}
			}
		}
	}}
}

// prefixes visits the row key prefixes of a series in those of its hours that lie in [first, last], with the hours that
// each is for. The prefix is the visitor's.
func (f finder) prefixes(s *index.Series, first, last int64, visit func(prefix []byte, from, to int64)) {
	var metric string
	var tags []keyschema.Tag
	for _, span := range s.Hours {
		from, to := max(span.First, first), min(span.Last, last)
		if from > to {
			continue
		}
		if metric == "" {
			metric, tags = tagsOf(s.Labels)
		}
		for _, g := range f.schema.Generations(metric, from, to) {
			visit(g.Rule.AppendPrefix(nil, metric, tags), max(from, g.FromHour), min(to, g.ToHour))
		}
	}
}

func tagsOf(ls labels.Labels) (metric string, tags []keyschema.Tag) {
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

// empty lists of each series' hours those without a row.
func (f finder) empty(ctx context.Context, series []index.Series) (out [][]index.HourSpan, err error) {
	out = make([][]index.HourSpan, len(series))
	var set storage.RowSet
	owners := map[string]int{}
	first, last := int64(keyschema.HourMax), int64(0)
	for n := range series {
		f.prefixes(&series[n], 0, keyschema.HourMax, func(prefix []byte, from, to int64) {
			owners[string(prefix)] = n
			start, end := keyschema.SeriesRange(prefix, from, to)
			set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
			first, last = min(first, from), max(last, to)
		})
	}
	rows := make([]map[int64]bool, len(series))
	if len(set.Ranges) > 0 {
		it := f.data.ReadRows(ctx, set, storage.ReadOptions{Filter: storage.Filter{
			FromMs: keyschema.HourStartMs(first), ToMs: keyschema.HourStartMs(last + 1), KeysOnly: true,
		}})
		defer func() { err = errors.Join(err, it.Close()) }()
		for it.Next() {
			k, err := keyschema.ParseRowKey(it.Row().Key)
			if err != nil {
				return nil, fmt.Errorf("%w: table %s: %w", storage.ErrCorrupt, storage.TableData, err)
			}
			n := owners[string(it.Row().Key[:len(it.Row().Key)-rowHourDigits])]
			if rows[n] == nil {
				rows[n] = map[int64]bool{}
			}
			rows[n][k.Hour] = true
		}
		if err := it.Err(); err != nil {
			return nil, fmt.Errorf("look for rows that are left: %w", err)
		}
	}
	for n := range series {
		eachHour(series[n].Hours, func(hour int64) {
			if !rows[n][hour] {
				out[n] = append(out[n], index.HourSpan{First: hour, Last: hour})
			}
		})
	}
	return out, nil
}

// rowsOf are the ranges of rows that tombstones may concern.
func (f finder) rowsOf(todo []*tombstone.Tombstone) storage.RowSet {
	var set storage.RowSet
	seen := map[string]bool{}
	for _, t := range todo {
		metrics, ok := tombstone.Metrics(t.Selectors)
		if !ok {
			return storage.RowSet{Ranges: []storage.RowRange{{}}}
		}
		for _, metric := range metrics {
			for _, g := range f.schema.Generations(metric, 0, keyschema.HourMax) {
				for salt := range g.Rule.Salts {
					start, end := g.Rule.MetricRange(metric, salt)
					if !seen[string(start)] {
						seen[string(start)] = true
						set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
					}
				}
			}
		}
	}
	return set
}
