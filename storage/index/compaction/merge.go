package compaction

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// Merge joins the sources of a compaction. It maps every value of the partition to its rank in the sorted dictionary of its
// label name. It yields the series as columns of ranks, metric by metric.
type Merge struct {
	sources []Source
	hours   *presence.Patterns
	metrics []string
	names   []string   // sorted
	values  [][]string // values of each name, sorted; values[k][i] has rank i+1
	// label[s][n] is the index in names of source s's name n. rank[s][n] maps the ids of source s to ranks.
	label [][]int
	rank  [][][]uint32
}

// NewMerge ranks the label values of all sources. It keeps the values in memory.
func NewMerge(ctx context.Context, p presence.Partition, sources []Source) (*Merge, error) {
	m := &Merge{sources: sources, hours: presence.NewPatterns(p)}
	for _, s := range sources {
		metrics, err := s.metrics(ctx)
		if err != nil {
			return nil, err
		}
		m.metrics = append(m.metrics, metrics...)
		m.names = append(m.names, s.names()...)
	}
	slices.Sort(m.metrics)
	m.metrics = slices.Compact(m.metrics)
	slices.Sort(m.names)
	m.names = slices.Compact(m.names)
	m.values = make([][]string, len(m.names))
	for _, s := range sources {
		var label []int
		for _, name := range s.names() {
			k, _ := slices.BinarySearch(m.names, name)
			label = append(label, k)
		}
		m.label = append(m.label, label)
		m.rank = append(m.rank, make([][]uint32, len(label)))
	}
	for k := range m.names {
		if err := m.rankName(ctx, k); err != nil {
			return nil, err
		}
	}
	m.dropUnused()
	return m, nil
}

// Content is the merge in the form from which a segment is written.
func (m *Merge) Content() *segment.Content {
	return &segment.Content{Metrics: m.metrics, Names: m.names, Values: m.values, Hours: m.hours, Series: m.series}
}

// sourceValue is a value with its source and its id there.
type sourceValue struct {
	value            string
	source, name, id uint32
}

// rankName sorts the values of one label name over all sources.
func (m *Merge) rankName(ctx context.Context, k int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all, err := m.sourceValues(ctx, k)
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sourceValue) int { return strings.Compare(a.value, b.value) })
	distinct := 0
	for i := range all {
		if i == 0 || all[i-1].value != all[i].value {
			distinct++
		}
	}
	m.values[k] = make([]string, 0, distinct)
	for i, v := range all {
		if i == 0 || all[i-1].value != v.value {
			m.values[k] = append(m.values[k], v.value)
		}
		m.rank[v.source][v.name][v.id] = uint32(len(m.values[k]))
	}
	return nil
}

// sourceValues collects the values of one label name. It counts them first, because there may be millions and a growing
// list is in memory twice.
func (m *Merge) sourceValues(ctx context.Context, k int) (all []sourceValue, err error) {
	count := 0
	if err := m.forEachValue(ctx, k, func(int, int, uint32, string) { count++ }); err != nil {
		return nil, err
	}
	all = make([]sourceValue, 0, count)
	err = m.forEachValue(ctx, k, func(s, n int, id uint32, value string) {
		all = append(all, sourceValue{value: value, source: uint32(s), name: uint32(n), id: id})
	})
	return all, err
}

// forEachValue calls fn for the values of one label name, with the source and the source's numbers of name and value. It
// allocates memory for the ranks.
func (m *Merge) forEachValue(ctx context.Context, k int, fn func(s, n int, id uint32, value string)) error {
	for s, src := range m.sources {
		for n, label := range m.label[s] {
			if label != k {
				continue
			}
			idMax := uint32(0)
			if err := src.values(ctx, n, func(id uint32, value string) {
				fn(s, n, id, value)
				idMax = max(idMax, id)
			}); err != nil {
				return err
			}
			if len(m.rank[s][n]) == 0 {
				m.rank[s][n] = make([]uint32, idMax+1)
			}
		}
	}
	return nil
}

// dropUnused removes the names that no series has.
func (m *Merge) dropUnused() {
	keep := make([]int, len(m.names))
	n := 0
	for k := range m.names {
		keep[k] = -1
		if len(m.values[k]) > 0 {
			keep[k] = n
			m.names[n], m.values[n] = m.names[k], m.values[k]
			n++
		}
	}
	m.names, m.values = m.names[:n], m.values[:n]
	for s := range m.label {
		for i, k := range m.label[s] {
			m.label[s][i] = keep[k]
		}
	}
}

// series returns the series of a metric, sorted by labels and without duplicates.
func (m *Merge) series(ctx context.Context, metric string) (*segment.MetricSeries, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := &segment.MetricSeries{}
	byLabel := map[int][]uint32{}
	for s, src := range m.sources {
		rows, err := src.rows(ctx, metric, m.hours)
		if err != nil {
			return nil, err
		}
		before := len(out.Hours)
		out.Hours = append(out.Hours, rows.hours...)
		for _, c := range rows.columns {
			k, rank := m.label[s][c.name], m.rank[s][c.name]
			column := byLabel[k]
			if column == nil {
				out.Columns = append(out.Columns, k)
			}
			column = append(column, make([]uint32, len(out.Hours)-len(column))...)
			for i, id := range c.ids {
				if int(id) >= len(rank) || id != 0 && rank[id] == 0 {
					return nil, fmt.Errorf("%w: value %d of label %s in metric %s", envelope.ErrRange, id, m.names[k], metric)
				}
				if id != 0 {
					column[before+i] = rank[id]
				}
			}
			byLabel[k] = column
		}
	}
	slices.Sort(out.Columns)
	for _, k := range out.Columns {
		column := byLabel[k]
		out.Ids = append(out.Ids, append(column, make([]uint32, len(out.Hours)-len(column))...))
	}
	sortSeries(out, m.names, m.hours)
	return out, nil
}

// sortSeries orders the series by labels and joins equal ones.
func sortSeries(r *segment.MetricSeries, names []string, presences *presence.Patterns) {
	columns := memory.RankColumns{Ranks: r.Ids, Rows: len(r.Hours)}
	for _, k := range r.Columns {
		columns.Names = append(columns.Names, names[k])
	}
	order := columns.Order()
	same := func(a, b uint32) bool {
		for _, ids := range r.Ids {
			if ids[a] != ids[b] {
				return false
			}
		}
		return true
	}
	unique, hours := order[:0], make([]uint32, 0, len(order))
	for _, i := range order {
		if n := len(unique); n > 0 && same(unique[n-1], i) {
			hours[n-1] = presences.Join(hours[n-1], r.Hours[i])
			continue
		}
		unique, hours = append(unique, i), append(hours, r.Hours[i])
	}
	for c, ids := range r.Ids {
		sorted := make([]uint32, len(unique))
		for n, i := range unique {
			sorted[n] = ids[i]
		}
		r.Ids[c] = sorted
	}
	r.Hours = hours
}
