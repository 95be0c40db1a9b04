package operator

import (
	"halite/query/read"
	"halite/storage/index"
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
func (s *signatures) at(m *Matrix, i int) int {
	if m.signatures != nil {
		return m.signatures[i]
	}
	return s.of(m.Series[i].Labels)
}

// operands evaluates both sides of a binary operator, with labels as the engine has them. narrow may leave series out of
// the right one once the left one is known.
func operands(ev *Eval, left, right Vector, pushdown func(right Vector, left *Matrix) Vector) (l, r *Matrix, err error) {
	if l, err = ev.Collect(left); err != nil {
		return nil, nil, err
	}
	ev.rename(l)
	if r, err = ev.Collect(pushdown(right, l)); err != nil {
		ev.free(l)
		return nil, nil, err
	}
	ev.rename(r)
	return l, r, nil
}

func (ev *Eval) rename(m *Matrix) {
	for i, s := range m.Series {
		m.Series[i] = ev.Metric(s)
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

func newOutputs(left, right *Matrix) *outputs {
	most := max(len(left.Rows), len(right.Rows)) // mostly
	return &outputs{index: make(map[uint64]int, most), operands: len(left.Rows) + len(right.Rows)}
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
func (o *outputs) emitAll(ev *Eval, before int, emit emitFunc) error {
	total := 0
	for _, row := range o.rows {
		total += grid.Count(row)
	}
	// For a moment there are the operands, the result and a step of each.
	if err := ev.account(total + 2*o.operands); err != nil {
		return err
	}
	if err := ev.replace(before, total); err != nil {
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

// joinPushdown leaves series out of a selection that can match none of the other operand.
type joinPushdown struct {
	sigs     *signatures
	known    int // signatures of the other operand have smaller numbers
	partners index.JoinKeys
}

// selection selects with what is known of the other operand; n may be nil.
func (n *joinPushdown) selection(ev *Eval, w read.Windows, matchers []*labels.Matcher) (*read.Selection, error) {
	if n != nil {
		return ev.Session.SelectJoin(ev.Context, &n.partners, w, matchers...)
	}
	return ev.Session.Select(ev.Context, w, matchers...)
}

// omit omits series that are not read yet and match no series of the other operand. It returns the number of series omitted,
// including those that were not even selected.
func (n *joinPushdown) omit(sel *read.Selection) int {
	all := make([]int, sel.Len())
	counts := map[int]int{}
	omitted := 0
	for i := range all {
		all[i] = n.sigs.of(sel.Labels(i))
		counts[all[i]]++
	}
	keep := func(i int) bool { return all[i] < n.known || n.partners.Alike && counts[all[i]] > 1 }
	for i := range all {
		if !keep(i) {
			omitted++
		}
	}
	if omitted > 0 {
		sel.Keep(keep)
	}
	return omitted + sel.Omitted()
}

// pushedSelector is a selector of which only the series are read that can match a series of the other operand.
type pushedSelector struct {
	*instantSelector
	pushdown *joinPushdown
}

func (n pushedSelector) Run(ev *Eval, emit emitFunc) error {
	return n.runPushdown(ev, emit, n.pushdown)
}

// pushDown is the right operand of a binary operator, without the series that match none of the left one. unique says
// that several series of a kind on the right may be an error, whether they match or not: they are kept.
func (ev *Eval) pushDown(right Vector, sigs *signatures, left *Matrix, unique bool) Vector {
	sel, ok := right.(*instantSelector)
	if !ok || sel.times || ev.Opts.CountAll {
		return right
	}
	n := &joinPushdown{sigs: sigs, partners: index.JoinKeys{On: sigs.on, Names: sigs.names, Alike: unique}}
	left.signatures = make([]int, len(left.Series))
	for i, s := range left.Series {
		left.signatures[i] = sigs.of(s.Labels)
		if len(sigs.index) > n.known {
			n.known = len(sigs.index)
			n.partners.Labels = append(n.partners.Labels, s.Labels)
		}
	}
	return pushedSelector{sel, n}
}
