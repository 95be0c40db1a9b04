package column

import (
	"encoding/binary"
	"math/bits"

	"google.golang.org/protobuf/encoding/protowire"
)

// A slope takes one byte from −64 to 63, and two bytes if it has at most nine significant bits. Any other slope follows a
// mark byte. The encoder may round the smallest difference of a column down to a slope of two bytes.
//
//	0xxxxxxx                   zigzag
//	1 sign, exponent e; byte m  ±m for e = 0, else ±(256 + m) · 2^(e−1), e up to exponentTop
//	0xff, varint
const (
	slopeSmall  = 0x80
	slopeSign   = 0x40
	slopeExact  = 0xff
	slopeFirst  = 256
	slopeDigits = 9
	exponentTop = 56
)

// splitSlope returns the highest nine bits of the magnitude of s and their shift. exact is false if lower bits are not 0.
func splitSlope(s int64) (digits uint64, shift uint, exact bool) {
	a := uint64(s)
	if s < 0 {
		a = -a
	}
	shift = uint(max(bits.Len64(a)-slopeDigits, 0))
	return a >> shift, shift, a>>shift<<shift == a
}

// floorSlope returns the largest slope ≤ s that takes at most two bytes.
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

// slopeLen is the size of a slope in bytes.
func slopeLen(s int64) int {
	if protowire.EncodeZigZag(s) < slopeSmall {
		return 1
	}
	if _, _, exact := splitSlope(s); exact {
		return 2
	}
	return 1 + VarintLen(s)
}

// AppendSlope appends a slope.
func AppendSlope(dst []byte, s int64) []byte {
	if z := protowire.EncodeZigZag(s); z < slopeSmall {
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
	if digits >= slopeFirst {
		first |= byte(shift + 1)
	}
	return append(dst, first, byte(digits))
}

// CutSlope cuts a slope off src. ok is false if src does not begin with one.
func CutSlope(src []byte) (s int64, rest []byte, ok bool) {
	if len(src) == 0 {
		return 0, src, false
	}
	first, src := src[0], src[1:]
	switch {
	case first < slopeSmall:
		return protowire.DecodeZigZag(uint64(first)), src, true
	case first == slopeExact:
		return CutVarint(src)
	case len(src) == 0:
		return 0, src, false
	}
	a := uint64(src[0])
	if e := uint(first &^ (slopeSmall | slopeSign)); e > exponentTop {
		return 0, src, false
	} else if e > 0 {
		a = (a + slopeFirst) << (e - 1)
	}
	if first&slopeSign != 0 {
		a = -a
	}
	return int64(a), src[1:], true
}

// SlopeNumber returns the number of a slope that takes at most two bytes. ok is false for other slopes. The numbers ascend
// with the slopes, and a slope with few digits is its own number.
func SlopeNumber(s int64) (number int64, ok bool) {
	digits, shift, exact := splitSlope(s)
	number = int64(shift)*slopeFirst + int64(digits)
	if s < 0 {
		number = -number
	}
	return number, exact && shift <= exponentTop
}

// SlopeOfNumber is the inverse of SlopeNumber. ok is false if no slope has the number.
func SlopeOfNumber(number int64) (s int64, ok bool) {
	a := uint64(max(number, -number))
	if a >= (exponentTop+2)*slopeFirst {
		return 0, false
	}
	if a >= 2*slopeFirst {
		shift := a/slopeFirst - 1
		a = (a%slopeFirst + slopeFirst) << shift
	}
	if number < 0 {
		return -int64(a), true
	}
	return int64(a), true
}
