package window

import "math"

// Kahan is kahansum.Inc for sums that stay finite; that is a call, which costs more than the rest.
func Kahan(v, sum, c float64) (newSum, newC float64) {
	t := sum + v
	if math.Abs(sum) >= math.Abs(v) {
		return t, c + ((sum - t) + v)
	}
	return t, c + ((v - t) + sum)
}

// Infinite is math.IsInf of both signs.
func Infinite(v float64) bool { return v > math.MaxFloat64 || v < -math.MaxFloat64 }
