package operator

import (
	"errors"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/budget"
	"halite/query/columnar/accumulate"
	"halite/query/columnar/grid"
	"halite/query/columnar/window"
)

// grouping assigns series to groups by some of their labels.
type grouping struct {
	without bool
	labels  []string // sorted
	// bare replaces labels for series whose name was dropped without rewriting their labels.
	bare []string
	text string
}

func newGrouping(e *parser.AggregateExpr) grouping {
	g := grouping{without: e.Without, labels: slices.Clone(e.Grouping)}
	slices.Sort(g.labels)
	if g.without {
		g.bare = append(slices.Clone(g.labels), "__name__", "__type__", "__unit__")
		slices.Sort(g.bare)
		g.bare = slices.Compact(g.bare)
	} else {
		g.bare = slices.DeleteFunc(slices.Clone(g.labels), schema.IsMetadataLabel)
	}
	return g
}

// names returns the naming of the result. Only "by" with the metric's name, type or unit keeps names.
func (g grouping) names() grid.Naming {
	if !g.without && len(g.bare) < len(g.labels) {
		return grid.AnyName
	}
	return grid.Nameless
}

func (g grouping) labelsFor(ev *Eval, s grid.Series) []string {
	if s.Dropped && !ev.Opts.DelayedNames {
		return g.bare
	}
	return g.labels
}

// key returns the hash of the group of a series.
func (g grouping) key(ev *Eval, s grid.Series, buf []byte) (uint64, []byte) {
	names := g.labelsFor(ev, s)
	switch {
	case g.without:
		return s.Labels.HashWithoutLabels(buf, names...)
	case len(names) == 0:
		return 0, buf
	}
	return s.Labels.HashForLabels(buf, names...)
}

// result returns the labels of the group of a series.
func (g grouping) result(ev *Eval, s grid.Series) labels.Labels {
	names := g.labelsFor(ev, s)
	if !g.without && len(names) == 0 {
		return labels.EmptyLabels()
	}
	if ev.builder == nil {
		ev.builder = labels.NewBuilder(labels.EmptyLabels())
	}
	b := ev.builder
	b.Reset(s.Labels)
	if g.without {
		b.Del(names...)
		b.Del(model.MetricNameLabel)
	} else {
		b.Keep(names...)
	}
	return b.Labels()
}

// groups finds the group of each series. Groups keep the order of their first series.
type groups[T any] struct {
	grouping
	index map[uint64]int
	// numbered maps the number of a series' labels to its group plus one.
	numbered []int
	buf      []byte
	list     []T
	create   func(s grid.Series) (T, error)
}

func newGroups[T any](g grouping, create func(s grid.Series) (T, error)) *groups[T] {
	all := &groups[T]{grouping: g, index: map[uint64]int{}, create: create}
	if g.without || len(g.labels) > 0 {
		all.buf = make([]byte, 0, 1024)
	}
	return all
}

func (g *groups[T]) find(ev *Eval, s grid.Series) (*T, error) {
	if n := int(s.Group); n < len(g.numbered) && g.numbered[n] > 0 {
		return &g.list[g.numbered[n]-1], nil
	}
	var key uint64
	key, g.buf = g.key(ev, s, g.buf)
	i, ok := g.index[key]
	if !ok {
		created, err := g.create(s)
		if err != nil {
			return nil, err
		}
		i = len(g.list)
		g.list = append(g.list, created)
		g.index[key] = i
	}
	if s.Group > 0 {
		g.number(int(s.Group), i)
	}
	return &g.list[i], nil
}

// number records the group of all series whose labels have the given number.
func (g *groups[T]) number(n, group int) {
	if n >= len(g.numbered) {
		g.numbered = append(g.numbered, make([]int, n+1-len(g.numbered))...)
	}
	g.numbered[n] = group + 1
}

// aggregate is an aggregation with an accumulator for each group and step.
type aggregate struct {
	grouping
	op    string
	child Vector
	accumulate.Function
}

func (n *aggregate) Describe(d *Description) { d.Node("aggregate "+n.op+n.text, n.child) }

// accumulator is a group and its state.
type accumulator struct {
	accumulate.State
	series   grid.Series
	lastStep int // last step with a value, for delayed names
}

func (n *aggregate) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	bytes := int64(0)
	rows := grid.Arena{Memory: ev.Opts.Memory}
	defer func() {
		ev.Budget.Release(bytes)
		rows.Release()
	}()
	all := newGroups(n.grouping, func(s grid.Series) (accumulator, error) {
		size := int64(ev.Grid.Steps*n.Columns*8 + seriesBytes)
		if err := ev.Budget.Reserve(size); err != nil {
			return accumulator{}, err
		}
		bytes += size
		return n.accumulator(ev, s, &rows), nil
	})
	err := n.runChild(ev, func(s grid.Series, values []float64) error {
		g, err := all.find(ev, s)
		if err != nil {
			return err
		}
		n.Add(&g.State, values)
		if ev.Opts.DelayedNames {
			g.delayDrop(s, values)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.finishAll(ev, all.list, before, emit)
}

// runChild runs the operand. A selector of any metric may have more series than the memory holds. If the order of the summands
// does not matter, runChild runs such a selector metric by metric.
func (n *aggregate) runChild(ev *Eval, emit emitFunc) error {
	s, ok := n.child.(*instantSelector)
	if !ok || s.times || s.names() != grid.AnyName || ev.Opts.DelayedNames || n.op != "count" && n.op != "group" {
		return n.child.Run(ev, emit)
	}
	if !slices.ContainsFunc(s.matchers, func(m *labels.Matcher) bool { return m.Name != model.MetricNameLabel }) {
		return s.runByMetric(ev, emit)
	}
	emitted := false
	err := s.Run(ev, func(s grid.Series, values []float64) error {
		emitted = true
		return emit(s, values)
	})
	var limit *budget.LimitError
	if !emitted && errors.As(err, &limit) {
		return s.runByMetric(ev, emit)
	}
	return err
}

func (n *aggregate) accumulator(ev *Eval, s grid.Series, rows *grid.Arena) accumulator {
	steps := ev.Grid.Steps
	return accumulator{
		State:  n.NewState(rows.Row(steps*n.Columns), steps),
		series: grid.Series{Labels: n.result(ev, s)}, lastStep: -1,
	}
}

// finishAll emits the groups in order.
func (n *aggregate) finishAll(ev *Eval, list []accumulator, before int, emit emitFunc) error {
	result := 0
	for i := range list {
		result += grid.Count(list[i].Values)
	}
	if err := ev.replace(before, result); err != nil {
		return err
	}
	for i := range list {
		if err := ev.tick(); err != nil {
			return err
		}
		if n.Finish != nil {
			n.Finish(&list[i].State)
		}
		if err := emit(list[i].series, list[i].Values); err != nil {
			return err
		}
	}
	return nil
}

// delayDrop marks the group's name to be dropped if a series with a value at the group's last step drops its name.
func (g *accumulator) delayDrop(s grid.Series, values []float64) {
	last := len(values) - 1
	for grid.IsAbsent(values[last]) {
		last--
	}
	switch {
	case last > g.lastStep:
		g.lastStep, g.series.Dropped = last, s.Dropped
	case last == g.lastStep:
		g.series.Dropped = g.series.Dropped || s.Dropped
	}
}

// quantileOf is the quantile aggregation, which must keep all values.
type quantileOf struct {
	grouping
	child Vector
	q     float64
	pos   posrange.PositionRange
}

func (n *quantileOf) Describe(d *Description) { d.Node("aggregate quantile"+n.text, n.child) }

// memberGroup is a group and the numbers of its series.
type memberGroup struct {
	accumulator
	members []int
}

func (n *quantileOf) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	if err := ev.account(ev.Grid.Steps); err != nil { // the parameter
		return err
	}
	all, err := ev.Collect(n.child)
	if err != nil {
		return err
	}
	defer ev.free(all)
	if window.BadQuantile(n.q) {
		ev.Annotations.Add(annotations.NewInvalidQuantileWarning(n.q, n.pos))
	}
	gs := newGroups(n.grouping, func(s grid.Series) (memberGroup, error) {
		return memberGroup{accumulator: accumulator{series: grid.Series{Labels: n.result(ev, s)}, lastStep: -1}}, nil
	})
	for i, s := range all.Series {
		g, err := gs.find(ev, s)
		if err != nil {
			return err
		}
		g.members = append(g.members, i)
		if ev.Opts.DelayedNames {
			g.delayDrop(s, all.Rows[i])
		}
	}
	return n.emitAll(ev, all, gs.list, before, emit)
}

func (n *quantileOf) emitAll(ev *Eval, all *Matrix, list []memberGroup, before int, emit emitFunc) error {
	if err := ev.replace(before, 0); err != nil {
		return err
	}
	row := make([]float64, ev.Grid.Steps)
	var values []float64
	for _, g := range list {
		present := 0
		if err := ev.tick(); err != nil {
			return err
		}
		for k := range row {
			values = values[:0]
			for _, i := range g.members {
				if v := all.Rows[i][k]; !grid.IsAbsent(v) {
					values = append(values, v)
				}
			}
			row[k] = grid.Absent()
			if len(values) > 0 {
				row[k] = window.Quantile(n.q, values)
				present++
			}
		}
		if err := ev.account(present); err != nil {
			return err
		}
		if err := emit(g.series, row); err != nil {
			return err
		}
	}
	return nil
}

// countValues is count_values: a series for each value in a group, with the number of series that have the value.
type countValues struct {
	grouping // without the label
	label    string
	child    Vector
}

// countValues compiles count_values. It leaves special labels to the engine.
func (c Compiler) countValues(e *parser.AggregateExpr) Vector {
	label, ok := text(e.Param)
	if !ok || !model.UTF8Validation.IsValidLabelName(label) || schema.IsMetadataLabel(label) ||
		e.Without && slices.Contains(e.Grouping, label) {
		return nil
	}
	child := c.Vector(e.Expr)
	if child == nil {
		return nil
	}
	rest := *e
	if e.Without {
		rest.Grouping = append(slices.Clone(e.Grouping), label)
	} else {
		rest.Grouping = slices.DeleteFunc(slices.Clone(e.Grouping), func(name string) bool { return name == label })
	}
	g := newGrouping(&rest)
	g.text = groupingText(e)
	if p, ok := child.(partial); ok && !g.without {
		p.need(append([]string{}, g.labels...))
	}
	return &countValues{grouping: g, label: label, child: child}
}

func (n *countValues) Describe(d *Description) { d.Node("aggregate count_values"+n.text, n.child) }

func (n *countValues) Run(ev *Eval, emit emitFunc) error {
	if ev.Opts.DelayedNames {
		return ErrUndecided
	}
	before := ev.held
	all, err := ev.Collect(n.child)
	if err != nil {
		return err
	}
	defer ev.free(all)
	gs := newGroups(n.grouping, func(s grid.Series) (memberGroup, error) {
		return memberGroup{accumulator: accumulator{series: grid.Series{Labels: n.result(ev, s)}}}, nil
	})
	for i, s := range all.Series {
		g, err := gs.find(ev, s)
		if err != nil {
			return err
		}
		g.members = append(g.members, i)
	}
	if err := ev.replace(before, 0); err != nil {
		return err
	}
	for _, g := range gs.list {
		if err := n.emitGroup(ev, all, &g, emit); err != nil {
			return err
		}
	}
	return nil
}

// emitGroup counts the values of a group and emits the counts.
func (n *countValues) emitGroup(ev *Eval, all *Matrix, g *memberGroup, emit emitFunc) error {
	var counts accumulate.ValueCounts
	numbers := make([]int, len(g.members)) // by series: the number of its last value
	bytes := int64(0)
	defer func() { ev.Budget.Release(bytes) }()
	for k := range ev.Grid.Steps {
		if err := ev.tick(); err != nil {
			return err
		}
		for i, member := range g.members {
			if v := all.Rows[member][k]; !grid.IsAbsent(v) {
				numbers[i] = counts.Add(k, v, numbers[i])
			}
		}
		more := counts.Bytes() - bytes
		if err := ev.Budget.Reserve(more); err != nil {
			return err
		}
		bytes += more
	}
	if err := ev.account(counts.Points()); err != nil {
		return err
	}
	row := make([]float64, ev.Grid.Steps)
	b := labels.NewBuilder(g.series.Labels)
	for i, v := range counts.Values {
		if err := ev.tick(); err != nil {
			return err
		}
		counts.Row(i, row)
		b.Reset(g.series.Labels)
		b.Set(n.label, strconv.FormatFloat(v, 'f', -1, 64))
		if err := emit(grid.Series{Labels: b.Labels()}, row); err != nil {
			return err
		}
	}
	return nil
}
