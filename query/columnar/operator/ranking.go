package operator

import (
	"container/heap"
	"math"
	"slices"
	"sort"
	"unsafe"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
)

// topK is topk and bottomk: a heap of the k best for each group and step.
type topK struct {
	grouping
	op     string
	bottom bool
	k      int64
	child  Vector
}

// names returns the naming of the operand, which keeps its names.
func (n *topK) names() grid.Naming { return n.child.names() }

func (n *topK) Describe(d *Description) { d.Node("aggregate "+n.op+n.text, n.child) }

// rankingEntry is a value of a series.
type rankingEntry struct {
	value  float64
	series int32
}

// ranking is a heap with the worst value on top. NaN is worse than any number.
type ranking struct {
	entries []rankingEntry
	bottom  bool
}

func (r *ranking) Len() int      { return len(r.entries) }
func (r *ranking) Swap(i, j int) { r.entries[i], r.entries[j] = r.entries[j], r.entries[i] }
func (r *ranking) Push(any)      {}
func (r *ranking) Pop() any      { return nil }

func (r *ranking) Less(i, j int) bool {
	a, b := r.entries[i].value, r.entries[j].value
	if math.IsNaN(a) {
		return true
	}
	if r.bottom {
		return a > b
	}
	return a < b
}

// offer adds an entry if it is among the k best. The heap moves entries like the engine's heap, so it keeps the same ones
// among equal values.
func (r *ranking) offer(e rankingEntry, k int64) (grown bool) {
	if int64(len(r.entries)) < k {
		if len(r.entries) == cap(r.entries) {
			// Doubling would need several allocations for the usual k at each step of the query.
			r.entries = slices.Grow(r.entries, int(min(k-int64(len(r.entries)), 1+4*int64(len(r.entries)))))
		}
		r.entries = append(r.entries, e)
		heap.Fix(r, len(r.entries)-1)
		return true
	}
	worst := r.entries[0].value
	better := worst < e.value
	if r.bottom {
		better = worst > e.value
	}
	if better || math.IsNaN(worst) && !math.IsNaN(e.value) {
		r.entries[0] = e
		if k > 1 {
			heap.Fix(r, 0)
		}
	}
	return false
}

// Memory of an entry, and of the ranking of a step.
const (
	rankingEntryBytes = int64(unsafe.Sizeof(rankingEntry{}))
	rankingBytes      = int64(unsafe.Sizeof(ranking{}))
)

func (n *topK) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	if err := ev.account(ev.Grid.Steps); err != nil { // the parameter
		return err
	}
	if n.k < 1 {
		// The operand is still evaluated, because it may annotate.
		if err := n.child.Run(ev, func(grid.Series, []float64) error { return nil }); err != nil {
			return err
		}
		return ev.replace(before, 0)
	}
	entries, bytes := 0, int64(0)
	defer func() { ev.Budget.Release(bytes) }()
	var series []grid.Series
	gs := newGroups(n.grouping, func(grid.Series) ([]ranking, error) {
		size := int64(ev.Grid.Steps) * rankingBytes
		if err := ev.Budget.Reserve(size); err != nil {
			return nil, err
		}
		bytes += size
		steps := make([]ranking, ev.Grid.Steps)
		for k := range steps {
			steps[k].bottom = n.bottom
		}
		return steps, nil
	})
	err := n.child.Run(ev, func(s grid.Series, values []float64) error {
		g, err := gs.find(ev, s)
		if err != nil {
			return err
		}
		grown := 0
		for k, v := range values {
			if !grid.IsAbsent(v) && (*g)[k].offer(rankingEntry{v, int32(len(series))}, n.k) {
				grown++
			}
		}
		series = append(series, s)
		size := int64(grown) * rankingEntryBytes
		if err := ev.Budget.Reserve(size); err != nil {
			return err
		}
		entries, bytes = entries+grown, bytes+size
		return nil
	})
	if err != nil {
		return err
	}
	if err := ev.replace(before, entries); err != nil {
		return err
	}
	if ev.Grid.Instant() {
		return n.emitInOrder(series, gs.list, emit)
	}
	return n.emitSeries(ev, series, gs.list, emit)
}

// emitInOrder emits the series of one step, best first in each group.
func (n *topK) emitInOrder(series []grid.Series, groups [][]ranking, emit emitFunc) error {
	row := make([]float64, 1)
	for _, steps := range groups {
		r := &steps[0]
		if r.Len() > 1 {
			sort.Sort(sort.Reverse(r))
		}
		for _, e := range r.entries {
			row[0] = e.value
			if err := emit(series[e.series].Whole(), row); err != nil {
				return err
			}
		}
	}
	return nil
}

// emitSeries emits each series that is among the best at any step.
func (n *topK) emitSeries(ev *Eval, series []grid.Series, groups [][]ranking, emit emitFunc) error {
	type point struct {
		value float64
		step  int32
	}
	ends := make([]int, len(series)) // ends of the points of each series; at first their number
	var order []int32
	for _, steps := range groups {
		for k := range steps {
			for _, e := range steps[k].entries {
				if ends[e.series] == 0 {
					order = append(order, e.series)
				}
				ends[e.series]++
			}
		}
	}
	total := 0
	for _, i := range order {
		ends[i], total = total, total+ends[i]
	}
	points := make([]point, total)
	for _, steps := range groups {
		for k := range steps {
			for _, e := range steps[k].entries {
				points[ends[e.series]] = point{e.value, int32(k)}
				ends[e.series]++
			}
		}
	}
	row := make([]float64, ev.Grid.Steps)
	from := 0
	for _, i := range order {
		grid.ClearRow(row)
		for _, p := range points[from:ends[i]] {
			row[p.step] = p.value
		}
		from = ends[i]
		if err := emit(series[i].Whole(), row); err != nil {
			return err
		}
	}
	return nil
}

// sortFunction is sort and sort_desc. It orders the series only in instant queries.
type sortFunction struct {
	child      Vector
	descending bool
	pos        posrange.PositionRange
}

func (n *sortFunction) names() grid.Naming { return n.child.names() }

func (n *sortFunction) Describe(d *Description) { d.Node("sort", n.child) }

func (n *sortFunction) Run(ev *Eval, emit emitFunc) error {
	if !ev.Grid.Instant() {
		defer func() { ev.Annotations.Add(annotations.NewSortInRangeQueryWarning(n.pos)) }()
		return n.child.Run(ev, func(s grid.Series, values []float64) error {
			if err := ev.account(grid.Count(values) + 1); err != nil { // the engine copies them
				return err
			}
			return emit(s, values)
		})
	}
	all, err := ev.Collect(n.child)
	if err != nil {
		return err
	}
	defer ev.free(all)
	if err := ev.account(2 * len(all.Rows)); err != nil {
		return err
	}
	sort.Sort(sort.Reverse(byValue{all, !n.descending}))
	for i, s := range all.Series {
		if err := emit(s, all.Rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// byValue orders series by their first value, NaN first.
type byValue struct {
	*Matrix
	reverse bool
}

func (m byValue) Len() int { return len(m.Rows) }

func (m byValue) Swap(i, j int) {
	m.Rows[i], m.Rows[j] = m.Rows[j], m.Rows[i]
	m.Series[i], m.Series[j] = m.Series[j], m.Series[i]
}

func (m byValue) Less(i, j int) bool {
	a, b := m.Rows[i][0], m.Rows[j][0]
	if math.IsNaN(a) {
		return true
	}
	if m.reverse {
		return a > b
	}
	return a < b
}

// limitK is limitk: the first k series of each group that have a value at a step.
type limitK struct {
	grouping
	k     int64
	child Vector
}

// names returns the naming of the operand, which keeps its names.
func (n *limitK) names() grid.Naming { return n.child.names() }

func (n *limitK) Describe(d *Description) { d.Node("aggregate limitk"+n.text, n.child) }

func (n *limitK) Run(ev *Eval, emit emitFunc) error {
	if err := ev.account(ev.Grid.Steps); err != nil { // the parameter
		return err
	}
	bytes := int64(0)
	defer func() { ev.Budget.Release(bytes) }()
	gs := newGroups(n.grouping, func(grid.Series) ([]int64, error) {
		size := int64(ev.Grid.Steps * 8)
		if err := ev.Budget.Reserve(size); err != nil {
			return nil, err
		}
		bytes += size
		return make([]int64, ev.Grid.Steps), nil // number of series so far at each step
	})
	row := make([]float64, ev.Grid.Steps)
	return n.child.Run(ev, func(s grid.Series, values []float64) error {
		came, err := gs.find(ev, s)
		if err != nil {
			return err
		}
		kept := 0
		for k, v := range values {
			row[k] = grid.Absent()
			if !grid.IsAbsent(v) && (*came)[k] < n.k {
				(*came)[k]++
				row[k] = v
				kept++
			}
		}
		if kept == 0 {
			return nil
		}
		if err := ev.account(kept); err != nil {
			return err
		}
		return emit(s.Whole(), row)
	})
}
