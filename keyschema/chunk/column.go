package chunk

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// mode says how a column of integers is turned into small numbers. The values are stored: never change them.
type mode uint8

const (
	modeConst    mode = 0 // all equal
	modeFrame    mode = 1 // distance from the minimum (frame of reference)
	modeDelta    mode = 2 // difference from the one before, minus the smallest difference
	modeZigzag   mode = 3 // difference from the one before, zigzag
	modeZigzag2  mode = 4 // difference of differences, zigzag
	modeXor      mode = 5 // exclusive or with the one before; bit patterns only
	modesPlanned      = 6

	// slopeLoss is the share of the differences' range by which rounding the smallest may widen it.
	slopeLoss = 100
)

// column finds the smallest encoding of a column of integers without packing it more than once: for each mode it
// counts bit lengths block by block. All arithmetic is modulo 2^64, so that it is exact for every input.
type column struct {
	x     []int64
	diffs []int64 // x[i+1] − x[i], divided by step
	raw   bool    // x are bit patterns: divide by powers of two only, store leads in 8 bytes
	mode  mode
	step  uint64 // common divisor of the differences
	min   int64  // of x, in steps from x[0]
	small int64  // the smallest difference
	size  int    // of the blocks, in bytes
	// shapes of the blocks in each mode
	shapes     [modesPlanned][]shape
	counts     [modesPlanned]lengths
	buffer     [blockLen]uint64
	exceptions exceptions
}

// plan analyses x, which has at least one element, and chooses the mode.
func (c *column) plan(x []int64, raw bool) {
	c.x, c.raw, c.mode, c.step, c.size = x, raw, modeConst, 1, 0
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

// choose sizes the modes block by block and keeps the smallest.
func (c *column) choose() {
	var sizes [modesPlanned]int
	for m := modeFrame; m < modesPlanned; m++ {
		c.shapes[m] = c.shapes[m][:0]
	}
	at, last := int64(0), c.diffs[0]
	for from := 0; from < len(c.x); from += blockLen {
		for m := modeFrame; m <= modeZigzag2; m++ {
			c.counts[m].reset()
		}
		block := c.diffs[min(from, len(c.diffs)):min(from+blockLen, len(c.diffs))]
		for _, d := range block {
			c.counts[modeFrame].add(uint64(at - c.min))
			c.counts[modeDelta].add(uint64(d - c.small))
			c.counts[modeZigzag].add(zigzag(d))
			c.counts[modeZigzag2].add(zigzag(d - last))
			at += d
			last = d
		}
		for m := modeDelta; m <= modeZigzag2 && len(block) > 0; m++ {
			sizes[m] += c.planBlock(m, len(block))
		}
		n := min(len(c.x)-from, blockLen)
		if n > len(block) {
			// The frame has one number more than there are differences.
			c.counts[modeFrame].add(uint64(at - c.min))
		}
		sizes[modeFrame] += c.planBlock(modeFrame, n)
	}
	sizes[modeDelta] += slopeLen(c.small)
	sizes[modeZigzag2] += slopeLen(c.diffs[0])
	c.mode, c.size = modeFrame, sizes[modeFrame]
	for m := modeDelta; m <= modeZigzag2; m++ {
		if sizes[m] < c.size {
			c.mode, c.size = m, sizes[m]
		}
	}
}

// planBlock keeps the shape of the next block of a mode, of n numbers, and returns its size.
func (c *column) planBlock(m mode, n int) int {
	best, size := c.counts[m].cheapest(n)
	c.shapes[m] = append(c.shapes[m], best)
	return size
}

// tryXor sizes modeXor and chooses it if it is the smallest.
func (c *column) tryXor(twos uint) {
	size := 0
	for from := 1; from < len(c.x); from += blockLen {
		counts := &c.counts[modeXor]
		counts.reset()
		block := c.x[from:min(from+blockLen, len(c.x))]
		for i, v := range block {
			counts.add(uint64(v^c.x[from-1+i]) >> twos)
		}
		size += c.planBlock(modeXor, len(block))
	}
	if size < c.size {
		c.mode, c.size = modeXor, size
	}
}

// append appends the planned column without its mode, which the caller stores with whether the step is above 1.
func (c *column) append(dst []byte) []byte {
	lead := c.x[0]
	if c.mode == modeFrame {
		lead += c.min * int64(c.step)
	}
	if c.step > 1 {
		dst, lead = c.appendStep(dst, lead)
	}
	if c.raw {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(lead))
	} else {
		dst = binary.AppendVarint(dst, lead)
	}
	switch c.mode {
	case modeConst:
		return dst
	case modeDelta:
		dst = appendSlope(dst, c.small)
	case modeZigzag2:
		dst = appendSlope(dst, c.diffs[0])
	}
	return c.appendBlocks(dst)
}

// The step of a column: a byte, and, if it has an odd divisor too, a uvarint.
const (
	stepTwos    = 0x3f // power of two
	stepOdd     = 0x40 // the odd divisor follows, at least 3
	stepDivides = 0x80 // the lead is stored in steps; not for bit patterns
)

// appendStep appends the step, which is above 1, and returns the lead as it is to be stored.
func (c *column) appendStep(dst []byte, lead int64) ([]byte, int64) {
	twos := bits.TrailingZeros64(c.step)
	kind, odd := byte(twos), c.step>>twos
	if !c.raw && c.step < 1<<63 && lead%int64(c.step) == 0 {
		kind |= stepDivides
		lead /= int64(c.step)
	}
	if odd == 1 {
		return append(dst, kind), lead
	}
	return binary.AppendUvarint(append(dst, kind|stepOdd), odd), lead
}

func (c *column) appendBlocks(dst []byte) []byte {
	n := len(c.diffs)
	if c.mode == modeFrame {
		n++
	}
	at, last := int64(0), c.diffs[0]
	for b, shape := range c.shapes[c.mode] {
		from, to := b*blockLen, min((b+1)*blockLen, n)
		u := c.buffer[:to-from]
		switch c.mode {
		case modeFrame:
			for i := range u {
				u[i] = uint64(at - c.min)
				if from+i < len(c.diffs) {
					at += c.diffs[from+i]
				}
			}
		case modeDelta:
			for i, d := range c.diffs[from:to] {
				u[i] = uint64(d - c.small)
			}
		case modeZigzag:
			for i, d := range c.diffs[from:to] {
				u[i] = zigzag(d)
			}
		case modeZigzag2:
			for i, d := range c.diffs[from:to] {
				u[i] = zigzag(d - last)
				last = d
			}
		case modeXor:
			twos := uint(bits.TrailingZeros64(c.step))
			for i, v := range c.x[from+1 : to+1] {
				u[i] = uint64(v^c.x[from+i]) >> twos
			}
		}
		dst = c.exceptions.appendBlock(dst, u, shape)
	}
	return dst
}

// kind is mode and step flag of the planned column, for the byte in front of it.
func (c *column) kind() byte {
	if c.step > 1 {
		return byte(c.mode) | flagStep
	}
	return byte(c.mode)
}

// sizeBytes is what append will write, give or take a few bytes.
func (c *column) sizeBytes() int {
	if c.raw {
		return c.size + 8
	}
	return c.size + varintLen(c.x[0])
}

func varintLen(x int64) int { return (bits.Len64(zigzag(x)|1) + 6) / 7 }

// oddDivisor returns the largest odd number that divides all differences once they are shifted right by twos.
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

// inverseOf returns the number whose product with an odd g is 1 modulo 2^64; multiplying by it divides multiples of
// g.
func inverseOf(g uint64) uint64 {
	inverse := g // right in the low three bits; each round doubles that
	for range 5 {
		inverse *= 2 - g*inverse
	}
	return inverse
}
