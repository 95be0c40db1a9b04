package rollup

import (
	"math"
	"unsafe"
)

// Packing lays out some fields of a few consecutive states in words of 64 bits. Caches keep the words and join the states
// in place. The words are not a storage format: only the process that packed them can read them.
//
//	word 0      a bit for each known bucket, the first bucket in the lowest bit
//	1 … n       the first column: the values of n buckets
//	n+1 … 2n    the second column, and so on
//
// A Packing is safe for concurrent use.
type Packing struct {
	fields   Fields
	integers [6]bool // packed columns, in the order of Columns.integers and Columns.floats
	floats   [9]bool
	columns  int

	noIntegers [packedMax]int64 // values of the columns that are not packed
	noFloats   [packedMax]float64
	notStale   [packedMax]bool
	allKnown   [packedMax]bool
}

// packedMax is the largest number of buckets that are packed together.
const packedMax = 64

// NewPacking returns the packing of some fields. It never packs FieldStale.
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

// Words is the number of words for n buckets, at most 64.
func (p *Packing) Words(n int) int { return 1 + n*p.columns }

// Pack writes n buckets, starting at from, to Words(n) words.
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

// View makes c show n packed buckets. The first bucket begins at fromMs. The caller must not change c before Reset,
// because c shares the words.
func (p *Packing) View(c *Columns, words []uint64, fromMs, bucketMs int64, n int) {
	c.FromMs, c.BucketMs = fromMs, bucketMs
	if c.viewOf != p {
		p.clearOthers(c)
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

// clearOthers sets the columns that are not packed to zeros.
func (p *Packing) clearOthers(c *Columns) {
	c.viewOf, c.Fields, c.Stale = p, p.fields, p.notStale[:]
	for _, column := range c.integers() {
		*column = p.noIntegers[:]
	}
	for _, column := range c.floats() {
		*column = p.noFloats[:]
	}
}
