package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
	"halite/storage"
)

// query is one look-up. A reader scans the active catalogue first and the closed days afterwards, while a fold installs
// a day's segment first and clears the day's touches afterwards: whatever order they meet in, no series is missed.
type query struct {
	x        *Index
	ctx      context.Context
	from, to int64 // unix hours
	matchers []matcher
	open     []*openDay
	closed   []*closedDay
	sets     map[activeSetKey]*idSet
}

type activeSetKey struct {
	dict    *dictionary
	matcher int
}

// newQuery clips the window to what can exist; ok is false if nothing can.
func (x *Index) newQuery(ctx context.Context, mintMs, maxtMs int64, ms []*labels.Matcher) (q *query, ok bool) {
	mintMs = max(mintMs, 0, x.oldestMs())
	maxtMs = min(maxtMs, keyschema.HourCellMs(lastHour(dayMax)))
	if mintMs > maxtMs {
		return nil, false
	}
	q = &query{
		x: x, ctx: ctx, from: keyschema.HourOf(mintMs), to: min(keyschema.HourOf(maxtMs), keyschema.HourMax),
		matchers: newMatchers(ms), sets: map[activeSetKey]*idSet{},
	}
	q.open = x.open.between(dayOf(q.from), dayOf(q.to))
	return q, q.from <= q.to
}

// findClosed fixes the closed days of the window; call it after the active catalogue has been scanned.
func (q *query) findClosed() { q.closed = q.x.closed.between(dayOf(q.from), dayOf(q.to)) }

// wholeDay reports whether the window covers every hour of a day.
func (q *query) wholeDay(day int64) bool { return q.from <= firstHour(day) && q.to >= lastHour(day) }

// activeHours appends the spans in which the ref was touched on open days.
func (q *query) activeHours(spans []HourSpan, ref Ref) []HourSpan {
	for _, d := range q.open {
		spans = appendSpans(spans, d.day, d.hours(ref)&hoursWithin(d.day, q.from, q.to))
	}
	return spans
}

// touched reports whether activeHours would find any.
func (q *query) touched(ref Ref) bool {
	for _, d := range q.open {
		if d.hours(ref)&hoursWithin(d.day, q.from, q.to) != 0 {
			return true
		}
	}
	return false
}

// scanActive calls visit with the matching rows of each metric, whatever their hours. rows is reused.
func (q *query) scanActive(visit func(v *view, rows []uint32) error) error {
	tables := q.x.cat.all
	if metric, ok := metricNamed(q.matchers); ok {
		tables = func() []*table {
			if t := q.x.cat.table(metric); t != nil {
				return []*table{t}
			}
			return nil
		}
	}
	var v view
	var rows []uint32
	for i, t := range tables() {
		if i%256 == 255 && q.ctx.Err() != nil {
			return q.ctx.Err()
		}
		if !matchMetric(q.matchers, t.metric) {
			continue
		}
		v.look(t)
		var err error
		if rows, err = q.activeRows(&v, rows[:0]); err != nil {
			return err
		}
		if len(rows) > 0 {
			if err := visit(&v, rows); err != nil {
				return err
			}
		}
	}
	return q.ctx.Err()
}

// activeRows appends the rows of a table that match, ascending.
func (q *query) activeRows(v *view, rows []uint32) ([]uint32, error) {
	type columnSet struct {
		data *columnData
		set  *idSet
	}
	var sets []columnSet
	for i := range q.matchers {
		m := &q.matchers[i]
		if m.metric {
			continue
		}
		pos := v.find(m.Name)
		if pos < 0 {
			if !m.absent {
				return rows, nil
			}
			continue
		}
		set, err := q.activeSet(i, v.columns[pos].dict)
		if err != nil {
			return rows, err
		}
		if set.none() {
			return rows, nil
		}
		if !set.has(0) || set.count < int(v.columns[pos].dict.count.Load()) {
			sets = append(sets, columnSet{v.data[pos], set})
		}
	}
	if len(sets) == 0 {
		return appendRange(rows, 0, v.rows, true), nil
	}
	slices.SortStableFunc(sets, func(a, b columnSet) int { return a.set.count - b.set.count })
	rows = sets[0].data.filter(rows, 0, v.rows, sets[0].set)
	for _, s := range sets[1:] {
		rows = s.data.keep(rows, s.set)
	}
	return rows, nil
}

func (q *query) activeSet(i int, d *dictionary) (*idSet, error) {
	key := activeSetKey{d, i}
	if set := q.sets[key]; set != nil {
		return set, nil
	}
	set, err := matchActive(q.ctx, &q.matchers[i], d)
	if err == nil {
		q.sets[key] = set
	}
	return set, err
}

// staleRetriesMax is how often a day is read again because a fold replaced it; folds of a day are minutes apart.
const staleRetriesMax = 8

// scanClosed calls visit with the matching rows of each block of a day, whatever their hours. If the day is folded
// meanwhile it starts again: visit must bear to see a row twice.
func (q *query) scanClosed(d *closedDay, visit func(s *segment, b *block, rows []uint32) error) error {
	for try := 0; ; try++ {
		s, err := q.x.segment(q.ctx, d)
		if err == nil {
			err = q.scanSegment(s, visit)
		}
		if !errors.Is(err, errStale) || try == staleRetriesMax {
			return err
		}
	}
}

func (q *query) scanSegment(s *segment, visit func(s *segment, b *block, rows []uint32) error) error {
	sets := make([]*idSet, len(q.matchers)) // nil: the matcher takes every series
	for i := range q.matchers {
		var err error
		if sets[i], err = q.closedSet(s, &q.matchers[i]); err != nil {
			return err
		}
		if sets[i] != nil && sets[i].none() {
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
		blocks, err := s.load(q.ctx, numbers[:n])
		if err != nil {
			return err
		}
		for _, b := range blocks {
			rows = q.blockRows(s, b, sets, metrics, rows[:0])
			if len(rows) == 0 {
				continue
			}
			if err := visit(s, b, rows); err != nil {
				return err
			}
		}
		numbers = numbers[n:]
	}
	return nil
}

// closedSet evaluates a matcher on the day; nil means that it takes every series.
func (q *query) closedSet(s *segment, m *matcher) (*idSet, error) {
	if _, ok := s.root.name(m.Name); !ok && !m.metric {
		if m.absent {
			return nil, nil
		}
		return &idSet{}, nil
	}
	d, err := s.dict(q.ctx, m.Name)
	if err != nil {
		return nil, err
	}
	set, err := matchClosed(q.ctx, m, d)
	if err == nil && set.count == int(d.header.values) && (m.metric || set.has(0)) {
		return nil, nil
	}
	return set, err
}

// metricSet joins the matchers on the metric's name; nil means all metrics.
func (q *query) metricSet(s *segment, sets []*idSet) (*idSet, error) {
	var out *idSet
	for i := range q.matchers {
		if !q.matchers[i].metric || sets[i] == nil {
			continue
		}
		if out == nil {
			out = sets[i]
			continue
		}
		both := newIDSet(s.root.metrics)
		out.each(func(id uint32) bool {
			if sets[i].has(id) {
				both.add(id)
			}
			return true
		})
		out = both
	}
	return out, nil
}

// pruneValuesMax bounds the values whose sets of blocks are joined to leave blocks out.
const pruneValuesMax = 4096

// candidates lists the blocks that can hold matching series.
func (q *query) candidates(s *segment, sets []*idSet, metrics *idSet) ([]int, error) {
	var numbers []int
	if metrics == nil {
		for i := range s.root.blocks {
			numbers = append(numbers, i)
		}
	} else {
		metrics.each(func(id uint32) bool {
			from, to := s.root.blocksOf(id)
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
		if len(numbers) <= 1 || set == nil || q.matchers[i].metric || set.has(0) || set.count > pruneValuesMax {
			continue
		}
		d, err := s.dict(q.ctx, q.matchers[i].Name)
		if err != nil {
			return nil, err
		}
		in, seen := newIDSet(uint32(len(s.root.blocks))), map[uint32]bool{}
		set.each(func(id uint32) bool {
			err = d.blocksOf(q.ctx, id, in, seen)
			return err == nil
		})
		if err != nil {
			return nil, err
		}
		numbers = slices.DeleteFunc(numbers, func(n int) bool { return !in.has(uint32(n) + 1) })
	}
	return numbers, nil
}

// blockRows appends the rows of a block that match, ascending.
func (q *query) blockRows(s *segment, b *block, sets []*idSet, metrics *idSet, rows []uint32) []uint32 {
	type columnSet struct {
		column *packed
		set    *idSet
	}
	var columns []columnSet
	for i := range q.matchers {
		if q.matchers[i].metric || sets[i] == nil {
			continue
		}
		n, _ := s.root.name(q.matchers[i].Name)
		column := b.column(n)
		if column == nil {
			if !sets[i].has(0) {
				return rows
			}
			continue
		}
		columns = append(columns, columnSet{column, sets[i]})
	}
	slices.SortStableFunc(columns, func(a, b columnSet) int { return a.set.count - b.set.count })
	take := func(from, to uint32) {
		if len(columns) == 0 {
			rows = appendRange(rows, from, to, true)
		} else {
			rows = columns[0].column.filter(rows, from, to, columns[0].set)
		}
	}
	if metrics == nil {
		take(0, b.rows)
	} else {
		for i, m := range b.metrics {
			if metrics.has(m.metric) {
				take(m.from, b.rowsEnd(i))
			}
		}
	}
	for _, c := range columns[min(1, len(columns)):] {
		rows = c.column.keep(rows, c.set)
	}
	return rows
}

// badHours says that a row's hours are out of range.
func (s *segment) badHours(b *block, err error) error {
	return s.fault(storage.TableSeries, rootKey(s.day.day), columnQualifier(s.root.gen, 0, 0),
		fmt.Errorf("block of metric %d: %w", b.metrics[0].metric, err))
}
