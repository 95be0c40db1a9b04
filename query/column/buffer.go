package column

import (
	"slices"
	"sync"
)

// Buffer is a pair of columns, times and values, whose memory is reused.
type Buffer struct {
	TsMs   []int64
	Values []float64
}

// bufferSamplesMax bounds pooled buffers. The garbage collector frees larger ones, which are rare.
const bufferSamplesMax = 2 << 20

// BufferPool reuses buffers. Buffers for different uses have separate pools, so that small ones do not grow large.
type BufferPool struct{ pool sync.Pool }

// Get returns an empty buffer with room for samples.
func (p *BufferPool) Get(samples int) *Buffer {
	b, ok := p.pool.Get().(*Buffer)
	if !ok {
		b = new(Buffer)
	}
	b.TsMs = slices.Grow(b.TsMs[:0], samples)
	b.Values = slices.Grow(b.Values[:0], samples)
	return b
}

func (p *BufferPool) Put(b *Buffer) {
	if cap(b.TsMs) <= bufferSamplesMax {
		p.pool.Put(b)
	}
}

func (b *Buffer) Len() int { return len(b.TsMs) }

func (b *Buffer) Truncate(n int) { b.TsMs, b.Values = b.TsMs[:n], b.Values[:n] }

func (b *Buffer) Append(tsMs []int64, values []float64) {
	b.TsMs = append(b.TsMs, tsMs...)
	b.Values = append(b.Values, values...)
}

// Join returns the properties of the samples starting at from. before has the properties of the samples up to at, and next has
// the properties of the others.
func (b *Buffer) Join(before, next Properties, from, at int) Properties {
	switch at {
	case b.Len():
		return before
	case from:
		return next
	}
	return before.Join(next, at-from, Points{TsMs: b.TsMs[from:], Values: b.Values[from:]})
}
