package column

import (
	"encoding/binary"
	"slices"
)

// PackedBytes is the size in bytes of n values of w bits each.
func PackedBytes(n, w int) int { return (n*w + 7) / 8 }

// AppendPacked appends the low w bits of each value, the first value in the lowest bits of the first byte.
func AppendPacked(dst []byte, u []uint64, w uint) []byte {
	if w == 0 {
		return dst
	}
	start, size := len(dst), PackedBytes(len(u), int(w))
	dst = slices.Grow(dst, size+8)
	out := dst[start : start+size+8]
	mask := ^uint64(0) >> (64 - w)
	var word uint64
	var filled uint
	at := 0
	for _, x := range u {
		x &= mask
		word |= x << filled
		filled += w
		if filled >= 64 {
			binary.LittleEndian.PutUint64(out[at:], word)
			at += 8
			filled -= 64
			word = x >> (w - filled)
		}
	}
	binary.LittleEndian.PutUint64(out[at:], word)
	return dst[:start+size]
}

// unpackSlack is the number of bytes that unpack may load beyond the packed values.
const unpackSlack = 8

// unpack is the inverse of AppendPacked for len(out) values. src holds at least PackedBytes(len(out), w)+unpackSlack bytes.
// One load of eight bytes yields all values that it fully covers.
func unpack(out []uint64, src []byte, w uint) {
	mask := ^uint64(0) >> (64 - w)
	n := len(out)
	i := 0
	switch {
	case w == 0:
		clear(out)
		return
	case w <= 8:
		i = unpack8(out, src, w, mask)
	case w <= 15:
		for at := uint(0); i+4 <= n; i += 4 {
			x := binary.LittleEndian.Uint64(src[at>>3:]) >> (at & 7)
			o := out[i : i+4 : i+4]
			o[0], o[1], o[2], o[3] = x&mask, x>>w&mask, x>>(2*w)&mask, x>>(3*w)&mask
			at += 4 * w
		}
	case w <= 28:
		for at := uint(0); i+2 <= n; i += 2 {
			x := binary.LittleEndian.Uint64(src[at>>3:]) >> (at & 7)
			o := out[i : i+2 : i+2]
			o[0], o[1] = x&mask, x>>w&mask
			at += 2 * w
		}
	case w > 57:
		unpackWide(out, src, w, mask)
		return
	}
	at := uint(i) * w
	for ; i < n; i++ {
		out[i] = binary.LittleEndian.Uint64(src[at>>3:]) >> (at & 7) & mask
		at += w
	}
}

// unpack8 unpacks groups of eight values of at most eight bits, each group in one load. It returns the number of
// unpacked values.
func unpack8(out []uint64, src []byte, w uint, mask uint64) int {
	i, at := 0, uint(0)
	for ; i+8 <= len(out); i += 8 {
		x := binary.LittleEndian.Uint64(src[at:])
		o := out[i : i+8 : i+8]
		o[0] = x & mask
		x >>= w
		o[1] = x & mask
		x >>= w
		o[2] = x & mask
		x >>= w
		o[3] = x & mask
		x >>= w
		o[4] = x & mask
		x >>= w
		o[5] = x & mask
		x >>= w
		o[6] = x & mask
		o[7] = x >> w & mask
		at += w
	}
	return i
}

// unpackWide handles widths for which a value may span nine bytes.
func unpackWide(out []uint64, src []byte, w uint, mask uint64) {
	at := uint(0)
	for i := range out {
		from := src[at>>3:]
		shift := at & 7
		x := binary.LittleEndian.Uint64(from) >> shift
		if shift+w > 64 {
			x |= uint64(from[8]) << (64 - shift)
		}
		out[i] = x & mask
		at += w
	}
}
