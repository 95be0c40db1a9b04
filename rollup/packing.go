package rollup

import (
	"math"
	"unsafe"
)

// Packing lays some fields of a few consecutive states into words of 64 bits, as they are in memory, so that they can be
// kept and joined where they lie. It is nothing to store: only the process that has packed words can read them.
//
//	word 0      a bit for each bucket that is known, the first in the lowest
//	1 … n       the first column: the numbers of n buckets
//	n+1 … 2n    the second, and so on
//
// It may be used by several goroutines.
type Packing struct {
	fields   Fields
	integers [6]bool // columns that are laid down, in the order of Columns.integers and floats
	floats   [9]bool
	columns  int

	noIntegers [packedMax]int64 // what the others are
	noFloats   [packedMax]float64
	notStale   [packedMax]bool
	allKnown   [packedMax]bool
}

// packedMax is the largest number of states that are packed together.
const packedMax = 64

// NewPacking is the packing of some fields, FieldStale excepted.
func NewPacking(fields Fields) *Packing {
	p := &Packing{fields: fields &^ FieldStale}
	for i, field := range [len(p.integers)]Fields{0, 0, 0, FieldNaNs, FieldCounter, FieldChanges} {
		p.integers[i] = field == 0 || fields&field != 0
	}
	for i, field := range [len(p.floats)]Fields{
		FieldEdges, FieldEdges, FieldCounter, FieldSum, FieldSum, FieldMin, FieldMax, FieldMoments, FieldMoments,
	} {
		p.floats[i] = fields&field != 0
	}
	for _, wanted := range append(p.integers[:], p.floats[:]...) {
		if wanted {
			p.columns++
		}
	}
	for i := range p.allKnown {
		p.allKnown[i] = true
	}
	return p
}

// Words is the number of words that n buckets take, at most 64.
func (p *Packing) Words(n int) int { return 1 + n*p.columns }

// Pack writes buckets from to from+n−1 to Words(n) words.
func (p *Packing) Pack(words []uint64, c *Columns, from, n int) {
	words[0] = 0
	for i, known := range c.Known[from : from+n] {
		if known {
			words[0] |= 1 << i
		}
	}
	words = words[1:]
	for k, column := range c.integers() {
		if p.integers[k] {
			for i, v := range (*column)[from : from+n] {
				words[i] = uint64(v)
			}
			words = words[n:]
		}
	}
	for k, column := range c.floats() {
		if p.floats[k] {
			for i, v := range (*column)[from : from+n] {
				words[i] = math.Float64bits(v)
			}
			words = words[n:]
		}
	}
}

// View makes c show n buckets from fromMs on that were packed. They are only to be read: c shares the words, until Reset.
func (p *Packing) View(c *Columns, words []uint64, fromMs, bucketMs int64, n int) {
	c.FromMs, c.BucketMs = fromMs, bucketMs
	if c.viewOf != p {
		p.begin(c)
	}
	if words[0] == 1<<n-1 {
		c.Known = p.allKnown[:n]
	} else {
		c.Known = make([]bool, n)
		for i := range c.Known {
			c.Known[i] = words[0]>>i&1 != 0
		}
	}
	words = words[1:]
	for k, column := range c.integers() {
		if p.integers[k] {
			*column = unsafe.Slice((*int64)(unsafe.Pointer(unsafe.SliceData(words))), n)
			words = words[n:]
		}
	}
	for k, column := range c.floats() {
		if p.floats[k] {
			*column = unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(words))), n)
			words = words[n:]
		}
	}
}

// begin makes the columns that are not packed those of no values.
func (p *Packing) begin(c *Columns) {
	c.viewOf, c.Fields, c.Stale = p, p.fields, p.notStale[:]
	for _, column := range c.integers() {
		*column = p.noIntegers[:]
	}
	for _, column := range c.floats() {
		*column = p.noFloats[:]
	}
}
