package read

import (
	"sync/atomic"

	"halite/query/column"
	"halite/query/rowcache"
)

// Batch has the columns of adjacent series within a span of time. Its samples stay in the query's budget until it is released.
type Batch struct {
	// First is the index of the first column's series in the Selection.
	First   int
	Columns []column.Column
	// ToMs is the end of the span. Later batches of a Stream have only later samples.
	ToMs int64

	refs    atomic.Int32
	session *Session
	data    []*column.Buffer // memory of the samples
	head    *column.Buffer   // samples of the head that are not joined with rows; may be nil
	// pins and headPins are of samples of the tables and of the head in the row cache; they may be nil.
	pins, headPins *rowcache.Pins

	recordsBytes int64 // of the columns' records
}

// Retain keeps the batch alive for one more Release.
func (b *Batch) Retain() { b.refs.Add(1) }

// Release ends the use of the columns. After the last Release another batch may reuse their memory.
func (b *Batch) Release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	r := b.session.reader
	for _, d := range b.data {
		b.session.putBuffer(&r.buffers, d)
	}
	b.session.putBuffer(&r.heads, b.head)
	b.session.budget.Release(b.recordsBytes)
	b.pins.Release(b.session.budget)
	b.headPins.Release(b.session.budget)
	r.columns.PutColumns(b.Columns)
	b.data, b.head, b.Columns, b.pins, b.headPins = nil, nil, nil, nil, nil
}

// putBuffer ends the use of a buffer, and releases its samples.
func (s *Session) putBuffer(to *column.BufferPool, b *column.Buffer) {
	if b != nil {
		s.budget.Release(int64(b.Len()) * column.SampleBytes)
		to.Put(b)
	}
}

// reserve adds samples to the budget.
func (s *Session) reserve(samples int) error {
	return s.budget.Reserve(int64(samples) * column.SampleBytes)
}
