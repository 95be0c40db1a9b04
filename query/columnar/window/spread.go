package window

import "math"

// spread has the running sums of a series for the variances of its windows.
type spread struct {
	runs
	values, squares prefixes
}

func (s *spread) prepare(vs []float64) {
	s.runs = runs{vs: vs}
	s.values, s.squares = s.values.reset(len(vs)), s.squares.reset(len(vs))
	var values, squares pair
	for i, v := range vs {
		if odd(v) {
			v = 0 // windows with the value are summed sample by sample
		}
		values = values.add(v)
		square := v * v
		squares = squares.add(square)
		squares.rest += math.FMA(v, v, -square)
		s.values[i+1], s.squares[i+1] = values, squares
	}
}

// varianceCarriedMax bounds the ratio of the running sums to the squared deviations of a window.
const varianceCarriedMax = 1e13

// variance returns the variance of the values [lo, hi). ok is false if Prometheus's result may differ by more than the
// tolerance.
func (s *spread) variance(lo, hi int) (variance float64, ok bool) {
	constant, hasOdd := s.window(lo, hi)
	switch {
	case hasOdd:
		return 0, false
	case constant:
		return 0, true
	}
	count := float64(hi - lo)
	sum := s.values.between(lo, hi)
	mean := sum.value() / count
	// The sum of squares times the count, minus the square of the sum.
	product := sum.sum * sum.sum
	squared := pair{product, math.FMA(sum.sum, sum.sum, -product) + 2*sum.sum*sum.rest}
	deviations := s.squares.between(lo, hi).times(count).minus(squared).value() / count
	variance = deviations / count
	return variance, variance*spreadMax/10 >= mean*mean && s.squares[hi].sum <= varianceCarriedMax*deviations && deviations > 0
}
