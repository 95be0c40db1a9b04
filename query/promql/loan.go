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
	// memory is for what lies behind the first samples of columns.
	memory []Samples
	// unfinished are series, ascending, of which the last samples are not in their columns yet.
	unfinished []int
}

func newLoan(t *rowTable) *loan { return &loan{table: t} }

// loanOf is newLoan in the memory of one that has ended.
func (p *scratchPool) loanOf(t *rowTable) *loan {
	if l, ok := p.loans.Get().(*loan); ok {
		l.table = t
		return l
	}
	return newLoan(t)
}

// repay ends a loan, of which nothing is used any more.
func (r *reader) repay(l *loan) {
	if l == nil {
		return
	}
	l.end(r.budget)
	if cap(l.memory) <= scratchMax {
		r.pools.loans.Put(l)
	}
}

// places has room for so many samples of a column.
func (l *loan) places(n int) []Samples {
	if len(l.memory)+n > cap(l.memory) {
		l.memory = make([]Samples, 0, max(n, 2*cap(l.memory))) // what is in use stays where it is
	}
	at := len(l.memory)
	l.memory = l.memory[:at+n]
	return l.memory[at : at : at+n]
}

// left are the series that are unfinished.
func (l *loan) left() []int {
	if l == nil {
		return nil
	}
	return l.unfinished
}

// take lends samples that begin at a place. The caller holds the table's mu, for reading at least.
func (l *loan) take(place uint32, samples int) {
	l.lent += samples
	n := int(place >> l.table.regionBits)
	if len(l.taken) == 0 {
		l.taken = cleared(l.taken, len(l.table.regions)/64+1)
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
func (l *loan) charge(b *Budget) error {
	if l.samples() == 0 {
		return nil
	}
	if err := b.Take(int64(l.lent) * sampleBytes); err != nil {
		return err
	}
	l.charged = l.lent
	return nil
}

// end gives all back.
func (l *loan) end(b *Budget) {
	if l == nil {
		return
	}
	for _, r := range l.regions {
		r.borrowers.Add(-1)
	}
	if l.charged > 0 {
		b.Release(int64(l.charged) * sampleBytes)
	}
	clear(l.regions)
	clear(l.memory)
	*l = loan{regions: l.regions[:0], taken: l.taken[:0], memory: l.memory[:0], unfinished: l.unfinished[:0]}
}
