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

// intern returns the number of a signature. ls are the labels that the series has in the engine.
func (s *signatures) intern(ls labels.Labels) int {
	if s.on && len(s.names) == 1 {
		return s.number(ls.Get(s.names[0])) // empty if the series lacks the label
	}
	if s.on {
		s.buf = ls.BytesWithLabels(s.buf, s.names...)
	} else {
		s.buf = ls.BytesWithoutLabels(s.buf, s.names...)
	}
	if n, found := s.index[string(s.buf)]; found { // without an allocation
		return n
	}
	return s.number(string(s.buf))
}

// number returns the number of an encoded signature, and numbers a new one.
func (s *signatures) number(key string) int {
	n, found := s.index[key]
	if !found {
		n = len(s.index)
		s.index[key] = n
	}
	return n
}

// at returns the number of the signature of series i of an operand.
func (s *signatures) at(m *Matrix, i int) int {
	if m.signatures != nil {
		return m.signatures[i]
	}
	return s.intern(m.Series[i].Labels)
}

// operands evaluates both sides of a binary operator, with the labels of the engine. After the left side, pushdown may
// omit series of the right side.
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

// outputs collects rows by labels. Several pairs of operands may form one series, at different steps.
type outputs struct {
	series []grid.Series
	rows   [][]float64
	index  map[uint64]int
	// operands is the number of series of both operands.
	operands int
}

func newOutputs(left, right *Matrix) *outputs {
	most := max(len(left.Rows), len(right.Rows)) // usually enough
	return &outputs{
		series: make([]grid.Series, 0, most), rows: make([][]float64, 0, most), index: make(map[uint64]int, most),
		operands: len(left.Rows) + len(right.Rows),
	}
}

// add adds a row, or merges it into the row with the same labels and returns merged.
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

// emitAll ends an operator and emits its rows.
func (o *outputs) emitAll(ev *Eval, before int, emit emitFunc) error {
	total := 0
	for _, row := range o.rows {
		total += grid.Count(row)
	}
	// The engine holds the operands, the result and one step of each operand at once.
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

// joinPushdown omits the series of a selection that cannot match a series of the other operand.
type joinPushdown struct {
	sigs     *signatures
	known    int // number of signatures of the other operand, which have the lowest numbers
	partners index.JoinKeys
}

// selection selects the series that can match the other operand, or all series if n is nil.
func (n *joinPushdown) selection(ev *Eval, w read.Windows, matchers []*labels.Matcher) (*read.Selection, error) {
	if n != nil {
		return ev.Session.SelectJoin(ev.Context, &n.partners, w, matchers...)
	}
	return ev.Session.Select(ev.Context, w, matchers...)
}

// omit omits series that match no series of the other operand, before they are read. It returns the number of omitted
// series, including series that the index did not select.
func (n *joinPushdown) omit(sel *read.Selection) int {
	all := make([]int, sel.Len())
	counts := map[int]int{}
	omitted := 0
	for i := range all {
		all[i] = n.sigs.intern(sel.Labels(i))
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

// pushedSelector is a selector that reads only series that can match a series of the other operand.
type pushedSelector struct {
	*instantSelector
	pushdown *joinPushdown
}

func (n pushedSelector) Run(ev *Eval, emit emitFunc) error {
	return n.runPushdown(ev, emit, n.pushdown)
}

// pushDown returns the right operand without series that match no series of the left one. If unique is set, it keeps several
// series with equal signatures on the right, because they may be an error whether they match or not.
func (ev *Eval) pushDown(right Vector, sigs *signatures, left *Matrix, unique bool) Vector {
	sel, ok := right.(*instantSelector)
	if !ok || sel.times || ev.Opts.CountAll {
		return right
	}
	n := &joinPushdown{sigs: sigs, partners: index.JoinKeys{On: sigs.on, Names: sigs.names, Alike: unique}}
	left.signatures = make([]int, len(left.Series))
	for i, s := range left.Series {
		left.signatures[i] = sigs.intern(s.Labels)
		if len(sigs.index) > n.known {
			n.known = len(sigs.index)
			n.partners.Labels = append(n.partners.Labels, s.Labels)
		}
	}
	return pushedSelector{sel, n}
}
