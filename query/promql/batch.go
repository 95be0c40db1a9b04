package promql

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index"
)

// sampleBytes is the memory of one sample in a column.
const sampleBytes = 16

// Column is the samples of one series, or a piece of them. The slices are only to be read, and only until the batch is
// released.
type Column struct {
	Labels labels.Labels
	// Series knows all labels where Labels are only a part, which Group is a number of.
	Series *index.Series
	Group  uint32
	Samples
	// More are the samples behind those, each with some, where they lie in several places: Len, Time, Times and the like are of
	// the first place then. Only a batch that is read as a whole has such columns.
	More []Samples
}

// Batch is the columns of neighbouring series within a span of time. It is counted against the query's budget until it
// is released.
type Batch struct {
	// First is the number of the first column's series in the Selection.
	First   int
	Columns []Column
	// ToMs is the end of the span: no later batch of a Stream has samples up to it.
	ToMs int64

	refs   atomic.Int32
	reader *reader
	data   []*buffer // that the columns lie in
	loan   *loan     // of what lies in the cache; nil if nothing does
}

// Retain keeps the batch alive for one more Release.
func (b *Batch) Retain() { b.refs.Add(1) }

// Release ends the use of the columns; the last Release lets another batch have their memory.
func (b *Batch) Release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	for _, d := range b.data {
		b.reader.giveBack(&b.reader.buffers, d)
	}
	b.reader.repay(b.loan)
	b.reader.pools.putColumns(b.Columns)
	b.data, b.Columns, b.loan = nil, nil, nil
}

// buffer is a pair of columns that is used again and again.
type buffer struct {
	tsMs   []int64
	values []float64
}

// bufferSamplesMax keeps a pool from holding on to the memory of an unusual query.
const bufferSamplesMax = 2 << 20

// bufferPool saves the collector the work of columns that live as long as a batch. Buffers for different uses have pools of
// their own, so that small ones do not grow where large ones are wanted.
type bufferPool struct{ pool sync.Pool }

// get returns an empty buffer with room for samples.
func (p *bufferPool) get(samples int) *buffer {
	b, ok := p.pool.Get().(*buffer)
	if !ok {
		b = new(buffer)
	}
	b.tsMs = slices.Grow(b.tsMs[:0], samples)
	b.values = slices.Grow(b.values[:0], samples)
	return b
}

func (p *bufferPool) put(b *buffer) {
	if cap(b.tsMs) <= bufferSamplesMax {
		p.pool.Put(b)
	}
}

func (b *buffer) len() int { return len(b.tsMs) }

func (b *buffer) truncate(n int) { b.tsMs, b.values = b.tsMs[:n], b.values[:n] }

func (b *buffer) append(tsMs []int64, values []float64) {
	b.tsMs = append(b.tsMs, tsMs...)
	b.values = append(b.values, values...)
}
