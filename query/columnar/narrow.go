package columnar

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"halite/query/promql"
	"halite/storage/index"
)

// narrowing leaves series out of a selection that can match none of the other operand.
type narrowing struct {
	sigs     *signatures
	known    int // signatures of the other operand have smaller numbers
	partners index.Partners
}

// partnered is a Session that finds only series with partners, as far as it can tell.
type partnered interface {
	SelectPartners(ctx context.Context, p *index.Partners, w promql.Windows, matchers ...*labels.Matcher) (Selection, error)
}

// narrowable is a Selection that can leave series out, and may have left some out before.
type narrowable interface {
	Keep(keep func(i int) bool)
	Left() int
}

// selection selects with what is known of the other operand; n may be nil.
func (n *narrowing) selection(ev *eval, w promql.Windows, matchers []*labels.Matcher) (Selection, error) {
	if s, ok := ev.session.(partnered); ok && n != nil {
		return s.SelectPartners(ev.ctx, &n.partners, w, matchers...)
	}
	return ev.session.Select(ev.ctx, w, matchers...)
}

// leave leaves series out that are not read yet; it returns how many, with those that were not even selected.
func (n *narrowing) leave(sel Selection) int {
	to, ok := sel.(narrowable)
	if !ok {
		return 0
	}
	all := make([]int, sel.Len())
	counts := map[int]int{}
	skipped := 0
	for i := range all {
		all[i] = n.sigs.of(sel.Labels(i))
		counts[all[i]]++
	}
	keep := func(i int) bool { return all[i] < n.known || n.partners.Alike && counts[all[i]] > 1 }
	for i := range all {
		if !keep(i) {
			skipped++
		}
	}
	if skipped > 0 {
		to.Keep(keep)
	}
	return skipped + to.Left()
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
