package column

import (
	"encoding/binary"
	"math/bits"
)

// A block holds up to blockLen numbers below the limit of its width. Larger numbers are exceptions: the block holds their
// remainders. Their quotients minus one follow the block.
//
//	width byte, bits 0–6: w = 0..64, the limit is 2^w; or radixWidth + w, a base byte follows, the limit is base << w
//	width byte, bit 7: the block has exceptions
//	exceptions byte, if any: bits 0–6 width of the quotients, bit 7 = positions are a bitmap (else a list)
//	the numbers modulo the limit, packed
//	positions: a bitmap of one bit a number, or a count byte and the positions packed at positionBits
//	the exceptions' quotients minus one, packed
const (
	blockLen     = 256
	positionBits = 8

	radixWidth     = 65
	flagExceptions = 0x80
	flagBitmap     = 0x80
	widthMask      = 0x7f
)

// bitLengths counts the numbers of a block by bit length and keeps the largest number of each length. That suffices to
// estimate the block's size at each width.
type bitLengths struct {
	seen   uint64 // one bit for each length in use; length 64 sets bit 0
	counts [65]uint16
	tops   [65]uint64
}

func (h *bitLengths) add(u uint64) {
	l := uint(bits.Len64(u))
	h.seen |= 1 << (l & 63)
	h.counts[l]++
	h.tops[l] = max(h.tops[l], u)
}

// widest is the largest length.
func (h *bitLengths) widest() int {
	if h.counts[64] > 0 {
		return 64
	}
	return h.below(64)
}

// below returns the largest used length below l, 0 if there is none.
func (h *bitLengths) below(l int) int { return max(bits.Len64(h.seen&(1<<l-1)), 1) - 1 }

// reset clears the counts. It clears only the lengths in use, because clearing all would take longer than packing a short
// chunk.
func (h *bitLengths) reset() {
	for l := h.widest(); l > 0; l = h.below(l) {
		h.counts[l], h.tops[l] = 0, 0
	}
	h.counts[0], h.seen = 0, 0
}

// cheapest returns the width at which a block of n numbers with these lengths is smallest, and its size.
func (h *bitLengths) cheapest(n int) (best Width, sizeBytes int) {
	widest := h.widest()
	top := h.tops[widest]
	best, sizeBytes = smallestWidth(n, top)
	bitmapBytes := PackedBytes(n, 1)
	exceptions := int(h.counts[widest])
	for w := widest; w > 0; {
		w = h.below(w)
		s, size := smallestWidth(n, h.tops[w])
		limit, _ := s.Limit()
		highBytes := PackedBytes(exceptions, bits.Len64(top/limit-1))
		if highBytes >= sizeBytes {
			break // smaller limits only have more and longer exceptions
		}
		size += 1 + min(1+PackedBytes(exceptions, positionBits), bitmapBytes) + highBytes
		if size < sizeBytes {
			best, sizeBytes = s, size
		}
		exceptions += int(h.counts[w])
	}
	return best, sizeBytes
}

// exceptions is scratch space for the exceptions of one block. The encoder reuses it, because it is larger than most chunks.
type exceptions struct{ positions, highs [blockLen]uint64 }

// appendBlock appends a block of 1 to blockLen numbers at width w. It changes u.
func (e *exceptions) appendBlock(dst []byte, u []uint64, w Width) []byte {
	positions, highs := &e.positions, &e.highs
	count, top := 0, uint64(0)
	if limit, all := w.Limit(); !all {
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
	dst = AppendWidth(dst, w, count > 0)
	if count == 0 {
		return w.appendNumbers(dst, u)
	}
	highWidth := bits.Len64(top)
	if PackedBytes(len(u), 1) < 1+PackedBytes(count, positionBits) {
		var bitmap [blockLen / 8]byte
		for _, p := range positions[:count] {
			bitmap[p>>3] |= 1 << (p & 7)
		}
		dst = w.appendNumbers(append(dst, byte(highWidth)|flagBitmap), u)
		dst = append(dst, bitmap[:PackedBytes(len(u), 1)]...)
	} else {
		dst = w.appendNumbers(append(dst, byte(highWidth)), u)
		dst = AppendPacked(append(dst, byte(count)), positions[:count], positionBits)
	}
	return AppendPacked(dst, highs[:count], uint(highWidth))
}

func (w Width) appendNumbers(dst []byte, u []uint64) []byte {
	if w.Base == 1 {
		return AppendPacked(dst, u, uint(w.Low))
	}
	return appendRadix(dst, u, uint(w.Low), w.Base)
}

// blockReader reads blocks from src. A Decoder reuses it as scratch space.
type blockReader struct {
	src    []byte
	padded [blockLen*8 + unpackSlack]byte
	highs  [blockLen]uint64
	places [blockLen]uint64
}

// packed cuts numbers of width w off src and unpacks them.
func (b *blockReader) packed(out []uint64, w uint) bool {
	size := PackedBytes(len(out), int(w))
	if size > len(b.src) {
		return false
	}
	unpack(out, b.slack(size), w)
	b.src = b.src[size:]
	return true
}

// numbers cuts numbers of a width off src and unpacks them.
func (b *blockReader) numbers(out []uint64, w Width) bool {
	if w.Base == 1 {
		return b.packed(out, uint(w.Low))
	}
	size := radixBytes(len(out), uint(w.Low), w.Base)
	if size > len(b.src) {
		return false
	}
	unradix(out, b.slack(size), uint(w.Low), w.Base)
	b.src = b.src[size:]
	return true
}

// slack returns the first size+unpackSlack bytes of src.
func (b *blockReader) slack(size int) []byte {
	if len(b.src) >= size+unpackSlack {
		return b.src
	}
	copy(b.padded[:size], b.src)
	return b.padded[:]
}

// block reads a block of len(out) ≤ blockLen numbers. It returns false if src does not begin with one.
func (b *blockReader) block(out []uint64) bool {
	w, exceptions, rest, ok := CutWidth(b.src)
	if !ok {
		return false
	}
	b.src = rest
	if exceptions {
		return b.patched(out, w)
	}
	return b.numbers(out, w)
}

// patched reads the rest of a block with exceptions, after the block's width.
func (b *blockReader) patched(out []uint64, w Width) bool {
	limit, all := w.Limit()
	if len(b.src) == 0 || all {
		return false
	}
	highWidth, bitmap := uint(b.src[0]&widthMask), b.src[0]&flagBitmap != 0
	b.src = b.src[1:]
	if highWidth > 64 || !b.numbers(out, w) {
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

// positions reads the positions of a block's exceptions in ascending order.
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
	size := PackedBytes(n, 1)
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
