package columnar

import (
	"github.com/prometheus/prometheus/model/labels"

	"halite/query/read"
	"halite/storage/index"
)

// narrowing leaves series out of a selection that can match none of the other operand.
type narrowing struct {
	sigs     *signatures
	known    int // signatures of the other operand have smaller numbers
	partners index.Partners
}

// selection selects with what is known of the other operand; n may be nil.
func (n *narrowing) selection(ev *eval, w read.Windows, matchers []*labels.Matcher) (*read.Selection, error) {
	if n != nil {
		return ev.session.SelectJoin(ev.ctx, &n.partners, w, matchers...)
	}
	return ev.session.Select(ev.ctx, w, matchers...)
}

// omit omits series that are not read yet and match no series of the other operand. It returns the number of series omitted,
// including those that were not even selected.
func (n *narrowing) omit(sel *read.Selection) int {
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

// narrowed is a selector of which only the series are read that can match a series of the other operand.
type narrowed struct {
	*instantSelector
	narrow *narrowing
}

func (n narrowed) run(ev *eval, emit emitFunc) error { return n.runNarrow(ev, emit, n.narrow) }

// narrowRight is the right operand of a binary operator, without the series that match none of the left one. unique says
// that several series of a kind on the right may be an error, whether they match or not: they are kept.
func (ev *eval) narrowRight(right vector, sigs *signatures, left *matrix, unique bool) vector {
	sel, ok := right.(*instantSelector)
	if !ok || sel.times || ev.opts.CountAll {
		return right
	}
	n := &narrowing{sigs: sigs, partners: index.Partners{On: sigs.on, Names: sigs.names, Alike: unique}}
	left.signatures = make([]int, len(left.series))
	for i, s := range left.series {
		left.signatures[i] = sigs.of(s.Labels)
		if len(sigs.index) > n.known {
			n.known = len(sigs.index)
			n.partners.Labels = append(n.partners.Labels, s.Labels)
		}
	}
	return narrowed{sel, n}
}
