package chunk

import (
	"math"
	"slices"

	"halite/keyschema/column"
)

// nearDecimals holds values that are decimals except for rounding errors, like running sums of decimals. Each value
// is m / 10^e, moved by a small number of steps between neighbouring floats. Two columns of small numbers then take
// less space than one of bit patterns.
type nearDecimals struct {
	exponent  int
	mantissas []int64
	ulps      []int64
}

const (
	nearSamples = 16
	// nearDistance bounds the distance of v·10^e from a whole number. 16 random values all pass the test with probability
	// 8^−16.
	nearDistance = 1.0 / 16
	// nearMantissaMax leaves v·10^e enough fraction bits for that test.
	nearMantissaMax = 1 << 48
	ulpsMax         = 1 << 40
)

// find fills n from the bit patterns made by ordered, or returns false if they are not near decimals.
func (n *nearDecimals) find(patterns []int64) bool {
	for n.exponent = 1; ; n.exponent++ {
		if n.exponent > exponentMax {
			return false
		}
		near, fits := maybeNear(patterns, powers[n.exponent])
		if !fits {
			return false
		}
		if near {
			break
		}
	}
	power := powers[n.exponent]
	n.mantissas = slices.Grow(n.mantissas[:0], len(patterns))
	n.ulps = slices.Grow(n.ulps[:0], len(patterns))
	for _, x := range patterns {
		v := unordered(x)
		t := math.RoundToEven(v * power)
		if math.Abs(t) >= mantissaLimit {
			return false
		}
		m := int64(t) // a conversion from a whole number, so that t = −0 becomes 0
		ulps := int64(math.Float64bits(v) - math.Float64bits(float64(m)/power))
		if ulps <= -ulpsMax || ulps >= ulpsMax {
			return false
		}
		n.mantissas = append(n.mantissas, m)
		n.ulps = append(n.ulps, ulps)
	}
	return true
}

// maybeNear reports whether a sample of the values is near decimals. fits is false if a value is too large for the test.
func maybeNear(patterns []int64, power float64) (near, fits bool) {
	k := min(len(patterns), nearSamples)
	for i := range k {
		t := unordered(patterns[i*len(patterns)/k]) * power
		if math.Abs(t) > nearMantissaMax {
			return false, false
		}
		if math.Abs(t-math.RoundToEven(t)) > nearDistance {
			return false, true
		}
	}
	return true, true
}

// decodeUlps reads the column of distances that follows the values of near decimals and applies it.
func (d *Decoder) decodeUlps(values []float64) error {
	src := d.columns.Rest()
	if len(src) == 0 || src[0]&^(column.ModeMask|column.FlagStep) != 0 {
		return column.Corrupt("bad kind of the column of distances")
	}
	c, err := d.columns.Open(src[1:], src[0], len(values))
	if err != nil {
		return err
	}
	return c.ForEach(len(values), func(from int, ulps []int64) {
		for i, u := range ulps {
			values[from+i] = math.Float64frombits(math.Float64bits(values[from+i]) + uint64(u))
		}
	})
}
