package window

import "math"

// Kahan does the same as kahansum.Inc for sums that stay finite. The call of kahansum.Inc would cost more than the work
// itself.
func Kahan(v, sum, c float64) (newSum, newC float64) {
	t := sum + v
	if math.Abs(sum) >= math.Abs(v) {
		return t, c + ((sum - t) + v)
	}
	return t, c + ((v - t) + sum)
}

// Infinite does the same as math.IsInf with both signs.
func Infinite(v float64) bool { return v > math.MaxFloat64 || v < -math.MaxFloat64 }
