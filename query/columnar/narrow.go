package columnar

// narrowFunc leaves series out of a selection that is not read yet; it returns how many.
type narrowFunc func(sel Selection) int

// narrowable is a Selection that can leave series out.
type narrowable interface{ Keep(keep func(i int) bool) }

// narrowed is a selector of which only the series are read that can match a series of the other operand.
type narrowed struct {
	*instantSelector
	narrow narrowFunc
}

func (n narrowed) run(ev *eval, emit emitFunc) error { return n.runNarrow(ev, emit, n.narrow) }

// narrowRight is the right operand of a binary operator, without the series that match none of the left one. unique says
// that several series of a kind on the right may be an error, whether they match or not: they are kept.
func (ev *eval) narrowRight(right vector, sigs *signatures, left *matrix, unique bool) vector {
	sel, ok := right.(*instantSelector)
	if !ok || sel.times || ev.opts.CountAll {
		return right
	}
	for _, s := range left.series {
		sigs.of(s.Labels)
	}
	known := len(sigs.index) // signatures of the left operand have smaller numbers
	return narrowed{sel, func(sel Selection) int {
		to, ok := sel.(narrowable)
		if !ok {
			return 0
		}
		all := make([]int, sel.Len())
		counts := map[int]int{}
		skipped := 0
		for i := range all {
			all[i] = sigs.of(sel.Labels(i))
			counts[all[i]]++
		}
		keep := func(i int) bool { return all[i] < known || unique && counts[all[i]] > 1 }
		for i := range all {
			if !keep(i) {
				skipped++
			}
		}
		if skipped > 0 {
			to.Keep(keep)
		}
		return skipped
	}}
}
