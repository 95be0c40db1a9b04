package aggregation

import "math"

// Points are times in milliseconds, ascending, and their values.
type Points struct {
	TsMs   []int64
	Values []float64
}

// Len returns the number of points.
func (p *Points) Len() int { return len(p.TsMs) }

func (p *Points) add(tsMs int64, value float64) {
	p.TsMs = append(p.TsMs, tsMs)
	p.Values = append(p.Values, value)
}

// from returns the points at or after a time.
func (p *Points) from(tsMs int64) Points {
	i := 0
	for i < len(p.TsMs) && p.TsMs[i] < tsMs {
		i++
	}
	return Points{TsMs: p.TsMs[i:], Values: p.Values[i:]}
}

// Quotients divides values by the values at the same times. It omits times with only one of both, and times with a
// divisor of 0.
func Quotients(values, divisors Points) (out Points) {
	k := 0
	for i, tsMs := range values.TsMs {
		for k < divisors.Len() && divisors.TsMs[k] < tsMs {
			k++
		}
		if k < divisors.Len() && divisors.TsMs[k] == tsMs && divisors.Values[k] != 0 {
			out.add(tsMs, values.Values[i]/divisors.Values[k])
		}
	}
	return out
}

// integerMax bounds the integers that a double represents exactly, together with their neighbours.
const integerMax = 1 << 53

// IsInteger reports whether a value counts as an integer: whole, and below 2^53.
func IsInteger(v float64) bool { return math.Trunc(v) == v && math.Abs(v) < integerMax }

// integers reports whether all values count as integers.
func (p *Points) integers() bool {
	for _, v := range p.Values {
		if !IsInteger(v) {
			return false
		}
	}
	return true
}
