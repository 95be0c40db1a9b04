package rollup

import (
	"math"

	"github.com/prometheus/prometheus/model/value"
)

const (
	// sumLowBits is the number of bits below the last bit of Sum that a stored SumLow keeps. So the sum is
	// exact to 2^-56.
	sumLowBits = 3
	// MomentBits is the number of significant bits of a stored M2, which is exact to 5e-13.
	MomentBits = 40
)

// Compute is FromColumns for stored states, and several times as fast. Its result is canonical, so that states encode well.
// Sum is the rounded total. SumLow and M2 keep only the bits that later joins need. Mean is the total divided by Count where
// possible. The other fields have the bits of FromColumns.
//
// Equal samples give equal bits on every machine.
func Compute(tsMs []int64, values []float64) State {
	n := len(values)
	stale := false
	for n > 0 && value.IsStaleNaN(values[n-1]) {
		n, stale = n-1, true
	}
	if n == 0 {
		return State{Stale: stale}
	}
	s, ok := computeFinite(tsMs[:n], values[:n])
	if !ok {
		s = FromColumns(tsMs[:n], values[:n])
	}
	s.Stale = stale
	return s.Canonical()
}

// ComputeFields computes the given fields like Compute. Other fields are undefined. plain means that no value is a stale
// marker. rising means that no value is less than its predecessor.
func ComputeFields(tsMs []int64, values []float64, fields Fields, plain, rising bool) State {
	n := len(values)
	if !plain || n == 0 || fields&(FieldMoments|FieldChanges) != 0 || fields&FieldCounter != 0 && !rising {
		return Compute(tsMs, values)
	}
	s := State{Count: int64(n), FirstMs: tsMs[0], LastMs: tsMs[n-1], First: values[0], Last: values[n-1]}
	finite := true
	if fields&(FieldMin|FieldMax|FieldNaNs|FieldSum) != 0 {
		finite = s.addExtremes(values)
	}
	if finite && fields&FieldSum != 0 {
		for _, v := range values {
			t, lost := twoSum(s.Sum, v)
			s.Sum, s.SumLow = t, s.SumLow+lost
		}
		s.Sum, s.SumLow = twoSum(s.Sum, s.SumLow)
		finite = s.Sum-s.Sum == 0
	}
	if !finite {
		return Compute(tsMs, values)
	}
	return s
}

// addExtremes sets Min and Max. It reports false if a value is NaN or infinite.
func (s *State) addExtremes(values []float64) (finite bool) {
	low, high, odd := values[0], values[0], 0.0
	for _, v := range values {
		odd += v - v // 0, or NaN as soon as a value is not finite
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
	}
	s.Min, s.Max = low, high
	return odd == 0
}

// computeFinite computes the state if all values are finite and nothing overflows, which is the usual case.
func computeFinite(tsMs []int64, values []float64) (State, bool) {
	first := values[0]
	before, low, high := first, first, first
	var sum, rest, correction, correctionRest, odd float64
	var resets, changes int64
	for _, v := range values {
		odd += v - v // 0, or NaN as soon as a value is not finite
		if v < low {
			low = v
		}
		if v > high {
			high = v
		}
		if v != before {
			changes++
			if v < before {
				resets++
				t, e := twoSum(correction, before)
				correction, correctionRest = t, correctionRest+e
			}
			before = v
		}
		t, e := twoSum(sum, v)
		sum, rest = t, rest+e
	}
	if odd != 0 || sum+rest-(sum+rest) != 0 {
		return State{}, false
	}
	n := len(values)
	s := State{
		Count: int64(n), FirstMs: tsMs[0], LastMs: tsMs[n-1], First: first, Last: values[n-1],
		Correction: correction + correctionRest, Resets: resets, Changes: changes,
		Sum: sum, SumLow: rest, Min: low, Max: high,
	}
	if low != high {
		s.Mean = (sum + rest) / float64(n)
		s.M2 = squares(values, s.Mean)
	}
	return s, s.M2-s.M2 == 0
}

// squares is the sum of squared distances from the mean. It corrects the rounding of the mean.
func squares(values []float64, mean float64) float64 {
	var sum, square float64
	for _, v := range values {
		d := v - mean
		sum += d
		square += float64(d * d) // not fused with the addition, so that all machines agree
	}
	return max(0, square-float64(sum*sum)/float64(len(values)))
}

// Canonical removes the bits that depend on the order of additions; see [Compute].
func (s State) Canonical() State {
	if s.Count == 0 {
		return State{Stale: s.Stale}
	}
	s.Sum, s.SumLow = twoSum(s.Sum, s.SumLow)
	if !(s.Sum-s.Sum == 0) {
		s.SumLow = 0
	}
	s.Sum, s.SumLow = plainNaN(s.Sum), roundLow(s.Sum, s.SumLow)
	s.Correction = plainNaN(s.Correction)
	if !math.IsNaN(s.Mean) && s.Sum-s.Sum == 0 {
		s.Mean = s.ExpectedMean()
	}
	s.Mean, s.M2 = plainNaN(s.Mean), plainNaN(RoundM2(s.M2))
	return s
}

// ExpectedMean computes the mean from count, sum and extremes. A canonical Mean equals it if it is a number.
func (s *State) ExpectedMean() float64 {
	if s.Min == s.Max {
		return s.Min
	}
	return s.Total() / float64(s.Count)
}

// plainNaN gives all NaN the same bits.
func plainNaN(v float64) float64 {
	if v != v {
		return math.NaN()
	}
	return v
}

// roundLow rounds the low part of a sum to a multiple of SumLowUnit.
func roundLow(sum, low float64) float64 {
	if low == 0 || low-low != 0 {
		return 0
	}
	unit := SumLowUnit(sum)
	if unit == 0 {
		return low
	}
	return math.Round(low/unit)*unit + 0 // no −0
}

// SumLowUnit is the unit of a canonical SumLow: a fraction of the last bit of the sum.
func SumLowUnit(sum float64) float64 {
	_, exponent := math.Frexp(sum)
	return math.Ldexp(1, exponent-53-sumLowBits)
}

// RoundM2 rounds a finite number to MomentBits significant bits.
func RoundM2(v float64) float64 {
	if !(v-v == 0) {
		return v
	}
	const drop = 53 - MomentBits
	pattern := math.Float64bits(v) + 1<<(drop-1)
	rounded := math.Float64frombits(pattern &^ (1<<drop - 1))
	if rounded-rounded != 0 {
		return v // v is near the largest float
	}
	return rounded
}

// twoSum is a + b and its rounding error. An infinite or undefined sum has no error.
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	if sum-sum != 0 {
		return sum, 0
	}
	part := sum - a
	return sum, (a - (sum - part)) + (b - part)
}
