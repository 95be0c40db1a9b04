package cell

import (
	"math"

	"halite/rollup"
)

// exponentMax is the largest decimal exponent of a cell.
const exponentMax = 15

// powerOfTen returns 10^e, which is exact.
func powerOfTen(e int) float64 {
	p := 1.0
	for range e {
		p *= 10
	}
	return p
}

// mantissa returns the integer m for which m / p has the bits of v.
func mantissa(v, p float64) (int64, bool) {
	rounded := math.Round(v * p)
	if !(math.Abs(rounded) < 1<<53) {
		return 0, false
	}
	m := int64(rounded)
	return m, math.Float64bits(float64(m)/p) == math.Float64bits(v)
}

// orderedBits maps a float to an integer: larger floats to larger integers, and 0 to 0. fromOrdered is its inverse.
func orderedBits(v float64) int64 {
	b := int64(math.Float64bits(v))
	return b ^ int64(uint64(b>>63)>>1)
}

func fromOrdered(x int64) float64 { return math.Float64frombits(uint64(x ^ int64(uint64(x>>63)>>1))) }

// restoreFloats computes the values of a column from its integers.
func (t *table) restoreFloats(c columnID) {
	out := t.floats[c][:t.rows]
	ints := t.ints[c][:len(out)]
	switch t.encodings[c] {
	case asBits:
		for i, x := range ints {
			out[i] = fromOrdered(x)
		}
		return
	case asShortBits:
		for i, x := range ints {
			out[i] = fromOrdered(x << droppedBits)
		}
		return
	}
	switch c {
	case colSumLow:
		for i, x := range ints {
			if out[i] = 0; x != 0 {
				out[i] = float64(x) * rollup.SumLowUnit(t.floats[colSum][i])
			}
		}
	case colM2:
		unit := t.unit()
		for i, x := range ints {
			out[i] = t.m2FromInteger(i, x, unit)
		}
	default:
		p := powerOfTen(t.exponent)
		for i, x := range ints {
			out[i] = float64(x) / p
		}
	}
}

// findDivisor sets the greatest common divisor of all edges and extremes; 1 if there is none.
func (t *table) findDivisor() {
	divisor := int64(0)
	for c := colFirst; c <= colMax && divisor != 1 && divisor != -1; c++ {
		for _, x := range t.ints[c][:t.rows] {
			for x != 0 { // Euclid's algorithm
				divisor, x = x, divisor%x
			}
		}
	}
	t.divisor = max(divisor, -divisor, 1)
}

// unit is the number of divisors that make a value of 1. Measured in squares of 1/unit, M2 is a small number.
func (t *table) unit() float64 { return powerOfTen(t.exponent) / float64(t.divisor) }

// The squared deviations of count integers sum up to Q − sum²/count, where Q is an integer. So the sum determines
// the part below 1, and the cell stores only the integer part.

// squaresFraction returns the numerator of that part; the denominator is count.
func squaresFraction(count, sum int64) int64 {
	r := sum % count
	if r = -(r * r) % count; r < 0 {
		r += count
	}
	return r
}

// m2FromInteger computes M2 of row i from its integer part, in squares of 1/unit.
func (t *table) m2FromInteger(i int, x int64, unit float64) float64 {
	count := t.ints[colCount][i]
	fraction := squaresFraction(count, t.ints[colSum][i]/t.divisor)
	squares := float64(float64(count)*float64(x)) + float64(fraction)
	return rollup.RoundM2(squares / (float64(count) * float64(unit*unit)))
}
