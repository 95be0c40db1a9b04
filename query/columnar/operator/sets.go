package operator

import (
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/columnar/grid"
)

// set evaluates and, or, unless.
type set struct {
	left, right Vector
	matching    *parser.VectorMatching
	op          parser.ItemType
}

func (n *set) names() grid.Naming {
	if n.op != parser.LOR {
		return n.left.names()
	}
	if n.left.names() == grid.Nameless && n.right.names() == grid.Nameless {
		return grid.Nameless
	}
	return grid.AnyName
}

func (n *set) Describe(d *Description) { d.Node(n.op.String(), n.left, n.right) }

func (n *set) Run(ev *Eval, emit emitFunc) error {
	before := ev.held
	sigs := newSignatures(n.matching)
	left, right, err := operands(ev, n.left, n.right, func(right Vector, left *Matrix) Vector {
		if n.op == parser.LOR {
			return right
		}
		return ev.pushDown(right, sigs, left, false)
	})
	if err != nil {
		return err
	}
	defer ev.free(left)
	defer ev.free(right)
	out := newOutputs(left, right)
	switch n.op {
	case parser.LOR:
		present := presence(sigs, left, ev.Grid.Steps)
		filter(sigs, right, present, false)
		if err := addAll(out, left); err != nil {
			return err
		}
		err = addAll(out, right)
	case parser.LUNLESS:
		filter(sigs, left, presence(sigs, right, ev.Grid.Steps), false)
		err = addAll(out, left)
	default:
		filter(sigs, left, presence(sigs, right, ev.Grid.Steps), true)
		err = addAll(out, left)
	}
	if err != nil {
		return err
	}
	return out.emitAll(ev, before, emit)
}

// presence returns for each signature the steps at which a series has a value.
func presence(sigs *signatures, m *Matrix, steps int) map[int][]bool {
	present := make(map[int][]bool, len(m.Series))
	for i := range m.Series {
		sig := sigs.at(m, i)
		at := present[sig]
		if at == nil {
			at = make([]bool, steps)
			present[sig] = at
		}
		for k, v := range m.Rows[i] {
			at[k] = at[k] || !grid.IsAbsent(v)
		}
	}
	return present
}

// filter keeps the values of steps at which the signature is present, or, if keep is false, the values of the other steps.
func filter(sigs *signatures, m *Matrix, present map[int][]bool, keep bool) {
	for i := range m.Series {
		at := present[sigs.at(m, i)]
		row := m.Rows[i]
		for k := range row {
			if (at != nil && at[k]) != keep {
				row[k] = grid.Absent()
			}
		}
	}
}

func addAll(out *outputs, m *Matrix) error {
	for i, s := range m.Series {
		if _, err := out.add(s, m.Rows[i]); err != nil {
			return err
		}
	}
	return nil
}
