package rollup

import (
	"encoding/binary"
	"math/bits"
)

// bitWriter appends bits to bytes, the first in the lowest bit of a byte.
type bitWriter struct {
	dst  []byte
	word uint64 // bits that are not in dst yet
	n    uint   // how many, fewer than 8
}

// put appends the low w bits of v, of which the others are zero; w ≤ 64.
func (b *bitWriter) put(v uint64, w uint) {
	if w > 32 {
		b.put(v&(1<<32-1), 32)
		v, w = v>>32, w-32
	}
	b.word |= v << b.n
	for b.n += w; b.n >= 8; b.n -= 8 {
		b.dst = append(b.dst, byte(b.word))
		b.word >>= 8
	}
}

// putFlag appends one bit.
func (b *bitWriter) putFlag(set bool) {
	v := uint64(0)
	if set {
		v = 1
	}
	b.put(v, 1)
}

// putLong appends a number as its length in bits, of which 64 is 63 and a one, 63 is 63 and a zero, and its bits without
// the highest.
func (b *bitWriter) putLong(v uint64) {
	w := uint(bits.Len64(v))
	b.put(uint64(min(w, 63)), lengthBits)
	if w >= 63 {
		b.put(uint64(w-63), 1)
	}
	if w > 1 {
		b.put(v&^(1<<(w-1)), w-1)
	}
}

const lengthBits = 6

// longSize is the number of bits that putLong takes, but for numbers of 63 bits and more.
func longSize(v uint64) uint { return lengthBits - 1 + uint(max(1, bits.Len64(v))) }

// close fills up the last byte with zeros and returns all.
func (b *bitWriter) close() []byte {
	if b.n > 0 {
		b.dst = append(b.dst, byte(b.word))
	}
	return b.dst
}

// bitReader reads what a bitWriter wrote.
type bitReader struct {
	src   []byte // not in word yet
	word  uint64 // the next bits
	n     uint   // how many
	short bool   // more was read than there is; zeros were given instead
}

// fill makes sure of 56 bits, or of all that are left.
func (b *bitReader) fill() {
	if len(b.src) >= 8 {
		b.word |= binary.LittleEndian.Uint64(b.src) << b.n
		took := (63 - b.n) >> 3 // bits of the next byte may be in word, too; they will be the same again
		b.src = b.src[took:]
		b.n += took * 8
		return
	}
	if b.n < 64 {
		b.word &= 1<<b.n - 1
	}
	for b.n <= 56 && len(b.src) > 0 {
		b.word |= uint64(b.src[0]) << b.n
		b.src = b.src[1:]
		b.n += 8
	}
}

// end notes that more was read than there is.
func (b *bitReader) end() uint64 {
	*b = bitReader{short: true}
	return 0
}

// get reads w bits, w ≤ 64.
func (b *bitReader) get(w uint) uint64 {
	if w > 32 {
		low := b.get(32)
		return low | b.get(w-32)<<32
	}
	if b.n < w {
		if b.fill(); b.n < w {
			return b.end()
		}
	}
	v := b.word & (1<<w - 1)
	b.word >>= w
	b.n -= w
	return v
}

func (b *bitReader) getFlag() bool { return b.get(1) == 1 }

// getLong reads what putLong wrote.
func (b *bitReader) getLong() uint64 {
	w := uint(b.get(lengthBits))
	if w == 63 {
		w += uint(b.get(1))
	}
	if w < 2 {
		return uint64(w)
	}
	return b.get(w-1) | 1<<(w-1)
}

// ones counts ones up to the next zero, which it takes too, or to most of them; most ≤ 32.
func (b *bitReader) ones(most uint) uint {
	if b.n <= most {
		b.fill()
	}
	q := min(uint(bits.TrailingZeros64(^b.word)), most)
	used := min(q+1, most)
	if used > b.n {
		return uint(b.end())
	}
	b.word >>= used
	b.n -= used
	return q
}

// rest reports whether nothing is left but zeros that fill up a byte.
func (b *bitReader) rest() bool {
	return !b.short && len(b.src) == 0 && b.n < 8 && b.word&(1<<b.n-1) == 0
}
