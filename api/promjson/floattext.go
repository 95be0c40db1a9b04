package promjson

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
)

// fives are the powers of five. The last one brings the smallest number without an exponent to 17 digits. All fit 52 bits,
// so the products in appendFraction are exact.
var fives = [...]uint64{
	1, 5, 25, 125, 625, 3125, 15625, 78125, 390625, 1953125, 9765625, 48828125, 244140625, 1220703125, 6103515625,
	30517578125, 152587890625, 762939453125, 3814697265625, 19073486328125, 95367431640625, 476837158203125,
	2384185791015625,
}

// tens are the powers of ten up to 16 digits.
var tens = [...]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
}

// wholeMax bounds the numbers that are written as integers: up to this one, a float64 represents every integer exactly.
const wholeMax = 1 << 53

// Bits of a float64.
const (
	mantissaBits = 52
	mantissaMask = 1<<mantissaBits - 1
	exponentBias = 1023 + mantissaBits // of a mantissa read as an integer
)

// appendShortest appends the shortest decimal text that reads back as v, with an exponent below 1e-6 and from 1e21 on. It equals
// the text of strconv, byte for byte.
func appendShortest(dst []byte, v float64) []byte {
	abs := math.Abs(v)
	if abs <= wholeMax { // not so for NaN
		if whole := int64(v); float64(whole) == v && whole != 0 {
			return strconv.AppendInt(dst, whole, 10)
		}
		if mantissa := math.Float64bits(v) & mantissaMask; abs >= 1e-6 && mantissa != 0 {
			if v < 0 {
				dst = append(dst, '-')
			}
			return appendFraction(dst, abs, mantissa)
		}
	}
	format := byte('f')
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

// appendFraction appends v, 1e-6 <= v < 1<<53, which is neither whole nor a power of two; mantissa is its stored bits.
//
// Let v = m * 2^e. The number of decimals is chosen so that the last bit of m is worth one to ten units of the last decimal.
// The decimal numbers that read back as v lie within half a bit of v. There are one to ten of them, and at most one ends in
// zero. If one ends in zero, it is the shortest; otherwise the nearest one is taken. The arithmetic is exact in 128 bits, 64
// of them after the point, because 5^decimals fits a word. The bounds are odd multiples of 5^decimals and never integers, so
// it does not matter whether they read back as v.
func appendFraction(dst []byte, v float64, mantissa uint64) []byte {
	exponent := int(math.Float64bits(v)>>mantissaBits) - exponentBias // -72 to -1
	decimals := (-exponent*78913)>>18 + 1                             // rounded up: 78913 / 2^18 is log10(2)
	unit := fives[decimals] << uint(exponent+decimals+mantissaBits+1) // half a bit, with 54 bits after the point
	whole, part := bits.Mul64((mantissa|1<<mantissaBits)<<11, unit)
	_, carry := bits.Add64(part, unit<<10, 0)
	highest := whole + unit>>54 + carry
	_, borrow := bits.Sub64(part, unit<<10, 0)
	digits := highest / 10 * 10
	if digits <= whole-unit>>54-borrow {
		digits = whole + part>>63
		if part == 1<<63 {
			digits = whole + whole&1
		}
	}
	if decimals > 16 { // below a half
		dst = append(dst, "0.000000"[:2+decimals-17]...)
		dst = append(dst, '0'+byte(digits/1e16))
		return appendDecimals(dst, digits%1e16)
	}
	front := uint64(v)
	switch {
	case front < 10:
		dst = append(dst, '0'+byte(front))
	case front < 1e8:
		dst = appendUpToEight(dst, front)
	default:
		dst = strconv.AppendUint(dst, front, 10)
	}
	return appendDecimals(append(dst, '.'), (digits-front*tens[decimals])*tens[16-decimals])
}

// zeros is eight times the digit 0.
const zeros = 0x3030303030303030

// appendUpToEight appends the digits of n, 1 <= n < 1e8.
func appendUpToEight(dst []byte, n uint64) []byte {
	digits := eightDigits(n)
	leading := bits.TrailingZeros64(digits) / 8
	dst = binary.LittleEndian.AppendUint64(dst, (digits|zeros)>>(leading*8))
	return dst[:len(dst)-leading]
}

// appendDecimals appends the 16 digits of n, which is below 1e16, without the zeros at their end.
func appendDecimals(dst []byte, n uint64) []byte {
	high, low := eightDigits(n/1e8), eightDigits(n%1e8)
	dst = binary.LittleEndian.AppendUint64(dst, high|zeros)
	if low == 0 {
		return dst[:len(dst)-bits.LeadingZeros64(high)/8]
	}
	dst = binary.LittleEndian.AppendUint64(dst, low|zeros)
	return dst[:len(dst)-bits.LeadingZeros64(low)/8]
}

// eightDigits returns the digits of n, n < 1e8, as the bytes of a word; the first digit is the lowest byte. It splits n into
// halves, both halves into quarters at once, and all quarters into digits at once.
func eightDigits(n uint64) uint64 {
	const lanes4, lanes2 = 0x0000007f_0000007f, 0x000f_000f_000f_000f
	n = n/10000 | n%10000<<32
	hundreds := n * 10486 >> 20 & lanes4
	n = hundreds | (n-hundreds*100)<<16
	ones := n * 103 >> 10 & lanes2
	return ones | (n-ones*10)<<8
}
