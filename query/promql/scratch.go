package promql

import (
	"slices"
	"sync"

	"halite/storage/index"
)

// scratchMax is the number of rows beyond which memory is left to the collector: it belonged to an unusual query.
const scratchMax = 1 << 16

// pieceScratch is memory that reading a piece needs until its batch is made.
type pieceScratch struct {
	slots  []slot
	bases  []int
	wanted [][]index.HourSpan
	found  []uint8
	hits   []hit
	merges []merged
}

// scratchPool saves the collector the work of what each batch needs for a moment.
type scratchPool struct{ pieces, columns, loans sync.Pool }

func (p *scratchPool) piece() *pieceScratch {
	if s, ok := p.pieces.Get().(*pieceScratch); ok {
		return s
	}
	return new(pieceScratch)
}

func (p *scratchPool) putPiece(s *pieceScratch) {
	if cap(s.slots) <= scratchMax {
		clear(s.wanted) // the spans are the collector's
		p.pieces.Put(s)
	}
}

// columnsOf are so many columns, empty.
func (p *scratchPool) columnsOf(n int) []Column {
	if s, ok := p.columns.Get().(*[]Column); ok && cap(*s) >= n {
		return (*s)[:n]
	}
	return make([]Column, n)
}

func (p *scratchPool) putColumns(c []Column) {
	if cap(c) <= scratchMax {
		clear(c)
		p.columns.Put(&c)
	}
}

// cleared is a slice of n zeroes, in the memory of s if there is enough.
func cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
