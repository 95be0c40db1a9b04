package aggregation

import (
	"math"
	"slices"
)

// Sums, minima, maxima, averages, counts and deviations of doubles ignore NaN. If all values are NaN, a count is 0 and the others
// are NaN.

func sumDoubles(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum
}

func sumLongs(values []int64) (sum int64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

func squareSumDoubles(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += float64(v * v) // the conversion forbids a fused operation
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum
}

func squareSumLongs(values []int64) (sum int64) {
	for _, v := range values {
		sum += v * v
	}
	return sum
}

func minDoubles(values []float64) float64 {
	lowest := math.Inf(1)
	for _, v := range values {
		if v < lowest {
			lowest = v
		}
	}
	if math.IsInf(lowest, 1) {
		return math.NaN()
	}
	return lowest
}

func maxDoubles(values []float64) float64 {
	highest := math.Inf(-1)
	for _, v := range values {
		if v > highest {
			highest = v
		}
	}
	if math.IsInf(highest, -1) {
		return math.NaN()
	}
	return highest
}

func avgDoubles(values []float64) float64 {
	return sumDoubles(values) / countDoubles(values) // NaN without values
}

func avgLongs(values []int64) int64 { return sumLongs(values) / int64(len(values)) }

func countDoubles(values []float64) float64 {
	n := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return float64(n)
}

func countLongs(values []int64) int64 { return int64(len(values)) }

func multiplyDoubles(values []float64) float64 {
	product := values[0]
	for _, v := range values[1:] {
		product *= v
	}
	return product
}

func multiplyLongs(values []int64) int64 {
	product := values[0]
	for _, v := range values[1:] {
		product *= v
	}
	return product
}

// devDoubles is the standard deviation of the whole population, by Welford's method.
func devDoubles(values []float64) float64 {
	mean, squares, n := 0.0, 0.0, 0
	for _, x := range values {
		if math.IsNaN(x) {
			continue
		}
		if n++; n == 1 {
			mean = x
			continue
		}
		next := mean + (x-mean)/float64(n)
		squares += float64((x - mean) * (x - next))
		mean = next
	}
	switch n {
	case 0:
		return math.NaN()
	case 1:
		return 0
	}
	return math.Sqrt(squares / float64(n))
}

func devLongs(values []int64) int64 {
	doubles := make([]float64, len(values))
	for i, v := range values {
		doubles[i] = float64(v)
	}
	return truncated(devDoubles(doubles))
}

// diffDoubles is the last value, which may be NaN, minus the first value that is a number.
func diffDoubles(values []float64) float64 {
	i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
	switch {
	case i < 0:
		return math.NaN()
	case i == len(values)-1:
		return 0
	}
	return values[len(values)-1] - values[i]
}

func diffLongs(values []int64) int64 { return values[len(values)-1] - values[0] }

func first[T any](values []T) T { return values[0] }

func last[T any](values []T) T { return values[len(values)-1] }

// medianDoubles returns the upper of the two middle values if their number is even.
func medianDoubles(values []float64) float64 {
	values = sortedNumbers(values)
	if len(values) == 0 {
		return math.NaN()
	}
	return values[len(values)/2]
}

func medianLongs(values []int64) int64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// sortedNumbers sorts values in place and returns those that are numbers.
func sortedNumbers(values []float64) []float64 {
	slices.Sort(values) // NaN comes first
	i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
	if i < 0 {
		return nil
	}
	return values[i:]
}

// truncated converts a double as Java does: towards zero, NaN to 0, and values out of range to the nearest integer.
func truncated(v float64) int64 {
	switch {
	case math.IsNaN(v):
		return 0
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v <= math.MinInt64:
		return math.MinInt64
	}
	return int64(v)
}
