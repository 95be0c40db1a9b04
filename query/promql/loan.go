package promql

// loan is memory of the cache that the columns of a batch lie in: it stays as it is until the loan ends. What is lent counts
// against the budget as if it were copied, so that a limit does not depend on what is kept.
//
// A nil loan has nothing.
type loan struct {
	table   *rowTable
	regions []*rowRegion
	taken   []uint64 // a bit for each region
	lent    int      // samples
	charged int      // of them
}

func newLoan(t *rowTable) *loan { return &loan{table: t} }

// take lends samples that begin at a place. The caller holds the table's mu, for reading at least.
func (l *loan) take(place uint32, samples int) {
	l.lent += samples
	n := int(place >> l.table.regionBits)
	if l.taken == nil {
		l.taken = make([]uint64, len(l.table.regions)/64+1)
	}
	if bit := uint64(1) << (n % 64); l.taken[n/64]&bit == 0 {
		l.taken[n/64] |= bit
		r := l.table.regions[n]
		r.borrowers.Add(1)
		l.regions = append(l.regions, r)
	}
}

// samples is the number of those that are lent.
func (l *loan) samples() int {
	if l == nil {
		return 0
	}
	return l.lent
}

// charge charges what is lent. It is called once, after the last take.
func (l *loan) charge(b *budget) error {
	if l.samples() == 0 {
		return nil
	}
	if err := b.take(int64(l.lent) * sampleBytes); err != nil {
		return err
	}
	l.charged = l.lent
	return nil
}

// end gives all back.
func (l *loan) end(b *budget) {
	if l == nil {
		return
	}
	for _, r := range l.regions {
		r.borrowers.Add(-1)
	}
	if l.charged > 0 {
		b.release(int64(l.charged) * sampleBytes)
	}
	*l = loan{}
}

// lend makes a column of what was found of a series where that is one entry, evenly spaced: in the cache itself, without a
// copy. It reports whether it did.
func (s *search) lend(hits []hit) bool {
	series := int(hits[0].series)
	if !s.lends || s.p.wanted[series] != nil || len(s.p.headOf(series).tsMs) > 0 {
		return false
	}
	var only *hit
	for i := range hits {
		if h := &hits[i]; h.from < h.end {
			if only != nil || h.shape.stepMs == 0 {
				return false
			}
			only = h
		}
	}
	for i := range hits {
		s.p.slots[hits[i].slot].known = true
	}
	if only == nil {
		return true
	}
	s.p.loan.take(only.place, only.end-only.from)
	c, t := &s.p.columns[series], only.shape.traits()
	c.Values = valuesIn(s.u.table.words(only.place, only.shape.words()), only.shape.len())[only.from:only.end:only.end]
	c.FirstMs = only.startMs + int64(only.shape.firstMs) + int64(only.from)*t.stepMs
	c.StepMs, c.Plain, c.Rising = t.stepMs, t.plain, t.rising
	return true
}
