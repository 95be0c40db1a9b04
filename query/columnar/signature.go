package columnar

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"halite/query/columnar/grid"
)

// signatures numbers the label sets by which the series of two operands match.
type signatures struct {
	on    bool
	names []string
	index map[string]int
	buf   []byte
}

func newSignatures(m *parser.VectorMatching) *signatures {
	s := &signatures{on: m.On, names: slices.Clone(m.MatchingLabels), index: map[string]int{}, buf: make([]byte, 0, 1024)}
	if !m.On {
		s.names = append(s.names, model.MetricNameLabel)
	}
	slices.Sort(s.names)
	return s
}

// of numbers the signature of a series; labels are as the engine has them.
func (s *signatures) of(ls labels.Labels) int {
	if s.on && len(s.names) == 1 {
		return s.ofValue(ls.Get(s.names[0]))
	}
	if s.on {
		s.buf = ls.BytesWithLabels(s.buf, s.names...)
	} else {
		s.buf = ls.BytesWithoutLabels(s.buf, s.names...)
	}
	n, found := s.index[string(s.buf)]
	if !found {
		n = len(s.index)
		s.index[string(s.buf)] = n
	}
	return n
}

// ofValue is of where one label is all that counts; it is empty if a series lacks it.
func (s *signatures) ofValue(value string) int {
	n, found := s.index[value]
	if !found {
		n = len(s.index)
		s.index[value] = n
	}
	return n
}

// at numbers the signature of series i of an operand.
func (s *signatures) at(m *matrix, i int) int {
	if m.signatures != nil {
		return m.signatures[i]
	}
	return s.of(m.series[i].Labels)
}

// operands evaluates both sides of a binary operator, with labels as the engine has them. narrow may leave series out of
// the right one once the left one is known.
func operands(ev *eval, left, right vector, narrow func(right vector, left *matrix) vector) (l, r *matrix, err error) {
	if l, err = ev.collect(left); err != nil {
		return nil, nil, err
	}
	ev.rename(l)
	if r, err = ev.collect(narrow(right, l)); err != nil {
		ev.free(l)
		return nil, nil, err
	}
	ev.rename(r)
	return l, r, nil
}

func (ev *eval) rename(m *matrix) {
	for i, s := range m.series {
		m.series[i] = ev.metric(s)
	}
}

// outputs gathers rows by labels: several pairs of operands may make up one series, at different steps.
type outputs struct {
	series []grid.Series
	rows   [][]float64
	index  map[uint64]int
	// operands is the number of series that went in.
	operands int
}

func newOutputs(left, right *matrix) *outputs {
	most := max(len(left.rows), len(right.rows)) // mostly
	return &outputs{index: make(map[uint64]int, most), operands: len(left.rows) + len(right.rows)}
}

// add adds a row, or merges it into the one with the same labels. merged tells which.
func (o *outputs) add(s grid.Series, row []float64) (merged bool, err error) {
	h := s.Labels.Hash()
	i, found := o.index[h]
	if !found {
		o.index[h] = len(o.rows)
		o.series = append(o.series, s)
		o.rows = append(o.rows, row)
		return false, nil
	}
	to := o.rows[i]
	for k, v := range row {
		if grid.IsAbsent(v) {
			continue
		}
		if !grid.IsAbsent(to[k]) {
			return true, ErrUndecided
		}
		to[k] = v
	}
	return true, nil
}

// emitAll ends an operator by handing on its rows.
func (o *outputs) emitAll(ev *eval, before int, emit emitFunc) error {
	total := 0
	for _, row := range o.rows {
		total += grid.Count(row)
	}
	// For a moment there are the operands, the result and a step of each.
	if err := ev.hold(total + 2*o.operands); err != nil {
		return err
	}
	if err := ev.settle(before, total); err != nil {
		return err
	}
	for i, row := range o.rows {
		if !grid.AnyPresent(row) {
			continue
		}
		if err := emit(o.series[i], row); err != nil {
			return err
		}
	}
	return nil
}
