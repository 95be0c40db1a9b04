package column

import (
	"slices"
	"sync"
)

// pooledMax is the largest number of columns or rows whose memory is pooled. Only an unusual query needs more, and the
// garbage collector frees that memory.
const pooledMax = 1 << 16

// Pool reuses columns and rows. It is safe for concurrent use.
type Pool struct{ columns, rows sync.Pool }

// Columns returns n empty columns.
func (p *Pool) Columns(n int) []Column {
	if s, ok := p.columns.Get().(*[]Column); ok && cap(*s) >= n {
		return (*s)[:n]
	}
	return make([]Column, n)
}

// PutColumns returns columns to the pool.
func (p *Pool) PutColumns(c []Column) {
	if cap(c) <= pooledMax {
		clear(c)
		p.columns.Put(&c)
	}
}

// Rows returns rows for Reset.
func (p *Pool) Rows() *Rows {
	if r, ok := p.rows.Get().(*Rows); ok {
		return r
	}
	return new(Rows)
}

// PutRows returns rows to the pool.
func (p *Pool) PutRows(r *Rows) {
	if r != nil && cap(r.All) <= pooledMax {
		p.rows.Put(r)
	}
}

// Cleared returns a slice of n zero values. It reuses the memory of s if that is large enough.
func Cleared[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
