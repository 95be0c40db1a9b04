package chunk

import (
	"encoding/binary"
	"math/bits"
)

// A block is up to blockLen numbers below a limit. Numbers that are not below it are exceptions: the block holds the
// remainder, and the quotient less one follows.
//
//	shape byte: bits 0–6 below radixShape: width 0..64, the limit is 2^width; from radixShape on: low bits, a base
//	byte follows, the limit is base << low bits; bit 7 = has exceptions
//	exceptions byte, if any: bits 0–6 width of the quotients, bit 7 = positions are a bitmap (else a list)
//	the numbers modulo the limit, packed
//	positions: a bitmap of one bit a number, or a count byte and the positions packed at positionBits
//	the exceptions' quotients minus one, packed
const (
	blockLen     = 256
	positionBits = 8

	radixShape     = 65
	flagExceptions = 0x80
	flagBitmap     = 0x80
	widthMask      = 0x7f
)

// shape is the form of a block's numbers: base << low is above all of them that are no exceptions; base 1 packs the
// low bits only.
type shape struct{ low, base uint8 }

func (s shape) limit() (limit uint64, all bool) { return uint64(s.base) << s.low, s.low == 64 }

// bytes is the size of n numbers and of what the shape takes.
func (s shape) bytes(n int) int {
	if s.base == 1 {
		return 1 + packedBytes(n, int(s.low))
	}
	return 2 + radixBytes(n, uint(s.low), s.base)
}

// shapeOf returns the smaller shape for n numbers of which top is the largest.
func shapeOf(n int, top uint64) (shape, int) {
	width := bits.Len64(top)
	plain := shape{uint8(width), 1}
	size := plain.bytes(n)
	low := max(width-radixBits, 0)
	base := uint8(top>>low) + 1
	zeros := bits.TrailingZeros8(base)
	if base >>= zeros; base == 1 {
		return plain, size
	}
	low += zeros
	if mixed := (shape{uint8(low), base}); mixed.bytes(n) < size {
		return mixed, mixed.bytes(n)
	}
	return plain, size
}

// lengths counts the numbers of a block by their bit length and keeps the largest of each, which is nearly all it
// takes to know the block's size in each shape.
type lengths struct {
	seen   uint64 // a bit for each length that a number has; 64 is taken for 0
	counts [65]uint16
	tops   [65]uint64
}

func (h *lengths) add(u uint64) {
	l := uint(bits.Len64(u))
	h.seen |= 1 << (l & 63)
	h.counts[l]++
	h.tops[l] = max(h.tops[l], u)
}

// widest is the largest length.
func (h *lengths) widest() int {
	if h.counts[64] > 0 {
		return 64
	}
	return h.below(64)
}

// below returns the largest length that is less than l, 0 if there is none.
func (h *lengths) below(l int) int { return max(bits.Len64(h.seen&(1<<l-1)), 1) - 1 }

// reset forgets all numbers. A short chunk has few lengths: clearing all the memory would take longer than packing it.
func (h *lengths) reset() {
	for l := h.widest(); l > 0; l = h.below(l) {
		h.counts[l], h.tops[l] = 0, 0
	}
	h.counts[0], h.seen = 0, 0
}

// cheapest returns the shape in which a block of n numbers with these lengths is smallest, and its size.
func (h *lengths) cheapest(n int) (best shape, sizeBytes int) {
	widest := h.widest()
	top := h.tops[widest]
	best, sizeBytes = shapeOf(n, top)
	bitmapBytes := packedBytes(n, 1)
	exceptions := int(h.counts[widest])
	for w := widest; w > 0; {
		w = h.below(w)
		s, size := shapeOf(n, h.tops[w])
		limit, _ := s.limit()
		highBytes := packedBytes(exceptions, bits.Len64(top/limit-1))
		if highBytes >= sizeBytes {
			break // smaller limits only have more and longer exceptions
		}
		size += 1 + min(1+packedBytes(exceptions, positionBits), bitmapBytes) + highBytes
		if size < sizeBytes {
			best, sizeBytes = s, size
		}
		exceptions += int(h.counts[w])
	}
	return best, sizeBytes
}

// exceptions are those of a block: scratch space, larger than most chunks.
type exceptions struct{ positions, highs [blockLen]uint64 }

// appendBlock appends the block of 1 to blockLen numbers, which it changes, in a shape.
func (e *exceptions) appendBlock(dst []byte, u []uint64, s shape) []byte {
	positions, highs := &e.positions, &e.highs
	count, top := 0, uint64(0)
	if limit, all := s.limit(); !all {
		for i, x := range u {
			if x >= limit {
				high := x/limit - 1
				positions[count], highs[count] = uint64(i), high
				u[i] = x % limit
				top = max(top, high)
				count++
			}
		}
	}
	flags := byte(0)
	if count > 0 {
		flags = flagExceptions
	}
	if s.base == 1 {
		dst = append(dst, s.low|flags)
	} else {
		dst = append(dst, radixShape+s.low|flags, s.base)
	}
	if count == 0 {
		return s.appendNumbers(dst, u)
	}
	highWidth := bits.Len64(top)
	if packedBytes(len(u), 1) < 1+packedBytes(count, positionBits) {
		var bitmap [blockLen / 8]byte
		for _, p := range positions[:count] {
			bitmap[p>>3] |= 1 << (p & 7)
		}
		dst = s.appendNumbers(append(dst, byte(highWidth)|flagBitmap), u)
		dst = append(dst, bitmap[:packedBytes(len(u), 1)]...)
	} else {
		dst = s.appendNumbers(append(dst, byte(highWidth)), u)
		dst = appendPacked(append(dst, byte(count)), positions[:count], positionBits)
	}
	return appendPacked(dst, highs[:count], uint(highWidth))
}

func (s shape) appendNumbers(dst []byte, u []uint64) []byte {
	if s.base == 1 {
		return appendPacked(dst, u, uint(s.low))
	}
	return appendRadix(dst, u, uint(s.low), s.base)
}

// blockReader reads blocks from src; it is scratch space that a Decoder keeps.
type blockReader struct {
	src    []byte
	padded [blockLen*8 + unpackSlack]byte
	highs  [blockLen]uint64
	places [blockLen]uint64
}

// packed cuts numbers of width w off src and unpacks them.
func (b *blockReader) packed(out []uint64, w uint) bool {
	size := packedBytes(len(out), int(w))
	if size > len(b.src) {
		return false
	}
	unpack(out, b.slack(size), w)
	b.src = b.src[size:]
	return true
}

// numbers cuts numbers of a shape off src and unpacks them.
func (b *blockReader) numbers(out []uint64, s shape) bool {
	if s.base == 1 {
		return b.packed(out, uint(s.low))
	}
	size := radixBytes(len(out), uint(s.low), s.base)
	if size > len(b.src) {
		return false
	}
	unradix(out, b.slack(size), uint(s.low), s.base)
	b.src = b.src[size:]
	return true
}

// slack returns the first size bytes of src and unpackSlack more.
func (b *blockReader) slack(size int) []byte {
	if len(b.src) >= size+unpackSlack {
		return b.src
	}
	copy(b.padded[:size], b.src)
	return b.padded[:]
}

// block reads a block of len(out) ≤ blockLen numbers; false means that the bytes are not one.
func (b *blockReader) block(out []uint64) bool {
	if len(b.src) == 0 {
		return false
	}
	s, exceptions := shape{b.src[0] & widthMask, 1}, b.src[0]&flagExceptions != 0
	b.src = b.src[1:]
	if s.low >= radixShape {
		s.low -= radixShape
		if len(b.src) == 0 {
			return false
		}
		s.base, b.src = b.src[0], b.src[1:]
		if s.base < radixMin || s.base > radixMax || s.base&1 == 0 || int(s.low)+bits.Len8(s.base) > 64 {
			return false
		}
	}
	if exceptions {
		return b.patched(out, s)
	}
	return b.numbers(out, s)
}

// patched reads a block with exceptions, up to its shape.
func (b *blockReader) patched(out []uint64, s shape) bool {
	limit, all := s.limit()
	if len(b.src) == 0 || all {
		return false
	}
	highWidth, bitmap := uint(b.src[0]&widthMask), b.src[0]&flagBitmap != 0
	b.src = b.src[1:]
	if highWidth > 64 || !b.numbers(out, s) {
		return false
	}
	count, ok := b.positions(len(out), bitmap)
	if !ok || !b.packed(b.highs[:count], highWidth) {
		return false
	}
	for i, p := range b.places[:count] {
		out[p] += (b.highs[i] + 1) * limit
	}
	return true
}

// positions reads the places of a block's exceptions in ascending order.
func (b *blockReader) positions(n int, bitmap bool) (count int, ok bool) {
	if !bitmap {
		if len(b.src) == 0 {
			return 0, false
		}
		count = int(b.src[0])
		b.src = b.src[1:]
		if count == 0 || count > n || !b.packed(b.places[:count], positionBits) {
			return 0, false
		}
		for i := 1; i < count; i++ {
			if b.places[i] <= b.places[i-1] {
				return 0, false
			}
		}
		return count, b.places[count-1] < uint64(n)
	}
	var words [blockLen / 8]byte
	size := packedBytes(n, 1)
	if size > len(b.src) {
		return 0, false
	}
	copy(words[:], b.src[:size])
	b.src = b.src[size:]
	for at := 0; at < blockLen; at += 64 {
		for word := binary.LittleEndian.Uint64(words[at/8:]); word != 0; word &= word - 1 {
			b.places[count&(blockLen-1)] = uint64(at + bits.TrailingZeros64(word))
			count++
		}
	}
	return count, count > 0 && b.places[count-1] < uint64(n)
}
