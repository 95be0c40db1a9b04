package rollup

import "math/bits"

// way says how a column of numbers becomes small ones. The values are stored: never change them.
type way uint8

const (
	wayPlain  way = 0 // the numbers, none of which is negative
	waySigned way = 1 // the numbers, zigzag
	wayDelta  way = 2 // the difference from the one before, zigzag
	wayMean   way = 3 // the difference from a moving mean of those before, zigzag
	waySlope  way = 4 // the difference from a line through the two before, zigzag
	waysTried     = 5
	wayEqual  way = 7 // all are the same: one number, zigzag

	wayBits  = 3
	riceOnes = 10 // so many ones say that a number follows as it is
	lowOnes  = 5  // so many ones say that the number of low bits follows as it is
	lowBitsW = 6  // in so many bits
)

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// leads is how many numbers stand in front as they are.
func (w way) leads() int {
	if w >= wayDelta {
		return 1
	}
	return 0
}

// small makes the small numbers of a way in out; false if there are none.
func (w way) small(out []uint64, x []int64) bool {
	switch w {
	case wayPlain:
		for i, v := range x {
			if v < 0 {
				return false
			}
			out[i] = uint64(v)
		}
	case waySigned:
		for i, v := range x {
			out[i] = zigzag(v)
		}
	case wayDelta:
		before := int64(0)
		for i, v := range x {
			out[i] = zigzag(v - before)
			before = v
		}
	case wayMean:
		four := int64(0)
		for i, v := range x {
			out[i] = zigzag(v - four>>2)
			four = movingMean(four, i, v)
		}
	case waySlope:
		before, slope := int64(0), int64(0)
		for i, v := range x {
			out[i] = zigzag(v - before - slope)
			if i > 0 {
				slope = v - before
			}
			before = v
		}
	}
	return true
}

// restore is the inverse of small, in place.
func (w way) restore(x []int64) {
	switch w {
	case waySigned:
		for i, v := range x {
			x[i] = unzigzag(uint64(v))
		}
	case wayDelta:
		before := int64(0)
		for i, v := range x {
			before += unzigzag(uint64(v))
			x[i] = before
		}
	case wayMean:
		four := int64(0)
		for i, v := range x {
			x[i] = unzigzag(uint64(v)) + four>>2
			four = movingMean(four, i, x[i])
		}
	case waySlope:
		before, slope := int64(0), int64(0)
		for i, v := range x {
			at := unzigzag(uint64(v)) + before + slope
			if i > 0 {
				slope = at - before
			}
			x[i], before = at, at
		}
	}
}

// movingMean takes number i into four times the mean of those before it.
func movingMean(four int64, i int, v int64) int64 {
	if i == 0 {
		return v << 2
	}
	return four + v - four>>2
}

// rice returns the number of low bits by which numbers take the fewest bits, and how many these are.
func rice(u []uint64) (low, size uint) {
	sum := uint64(0)
	for _, v := range u {
		sum += min(v, 1<<56)
	}
	at := uint(max(0, bits.Len64(sum/uint64(len(u)))-1))
	low, size = at, riceSize(u, at)
	if s := riceSize(u, at+1); s < size {
		low, size = at+1, s
	}
	for k := at; k > 0; k-- { // few large ones may have drawn the mean far up
		s := riceSize(u, k-1)
		if s < size {
			low, size = k-1, s
		} else if k < at {
			break
		}
	}
	return low, size
}

func riceSize(u []uint64, low uint) uint {
	size := uint(len(u)) * (low + 1)
	for _, v := range u {
		if q := v >> low; q < riceOnes {
			size += uint(q)
		} else {
			size += riceOnes + longSize(v) - 1 - low
		}
	}
	return size
}

// plan is how a column of numbers is written in the fewest bits.
type plan struct {
	way  way
	low  uint // low bits of each
	like uint // how many are likely
	size uint // in bits
	u    [BucketsMax]uint64
}

// make plans at least one number.
func (p *plan) make(x []int64, like uint) {
	equal := true
	for _, v := range x {
		equal = equal && v == x[0]
	}
	p.u[0] = zigzag(x[0])
	p.way, p.like, p.size = wayEqual, like, wayBits+longSize(p.u[0])
	if equal {
		return
	}
	p.size = ^uint(0)
	var u [BucketsMax]uint64
	for w := range way(waysTried) {
		if !w.small(u[:], x) {
			continue
		}
		from := w.leads()
		low, size := rice(u[from:len(x)])
		if from > 0 {
			size += longSize(u[0])
		}
		if size += wayBits + lowSize(low, like); size < p.size {
			p.way, p.low, p.size = w, low, size
			copy(p.u[:], u[:len(x)])
		}
	}
}

// lowSize is the number of bits in which putLow writes.
func lowSize(low, like uint) uint {
	if z := uint(zigzag(int64(low) - int64(like))); z>>1 < lowOnes {
		return z>>1 + 2
	}
	return lowOnes + lowBitsW
}

// putLow writes a number of low bits; of what is likely it takes two.
func (b *bitWriter) putLow(low, like uint) {
	z := zigzag(int64(low) - int64(like))
	if z>>1 < lowOnes {
		b.put(1<<(z>>1)-1, uint(z>>1)+1)
		b.put(z&1, 1)
		return
	}
	b.put(1<<lowOnes-1, lowOnes)
	b.put(uint64(low), lowBitsW)
}

// getLow reads what putLow wrote; above 63 it is none.
func (b *bitReader) getLow(like uint) uint {
	q := uint64(b.ones(lowOnes))
	if q == lowOnes {
		return uint(b.get(lowBitsW))
	}
	return uint(int64(like) + unzigzag(q<<1|b.get(1)))
}

// append writes n numbers as planned.
func (p *plan) append(b *bitWriter, n int) {
	b.put(uint64(p.way), wayBits)
	if p.way == wayEqual {
		b.putLong(p.u[0])
		return
	}
	b.putLow(p.low, p.like)
	for i, v := range p.u[:n] {
		if i < p.way.leads() {
			b.putLong(v)
			continue
		}
		q := v >> p.low
		if q >= riceOnes {
			b.put(1<<riceOnes-1, riceOnes)
			b.putLong(v)
			continue
		}
		b.put(1<<q-1, uint(q)+1)
		b.put(v&(1<<p.low-1), p.low)
	}
}

// numbers reads at least one number that a plan wrote. It returns the low bits of each, 0 if all are the same.
func (b *bitReader) numbers(x []int64, like uint) (low uint, ok bool) {
	w := way(b.get(wayBits))
	if w == wayEqual {
		v := unzigzag(b.getLong())
		for i := range x {
			x[i] = v
		}
		return 0, !b.short
	}
	if low = b.getLow(like); w >= waysTried || low > 63 {
		return 0, false
	}
	from := w.leads()
	if from > 0 {
		x[0] = int64(b.getLong())
	}
	b.rice(x[from:], low)
	w.restore(x)
	return low, !b.short
}

// rice reads numbers with so many low bits each.
func (b *bitReader) rice(x []int64, low uint) {
	for i := range x {
		if b.n < riceOnes+low {
			b.fill()
		}
		q := uint(bits.TrailingZeros64(^b.word))
		if used := q + 1 + low; q < riceOnes && used <= b.n { // usually
			x[i] = int64(uint64(q)<<low | b.word>>(q+1)&(1<<low-1))
			b.word >>= used
			b.n -= used
			continue
		}
		if q = b.ones(riceOnes); q == riceOnes {
			x[i] = int64(b.getLong())
			continue
		}
		x[i] = int64(uint64(q)<<low | b.get(low))
	}
}
