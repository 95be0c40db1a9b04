package chunk

import (
	"encoding/binary"
	"math/bits"
)

// A slope is stored in one byte from −64 to 63, in two bytes if nine significant bits do, else behind a mark. The
// smallest difference of a column may be rounded down to one that takes two bytes.
//
//	0xxxxxxx                   zigzag
//	1 sign, exponent e; byte m  ±m for e = 0, else ±(256 + m) · 2^(e−1), e up to exponentTop
//	0xff, varint
const (
	slopeSmall  = 0x80
	slopeSign   = 0x40
	slopeExact  = 0xff
	slopeLead   = 256
	slopeDigits = 9
	exponentTop = 56
)

// splitSlope returns the first nine bits of the magnitude of s, and how far they are shifted; exact is false if there
// are others.
func splitSlope(s int64) (digits uint64, shift uint, exact bool) {
	a := uint64(s)
	if s < 0 {
		a = -a
	}
	shift = uint(max(bits.Len64(a)-slopeDigits, 0))
	return a >> shift, shift, a>>shift<<shift == a
}

// floorSlope returns the largest slope up to s that takes no more than two bytes.
func floorSlope(s int64) int64 {
	digits, shift, exact := splitSlope(s)
	switch {
	case exact:
		return s
	case s > 0:
		return int64(digits << shift)
	default:
		return -int64((digits + 1) << shift)
	}
}

func slopeLen(s int64) int {
	if zigzag(s) < slopeSmall {
		return 1
	}
	if _, _, exact := splitSlope(s); exact {
		return 2
	}
	return 1 + varintLen(s)
}

func appendSlope(dst []byte, s int64) []byte {
	if z := zigzag(s); z < slopeSmall {
		return append(dst, byte(z))
	}
	digits, shift, exact := splitSlope(s)
	if !exact {
		return binary.AppendVarint(append(dst, slopeExact), s)
	}
	first := byte(slopeSmall)
	if s < 0 {
		first |= slopeSign
	}
	if digits >= slopeLead {
		first |= byte(shift + 1)
	}
	return append(dst, first, byte(digits))
}

// cutSlope cuts a slope off src.
func cutSlope(src []byte) (s int64, rest []byte, ok bool) {
	if len(src) == 0 {
		return 0, src, false
	}
	first, src := src[0], src[1:]
	switch {
	case first < slopeSmall:
		return unzigzag(uint64(first)), src, true
	case first == slopeExact:
		return cutVarint(src)
	case len(src) == 0:
		return 0, src, false
	}
	a := uint64(src[0])
	if e := uint(first &^ (slopeSmall | slopeSign)); e > exponentTop {
		return 0, src, false
	} else if e > 0 {
		a = (a + slopeLead) << (e - 1)
	}
	if first&slopeSign != 0 {
		a = -a
	}
	return int64(a), src[1:], true
}
