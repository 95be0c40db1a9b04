package column

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The kind byte of a column holds its [Mode] and whether it has a step. Its other bits belong to the caller.
const (
	ModeMask = 0x07
	FlagStep = 0x80 // a common divisor of the differences comes first
)

// Mode is the transformation of a column of integers into small numbers. The values are stored: never change
// them.
type Mode uint8

const (
	ModeConst    Mode = 0 // all equal
	ModeFrame    Mode = 1 // distance from the minimum (frame of reference)
	ModeDelta    Mode = 2 // difference from the predecessor, minus the smallest difference
	ModeZigzag   Mode = 3 // difference from the predecessor, zigzag
	ModeZigzag2  Mode = 4 // difference of differences, zigzag
	ModeXor      Mode = 5 // exclusive or with the predecessor; bit patterns only
	modesPlanned      = 6

	// slopeLoss bounds the cost of rounding the smallest difference: the range of the differences grows by at most
	// 1/slopeLoss.
	slopeLoss = 100
)

// Encoder finds the smallest encoding of a column of integers and packs the column once. It estimates the size of each mode
// by counting bit lengths block by block. All arithmetic is modulo 2^64, so it is exact for every input. An Encoder keeps
// its scratch space between columns. It is not for concurrent use; the zero value is ready.
type Encoder struct {
	x     []int64
	diffs []int64 // x[i+1] − x[i], divided by step
	raw   bool    // x are bit patterns: divide only by powers of two, and store references in 8 bytes
	mode  Mode
	step  uint64 // common divisor of the differences
	min   int64  // minimum of x, in steps from x[0]
	small int64  // the smallest difference
	size  int    // size of the blocks in bytes
	// widths of the blocks in each mode
	widths     [modesPlanned][]Width
	counts     [modesPlanned]bitLengths
	buffer     [blockLen]uint64
	exceptions exceptions
}

// Plan analyses x, which has at least one element, and chooses the mode. The Encoder keeps x until the next Plan.
func (c *Encoder) Plan(x []int64) { c.plan(x, false) }

// PlanBits is Plan for bit patterns of floats.
func (c *Encoder) PlanBits(x []int64) { c.plan(x, true) }

func (c *Encoder) plan(x []int64, raw bool) {
	c.x, c.raw, c.mode, c.step, c.size = x, raw, ModeConst, 1, 0
	c.diffs = slices.Grow(c.diffs[:0], len(x)-1)[:len(x)-1]
	var union uint64
	before := x[0]
	for i, v := range x[1:] {
		d := v - before
		c.diffs[i] = d
		union |= uint64(d)
		before = v
	}
	if union == 0 {
		return
	}
	twos := uint(bits.TrailingZeros64(union))
	odd := uint64(1)
	if !raw {
		odd = oddDivisor(c.diffs, twos)
	}
	if c.step = odd << twos; c.step > 1 {
		inverse := int64(inverseOf(odd))
		for i, d := range c.diffs {
			c.diffs[i] = d >> twos * inverse
		}
	}
	var at int64
	c.min, c.small = 0, c.diffs[0]
	large := c.small
	for _, d := range c.diffs {
		at += d
		c.min = min(c.min, at)
		c.small, large = min(c.small, d), max(large, d)
	}
	if floor := floorSlope(c.small); uint64(c.small-floor) <= uint64(large-c.small)/slopeLoss {
		c.small = floor
	}
	c.choose()
	if raw {
		c.tryXor(twos)
	}
}

// choose estimates the size of each mode block by block and chooses the smallest.
func (c *Encoder) choose() {
	var sizes [modesPlanned]int
	for m := ModeFrame; m < modesPlanned; m++ {
		c.widths[m] = c.widths[m][:0]
	}
	at, last := int64(0), c.diffs[0]
	for from := 0; from < len(c.x); from += blockLen {
		for m := ModeFrame; m <= ModeZigzag2; m++ {
			c.counts[m].reset()
		}
		block := c.diffs[min(from, len(c.diffs)):min(from+blockLen, len(c.diffs))]
		for _, d := range block {
			c.counts[ModeFrame].add(uint64(at - c.min))
			c.counts[ModeDelta].add(uint64(d - c.small))
			c.counts[ModeZigzag].add(protowire.EncodeZigZag(d))
			c.counts[ModeZigzag2].add(protowire.EncodeZigZag(d - last))
			at += d
			last = d
		}
		for m := ModeDelta; m <= ModeZigzag2 && len(block) > 0; m++ {
			sizes[m] += c.planBlock(m, len(block))
		}
		n := min(len(c.x)-from, blockLen)
		if n > len(block) {
			// ModeFrame packs one number more than there are differences.
			c.counts[ModeFrame].add(uint64(at - c.min))
		}
		sizes[ModeFrame] += c.planBlock(ModeFrame, n)
	}
	sizes[ModeDelta] += slopeLen(c.small)
	sizes[ModeZigzag2] += slopeLen(c.diffs[0])
	c.mode, c.size = ModeFrame, sizes[ModeFrame]
	for m := ModeDelta; m <= ModeZigzag2; m++ {
		if sizes[m] < c.size {
			c.mode, c.size = m, sizes[m]
		}
	}
}

// planBlock chooses the width of a mode's next block of n numbers and returns the block's size.
func (c *Encoder) planBlock(m Mode, n int) int {
	best, size := c.counts[m].cheapest(n)
	c.widths[m] = append(c.widths[m], best)
	return size
}

// tryXor computes the size of ModeXor and chooses ModeXor if it is the smallest.
func (c *Encoder) tryXor(twos uint) {
	size := 0
	for from := 1; from < len(c.x); from += blockLen {
		counts := &c.counts[ModeXor]
		counts.reset()
		block := c.x[from:min(from+blockLen, len(c.x))]
		for i, v := range block {
			counts.add(uint64(v^c.x[from-1+i]) >> twos)
		}
		size += c.planBlock(ModeXor, len(block))
	}
	if size < c.size {
		c.mode, c.size = ModeXor, size
	}
}

// Append appends the planned column. The caller stores its kind byte, which Kind returns, before it.
func (c *Encoder) Append(dst []byte) []byte {
	reference := c.x[0]
	if c.mode == ModeFrame {
		reference += c.min * int64(c.step)
	}
	if c.step > 1 {
		dst, reference = c.appendStep(dst, reference)
	}
	if c.raw {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(reference))
	} else {
		dst = binary.AppendVarint(dst, reference)
	}
	switch c.mode {
	case ModeConst:
		return dst
	case ModeDelta:
		dst = AppendSlope(dst, c.small)
	case ModeZigzag2:
		dst = AppendSlope(dst, c.diffs[0])
	}
	return c.appendBlocks(dst)
}

// The step of a column: a byte, and, if it has an odd divisor too, a uvarint.
const (
	stepTwos    = 0x3f // power of two
	stepOdd     = 0x40 // the odd divisor follows, at least 3
	stepDivides = 0x80 // the reference is stored in steps; not for bit patterns
)

// appendStep appends the step, which is above 1. It returns the reference in its stored form.
func (c *Encoder) appendStep(dst []byte, reference int64) ([]byte, int64) {
	twos := bits.TrailingZeros64(c.step)
	kind, odd := byte(twos), c.step>>twos
	if !c.raw && c.step < 1<<63 && reference%int64(c.step) == 0 {
		kind |= stepDivides
		reference /= int64(c.step)
	}
	if odd == 1 {
		return append(dst, kind), reference
	}
	return binary.AppendUvarint(append(dst, kind|stepOdd), odd), reference
}

func (c *Encoder) appendBlocks(dst []byte) []byte {
	n := len(c.diffs)
	if c.mode == ModeFrame {
		n++
	}
	at, last := int64(0), c.diffs[0]
	for b, width := range c.widths[c.mode] {
		from, to := b*blockLen, min((b+1)*blockLen, n)
		u := c.buffer[:to-from]
		switch c.mode {
		case ModeFrame:
			for i := range u {
				u[i] = uint64(at - c.min)
				if from+i < len(c.diffs) {
					at += c.diffs[from+i]
				}
			}
		case ModeDelta:
			for i, d := range c.diffs[from:to] {
				u[i] = uint64(d - c.small)
			}
		case ModeZigzag:
			for i, d := range c.diffs[from:to] {
				u[i] = protowire.EncodeZigZag(d)
			}
		case ModeZigzag2:
			for i, d := range c.diffs[from:to] {
				u[i] = protowire.EncodeZigZag(d - last)
				last = d
			}
		case ModeXor:
			twos := uint(bits.TrailingZeros64(c.step))
			for i, v := range c.x[from+1 : to+1] {
				u[i] = uint64(v^c.x[from+i]) >> twos
			}
		}
		dst = c.exceptions.appendBlock(dst, u, width)
	}
	return dst
}

// Kind returns the kind byte of the planned column.
func (c *Encoder) Kind() byte {
	if c.step > 1 {
		return byte(c.mode) | FlagStep
	}
	return byte(c.mode)
}

// SizeBytes is the approximate number of bytes that Append writes.
func (c *Encoder) SizeBytes() int {
	if c.raw {
		return c.size + 8
	}
	return c.size + VarintLen(c.x[0])
}

// oddDivisor returns the largest odd number that divides all differences after a right shift by twos.
func oddDivisor(diffs []int64, twos uint) uint64 {
	var g, inverse, limit uint64
	for _, d := range diffs {
		if d == 0 {
			continue
		}
		x := uint64(max(d, -d)) >> twos
		if g != 0 && x*inverse <= limit {
			continue // x is a multiple of g: only multiples have a quotient this small
		}
		if g = gcd(x, g); g>>bits.TrailingZeros64(g) == 1 {
			return 1
		}
		g >>= bits.TrailingZeros64(g)
		inverse, limit = inverseOf(g), ^uint64(0)/g
	}
	return g
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// inverseOf returns the inverse of an odd g modulo 2^64. Multiplying a multiple of g by it divides by g.
func inverseOf(g uint64) uint64 {
	inverse := g // the low three bits are right; each round doubles their number
	for range 5 {
		inverse *= 2 - g*inverse
	}
	return inverse
}
