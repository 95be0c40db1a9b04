package operator

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"

	"halite/query/columnar/grid"
)

// join evaluates an arithmetic operator or a comparison between two vectors.
type join struct {
	left, right Vector
	matching    *parser.VectorMatching
	op          string
	arithmetic  func(a, b float64) float64
	compare     func(a, b float64) bool
	asBool      bool
}

// filters reports whether the operator keeps or omits values instead of computing new ones.
func (n *join) filters() bool { return n.compare != nil && !n.asBool }

func (n *join) names() grid.Naming {
	for _, name := range n.matching.Include {
		if schema.IsMetadataLabel(name) {
			return grid.AnyName
		}
	}
	if n.filters() {
		return grid.AnyName
	}
	return grid.Nameless
}

func (n *join) Describe(d *Description) { d.Node("join "+n.op, n.left, n.right) }

func (n *join) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	sigs := newSignatures(n.matching)
	left, right, err := operands(ev, n.left, n.right, func(right Vector, left *Matrix) Vector {
		// Without a left side, the engine does not look for series with equal signatures.
		return ev.pushDown(right, sigs, left, n.matching.Card != parser.CardOneToMany && len(left.Series) > 0)
	})
	if err != nil {
		return err
	}
	defer ev.free(left)
	defer ev.free(right)
	out := newOutputs(left, right)
	if len(left.Series) == 0 {
		return out.emitAll(ev, before, emit)
	}
	many, one := left, right
	if n.matching.Card == parser.CardOneToMany {
		many, one = right, left
	}
	partners, err := partnersOf(sigs, one)
	if err != nil {
		return err
	}
	b := labels.NewBuilder(labels.EmptyLabels())
	matched := map[int]bool{} // signatures of series on the many side
	for i, s := range many.Series {
		if err := ev.tick(); err != nil {
			return err
		}
		sig := sigs.at(many, i)
		found := partners[sig]
		if len(found) == 0 {
			continue
		}
		if n.matching.Card == parser.CardOneToOne && n.compare != nil {
			if matched[sig] {
				return ErrUndecided // if both match at one step, the query is an error
			}
			matched[sig] = true
		}
		for j, p := range found {
			row := many.Rows[i]
			if j+1 < len(found) {
				if row, err = ev.copyRow(many, row); err != nil {
					return err
				}
			}
			n.combine(row, one.Rows[p])
			merged, err := out.add(n.result(ev, b, s, one.Series[p]), row)
			if err != nil {
				return err
			}
			if merged && n.filters() {
				return ErrUndecided
			}
		}
	}
	return out.emitAll(ev, before, emit)
}

// copyRow copies a row into memory that lives as long as m.
func (ev *Eval) copyRow(m *Matrix, row []float64) ([]float64, error) {
	bytes := int64(len(row)) * 8
	if err := ev.Budget.Reserve(bytes); err != nil {
		return nil, err
	}
	m.bytes += bytes
	own := m.arena.Row(len(row))
	copy(own, row)
	return own, nil
}

// partnersOf lists the series of the "one" side by signature. Two series with values at one step are an error in the
// engine.
func partnersOf(sigs *signatures, one *Matrix) (map[int][]int, error) {
	partners := make(map[int][]int, len(one.Series))
	for i, s := range one.Series {
		sig := sigs.intern(s.Labels)
		for _, p := range partners[sig] {
			if overlap(one.Rows[i], one.Rows[p]) {
				return nil, ErrUndecided
			}
		}
		partners[sig] = append(partners[sig], i)
	}
	return partners, nil
}

func overlap(a, b []float64) bool {
	for k := range a {
		if !grid.IsAbsent(a[k]) && !grid.IsAbsent(b[k]) {
			return true
		}
	}
	return false
}

// combine applies the operator to a row of the many side, in place.
func (n *join) combine(row, one []float64) {
	swap := n.matching.Card == parser.CardOneToMany
	for k, v := range row {
		if grid.IsAbsent(v) {
			continue
		}
		w := one[k]
		if grid.IsAbsent(w) {
			row[k] = w
			continue
		}
		a, b := v, w
		if swap {
			a, b = b, a
		}
		switch {
		case n.arithmetic != nil:
			row[k] = n.arithmetic(a, b)
		case n.asBool:
			row[k] = truth(n.compare(a, b))
		case n.compare(a, b):
			row[k] = a
		default:
			row[k] = grid.Absent()
		}
	}
}

// result returns the result series of a pair. b is scratch for its labels.
func (n *join) result(ev *Eval, b *labels.Builder, many, one grid.Series) grid.Series {
	b.Reset(many.Labels)
	if n.arithmetic != nil || n.asBool && !ev.Opts.DelayedNames {
		b.Del(model.MetricNameLabel, "__type__", "__unit__")
	}
	if n.matching.Card == parser.CardOneToOne {
		if n.matching.On {
			b.Keep(n.matching.MatchingLabels...)
		} else {
			b.Del(n.matching.MatchingLabels...)
		}
	}
	for _, name := range n.matching.Include {
		if v := one.Labels.Get(name); v != "" {
			b.Set(name, v)
		} else {
			b.Del(name)
		}
	}
	return grid.Series{Labels: b.Labels(), Dropped: n.asBool && ev.Opts.DelayedNames}
}
