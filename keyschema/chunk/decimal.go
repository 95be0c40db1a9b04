package chunk

import (
	"math"
	"slices"

	"halite/keyschema/column"
)

// decimals turns values into whole numbers m with one exponent e, such that m / 10^e gives each value back bit by
// bit. The exception list holds the other values.
type decimals struct {
	exponent  int
	mantissas []int64
	// left lists the indices of the omitted values in ascending order. isException accepts some of them.
	left []int
	// failed counts the omitted values that isException rejects.
	failed int
}

// scaled returns the whole number m below 2^53 for which m / 10^e is v bit by bit, if there is one. It divides, because
// 10^−e has no exact float64. NaN, infinities and −0 fail the comparison of bits.
func scaled(v, power float64) (int64, bool) {
	m := int64(math.RoundToEven(v * power))
	if m >= mantissaLimit || m <= -mantissaLimit {
		return 0, false
	}
	return m, math.Float64bits(float64(m)/power) == math.Float64bits(v)
}

// scale fills d from values. It returns false as soon as too many of them are not decimals.
func (d *decimals) scale(values []float64) bool {
	d.exponent, d.failed, d.left = 0, 0, d.left[:0]
	d.mantissas = slices.Grow(d.mantissas[:0], len(values))[:len(values)]
	patience := 8 + len(values)/8
	again := 0 // values before this index were scaled with a smaller exponent
	power := 1.0
	for i, v := range values {
		m, ok := scaled(v, power)
		if !ok {
			e := d.exponent + 1
			if m, e, ok = smallestExponent(v, e); ok {
				d.exponent, power, again = e, powers[e], i
			} else {
				d.left = append(d.left, i)
				if !isException(v) {
					d.failed++
				}
				if d.failed > 8 && (d.failed > patience || d.failed > i/2) {
					return false
				}
			}
		}
		d.mantissas[i] = m
	}
	d.rescale(values, again)
	if len(d.left) > 0 {
		d.compact()
	}
	return d.failed <= patience
}

// smallestExponent returns the smallest exponent ≥ e for which v has a mantissa, and the mantissa.
func smallestExponent(v float64, e int) (int64, int, bool) {
	for ; e <= exponentMax && math.Abs(v)*powers[e] < mantissaLimit; e++ {
		if m, ok := scaled(v, powers[e]); ok {
			return m, e, true
		}
	}
	return 0, 0, false
}

// rescale scales the first n values again, with the final exponent.
func (d *decimals) rescale(values []float64, n int) {
	power, known := powers[d.exponent], len(d.left)
	next := 0
	for i, v := range values[:n] {
		if next < known && d.left[next] == i {
			next++
			continue
		}
		m, ok := scaled(v, power)
		if !ok {
			d.left = append(d.left, i)
			d.failed++
		}
		d.mantissas[i] = m
	}
	if len(d.left) > known {
		slices.Sort(d.left)
	}
}

// compact removes the mantissas of the omitted values.
func (d *decimals) compact() {
	kept := d.mantissas[:0]
	next := 0
	for i, m := range d.mantissas {
		if next < len(d.left) && d.left[next] == i {
			next++
			continue
		}
		kept = append(kept, m)
	}
	d.mantissas = kept
}

// floats unpacks a column of decimals with one exponent. If the exponent is exponentRaw, the column holds bit
// patterns.
func floats(c *column.Reader, out []float64, exponent int) error {
	if x, ok := c.Const(); ok {
		v := unscale(x, exponent)
		for i := range out {
			out[i] = v
		}
		return nil
	}
	return c.ForEach(len(out), func(from int, x []int64) { unscaleAll(out[from:from+len(x)], x, exponent) })
}

// unscaleAll turns numbers of a column into values.
func unscaleAll(out []float64, x []int64, exponent int) {
	out = out[:len(x)]
	switch exponent {
	case exponentRaw:
		for i, n := range x {
			out[i] = unordered(n)
		}
	case 0:
		for i, n := range x {
			out[i] = float64(n)
		}
	default:
		power := powers[exponent]
		for i, n := range x {
			out[i] = float64(n) / power
		}
	}
}

func unscale(x int64, exponent int) float64 {
	if exponent == exponentRaw {
		return unordered(x)
	}
	return float64(x) / powers[exponent]
}
