package run

import (
	"encoding/binary"
	"math/bits"
)

// A block is up to blockLen values packed at one width; values that need more bits are exceptions whose high bits
// follow.
//
//	width byte: bits 0–6 width 0..64, bit 7 = has exceptions
//	exceptions byte, if any: bits 0–6 width of the high parts, bit 7 = positions are a bitmap (else a list)
//	the values' low bits, packed
//	positions: a bitmap of one bit a value, or a count byte and the positions packed at positionBits
//	the exceptions' high parts minus one, packed
const (
	blockLen     = 128
	positionBits = 7

	flagExceptions = 0x80
	flagBitmap     = 0x80
	widthMask      = 0x7f
)

// lengths counts the values of a block by their bit length, which is all it takes to know the block's size at each
// width.
type lengths [65]uint16

// cheapest returns the width at which a block of n values with these lengths is smallest, and its size; top is the
// block's largest value.
func (h *lengths) cheapest(n int, top uint64) (width uint8, sizeBytes int) {
	widest := bits.Len64(top)
	width, sizeBytes = uint8(widest), 1+packedBytes(n, widest)
	bitmapBytes := packedBytes(n, 1)
	exceptions := 0
	for w := widest - 1; w >= 0; w-- {
		exceptions += int(h[w+1])
		highBytes := packedBytes(exceptions, bits.Len64(top>>w-1))
		if highBytes >= sizeBytes {
			break // narrower widths only have more and longer exceptions
		}
		positionBytes := min(1+packedBytes(exceptions, positionBits), bitmapBytes)
		if size := 2 + packedBytes(n, w) + positionBytes + highBytes; size < sizeBytes {
			width, sizeBytes = uint8(w), size
		}
	}
	return width, sizeBytes
}

// appendBlock appends the block of 1 to blockLen values at a width.
func appendBlock(dst []byte, u []uint64, width uint8) []byte {
	var positions, highs [blockLen]uint64
	w, count, top := uint(width), 0, uint64(0)
	for i, x := range u {
		if high := x >> w; high != 0 {
			positions[count], highs[count] = uint64(i), high-1
			top = max(top, high-1)
			count++
		}
	}
	if count == 0 {
		return appendPacked(append(dst, width), u, w)
	}
	highWidth := bits.Len64(top)
	if packedBytes(len(u), 1) < 1+packedBytes(count, positionBits) {
		var bitmap [blockLen / 8]byte
		for _, p := range positions[:count] {
			bitmap[p>>3] |= 1 << (p & 7)
		}
		dst = appendPacked(append(dst, width|flagExceptions, byte(highWidth)|flagBitmap), u, w)
		dst = append(dst, bitmap[:packedBytes(len(u), 1)]...)
	} else {
		dst = appendPacked(append(dst, width|flagExceptions, byte(highWidth)), u, w)
		dst = appendPacked(append(dst, byte(count)), positions[:count], positionBits)
	}
	return appendPacked(dst, highs[:count], uint(highWidth))
}

// blockReader reads blocks from src; it is scratch space that a Decoder keeps.
type blockReader struct {
	src    []byte
	padded [blockLen*8 + unpackSlack]byte
	highs  [blockLen]uint64
	places [blockLen]uint64
}

// packed cuts n values of width w off src and unpacks them.
func (b *blockReader) packed(out []uint64, w uint) bool {
	size := packedBytes(len(out), int(w))
	if size > len(b.src) {
		return false
	}
	if len(b.src) >= size+unpackSlack {
		unpack(out, b.src, w)
	} else {
		copy(b.padded[:size], b.src)
		unpack(out, b.padded[:], w)
	}
	b.src = b.src[size:]
	return true
}

// block reads a block of len(out) ≤ blockLen values; false means that the bytes are not one.
func (b *blockReader) block(out []uint64) bool {
	if len(b.src) == 0 {
		return false
	}
	width := uint(b.src[0] & widthMask)
	if b.src[0]&flagExceptions != 0 {
		return b.patched(out, width)
	}
	b.src = b.src[1:]
	return width <= 64 && b.packed(out, width)
}

// patched reads a block with exceptions, up to its width byte.
func (b *blockReader) patched(out []uint64, width uint) bool {
	if len(b.src) < 2 || width > 63 {
		return false
	}
	highWidth, bitmap := uint(b.src[1]&widthMask), b.src[1]&flagBitmap != 0
	b.src = b.src[2:]
	if highWidth > 64-width || !b.packed(out, width) {
		return false
	}
	count, ok := b.positions(len(out), bitmap)
	if !ok || !b.packed(b.highs[:count], highWidth) {
		return false
	}
	for i, p := range b.places[:count] {
		out[p] |= (b.highs[i] + 1) << width
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
