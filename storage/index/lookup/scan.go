package lookup

import (
	"slices"

	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// scanSegment calls visit with the matching rows of each block of a segment. It does not check hours.
func (q *query) scanSegment(s *segment.Segment, visit func(s *segment.Segment, b *segment.Block, rows []uint32) error) error {
	sets := make([]*valueid.Set, len(q.matchers)) // nil: the matcher accepts every series
	for i := range q.matchers {
		var err error
		if sets[i], err = q.closedSet(s, &q.matchers[i]); err != nil {
			return err
		}
		if sets[i] != nil && sets[i].Empty() {
			return nil
		}
	}
	metrics, err := q.metricSet(s, sets)
	if err != nil {
		return err
	}
	numbers, err := q.candidates(s, sets, metrics)
	if err != nil {
		return err
	}
	const batch = 64
	var rows []uint32
	for len(numbers) > 0 {
		if err := q.ctx.Err(); err != nil {
			return err
		}
		n := min(batch, len(numbers))
		blocks, err := s.Blocks(q.ctx, numbers[:n])
		if err != nil {
			return err
		}
		q.work.Blocks += len(blocks)
		for _, b := range blocks {
			q.work.Tested += int64(b.Rows)
			rows = q.blockRows(s, b, sets, metrics, rows[:0])
			q.work.Matched += int64(len(rows))
			if len(rows) == 0 {
				continue
			}
			if err := q.visitRetained(s, b, rows, visit); err != nil {
				return err
			}
		}
		numbers = numbers[n:]
	}
	return nil
}

// closedSet evaluates a matcher on the partition. It returns nil if the matcher accepts every series.
func (q *query) closedSet(s *segment.Segment, m *matcher) (*valueid.Set, error) {
	if _, ok := s.Manifest.Name(m.Name); !ok && !m.metric {
		if m.absent {
			return nil, nil
		}
		return &valueid.Set{}, nil
	}
	d, err := s.Dict(q.ctx, m.Name)
	if err != nil {
		return nil, err
	}
	set, err := matchClosed(q.ctx, m, d, &q.work)
	if err == nil && set.Count == int(d.Header.Values) && (m.metric || set.Has(0)) {
		return nil, nil
	}
	return set, err
}

// metricSet intersects the matchers on the metric's name; nil means all metrics.
func (q *query) metricSet(s *segment.Segment, sets []*valueid.Set) (*valueid.Set, error) {
	var out *valueid.Set
	for i := range q.matchers {
		if !q.matchers[i].metric || sets[i] == nil {
			continue
		}
		if out == nil {
			out = sets[i]
			continue
		}
		both := valueid.NewSet(s.Manifest.Metrics)
		out.ForEach(func(id uint32) bool {
			if sets[i].Has(id) {
				both.Add(id)
			}
			return true
		})
		out = both
	}
	return out, nil
}

// pruneValuesMax bounds the values whose sets of blocks are joined to skip blocks.
const pruneValuesMax = 4096

// candidates lists the blocks that may hold matching series.
func (q *query) candidates(s *segment.Segment, sets []*valueid.Set, metrics *valueid.Set) ([]int, error) {
	var numbers []int
	if metrics == nil {
		for i := range s.Manifest.Blocks {
			numbers = append(numbers, i)
		}
	} else {
		metrics.ForEach(func(id uint32) bool {
			from, to := s.Manifest.BlocksOf(id)
			for n := from; n < to; n++ {
				if len(numbers) == 0 || numbers[len(numbers)-1] < n {
					numbers = append(numbers, n)
				}
			}
			return true
		})
	}
	for i := range q.matchers {
		set := sets[i]
		if len(numbers) <= 1 || set == nil || q.matchers[i].metric || set.Has(0) || set.Count > pruneValuesMax {
			continue
		}
		d, err := s.Dict(q.ctx, q.matchers[i].Name)
		if err != nil {
			return nil, err
		}
		in, seen := valueid.NewSet(uint32(len(s.Manifest.Blocks))), map[uint32]bool{}
		set.ForEach(func(id uint32) bool {
			err = d.BlocksOf(q.ctx, id, in, seen)
			return err == nil
		})
		if err != nil {
			return nil, err
		}
		numbers = slices.DeleteFunc(numbers, func(n int) bool { return !in.Has(uint32(n) + 1) })
	}
	return numbers, nil
}

// blockRows appends the rows of a block that match, ascending.
func (q *query) blockRows(s *segment.Segment, b *segment.Block, sets []*valueid.Set, metrics *valueid.Set,
	rows []uint32) []uint32 {
	type columnSet struct {
		column *valueid.Column
		set    *valueid.Set
	}
	var columns []columnSet
	for i := range q.matchers {
		if q.matchers[i].metric || sets[i] == nil {
			continue
		}
		n, _ := s.Manifest.Name(q.matchers[i].Name)
		column := b.Column(n)
		if column == nil {
			if !sets[i].Has(0) {
				return rows
			}
			continue
		}
		columns = append(columns, columnSet{column, sets[i]})
	}
	slices.SortStableFunc(columns, func(a, b columnSet) int { return a.set.Count - b.set.Count })
	add := func(from, to uint32) {
		if len(columns) == 0 {
			rows = valueid.AppendRange(rows, from, to)
		} else {
			rows = columns[0].column.Filter(rows, from, to, columns[0].set)
		}
	}
	if metrics == nil {
		add(0, b.Rows)
	} else {
		for i, m := range b.Metrics {
			if metrics.Has(m.Metric) {
				add(m.From, b.RowsEnd(i))
			}
		}
	}
	for _, c := range columns[min(1, len(columns)):] {
		rows = c.column.Keep(rows, c.set)
	}
	return rows
}
