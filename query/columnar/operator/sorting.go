package operator

import (
	"math"
	"sort"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
)

// sorted is sort and sort_desc. It means something in instant queries only.
type sorted struct {
	child      Vector
	descending bool
	pos        posrange.PositionRange
}

func (n *sorted) names() grid.Naming { return n.child.names() }

func (n *sorted) Describe(d *Description) { d.Node("sort", n.child) }

func (n *sorted) Run(ev *Eval, emit emitFunc) error {
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
