package columnar

import (
	"math"
	"sort"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
)

// sorted is sort and sort_desc. It means something in instant queries only.
type sorted struct {
	child      vector
	descending bool
	pos        posrange.PositionRange
}

func (n *sorted) names() grid.Naming { return n.child.names() }

func (n *sorted) describe(d *description) { d.node("sort", n.child) }

func (n *sorted) run(ev *eval, emit emitFunc) error {
	if !ev.grid.Instant() {
		defer func() { ev.annos.Add(annotations.NewSortInRangeQueryWarning(n.pos)) }()
		return n.child.run(ev, func(s grid.Series, values []float64) error {
			if err := ev.hold(grid.Count(values) + 1); err != nil { // the engine copies them
				return err
			}
			return emit(s, values)
		})
	}
	all, err := ev.collect(n.child)
	if err != nil {
		return err
	}
	defer ev.free(all)
	if err := ev.hold(2 * len(all.rows)); err != nil {
		return err
	}
	sort.Sort(sort.Reverse(byValue{all, !n.descending}))
	for i, s := range all.series {
		if err := emit(s, all.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// byValue orders series by their first value, NaN first.
type byValue struct {
	*matrix
	reverse bool
}

func (m byValue) Len() int { return len(m.rows) }

func (m byValue) Swap(i, j int) {
	m.rows[i], m.rows[j] = m.rows[j], m.rows[i]
	m.series[i], m.series[j] = m.series[j], m.series[i]
}

func (m byValue) Less(i, j int) bool {
	a, b := m.rows[i][0], m.rows[j][0]
	if math.IsNaN(a) {
		return true
	}
	if m.reverse {
		return a > b
	}
	return a < b
}
