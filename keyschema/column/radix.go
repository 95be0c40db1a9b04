package column

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Packing at one width wastes part of a bit for each number if the limit is not a power of two. A radix block avoids that.
// It packs the low bits. The bits above them are a digit below an odd base of 3 to 31. Several digits share a group, which
// they fill almost to the last bit. A group is a fixed-point fraction. Multiplied by the base, its whole part is the first
// digit, and its fraction holds the other digits. So each digit costs one multiplication.
const (
	radixMin       = 3
	radixMax       = 31
	radixBits      = 5  // of radixMax
	groupBitsMax   = 57 // one load of eight bytes holds these at any bit offset
	groupDigitsMax = 20 // digits in a group
)

// radix describes how digits below a base form groups.
type radix struct {
	digits uint                       // in a full group
	powers [groupDigitsMax + 1]uint64 // powers of the base
	bits   [groupDigitsMax + 1]uint8  // size of a group in bits, by its number of digits
}

// radixes by their base; never written to.
var radixes = makeRadixes()

func makeRadixes() (all [radixMax + 1]radix) {
	for base := radixMin; base <= radixMax; base += 2 {
		x := &all[base]
		x.powers[0], x.digits = 1, 1
		for k := 1; k <= groupDigitsMax; k++ {
			x.powers[k] = x.powers[k-1] * uint64(base)
			x.bits[k] = uint8(bits.Len64(x.powers[k] - 1))
			if x.bits[k] > groupBitsMax {
				break
			}
			if int(x.bits[k])*int(x.digits) < int(x.bits[x.digits])*k {
				x.digits = uint(k)
			}
		}
	}
	return all
}

// groupsBits is the size of n digits in bits.
func (x *radix) groupsBits(n int) int {
	k := int(x.digits)
	return n/k*int(x.bits[k]) + int(x.bits[n%k])
}

// radixBytes is the size in bytes of n numbers with low bits and digits of a base.
func radixBytes(n int, low uint, base uint8) int {
	return (n*int(low) + radixes[base].groupsBits(n) + 7) / 8
}

// appendRadix appends numbers below base << low: first their low bits, then directly the groups of their digits.
func appendRadix(dst []byte, u []uint64, low uint, base uint8) []byte {
	start, size := len(dst), radixBytes(len(u), low, base)
	dst = AppendPacked(dst, u, low)
	packed := len(dst)
	dst = slices.Grow(dst, start+size+8-packed)[:start+size+8]
	clear(dst[packed:])
	out := dst[start:]
	x, at := &radixes[base], uint(len(u))*low
	for len(u) > 0 {
		k := min(uint(len(u)), x.digits)
		n := uint64(0)
		for _, v := range u[:k] {
			n = n*uint64(base) + v>>low
		}
		w := uint(x.bits[k])
		// The smallest fraction of w bits that is at least n / base^k.
		fraction, rest := bits.Div64(n>>(64-w), n<<w, x.powers[k])
		if rest > 0 {
			fraction++
		}
		word := binary.LittleEndian.Uint64(out[at>>3:])
		binary.LittleEndian.PutUint64(out[at>>3:], word|fraction<<(at&7))
		at += w
		u = u[k:]
	}
	return dst[:start+size]
}

// unradix is the inverse of appendRadix for len(out) numbers. src holds radixBytes+unpackSlack bytes or more.
func unradix(out []uint64, src []byte, low uint, base uint8) {
	unpack(out, src, low)
	x, at := &radixes[base], uint(len(out))*low
	k := x.digits
	for len(out) > 0 {
		k = min(uint(len(out)), k)
		w := uint(x.bits[k])
		fraction := binary.LittleEndian.Uint64(src[at>>3:]) >> (at & 7) << (64 - w)
		group := out[:k]
		for i := range group {
			var digit uint64
			digit, fraction = bits.Mul64(fraction, uint64(base))
			group[i] |= digit << low
		}
		at += w
		out = out[k:]
	}
}
