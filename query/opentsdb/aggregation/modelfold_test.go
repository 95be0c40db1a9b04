package aggregation_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// modelDoubles aggregates as the class Aggregators does with doubles.
func modelDoubles(name string, values []float64) float64 {
	numbers := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	nan := math.NaN()
	if p, _, ok := percentileOf(name); ok {
		return modelPercentile(numbers, p, "legacy") // the estimation is used with integers only
	}
	switch name {
	case "first", "none":
		return values[0]
	case "last":
		return values[len(values)-1]
	case "mult":
		out := values[0]
		for _, v := range values[1:] {
			out *= v
		}
		return out
	case "count":
		return float64(len(numbers))
	}
	if len(numbers) == 0 {
		return nan
	}
	out := 0.0
	switch name {
	case "sum", "zimsum", "pfsum", "avg":
		for _, v := range numbers {
			out += v
		}
		if name == "avg" {
			out /= float64(len(numbers))
		}
	case "squareSum":
		for _, v := range numbers {
			out += v * v
		}
	case "min", "mimmin":
		if out = slices.Min(numbers); math.IsInf(out, 1) {
			return nan
		}
	case "max", "mimmax":
		if out = slices.Max(numbers); math.IsInf(out, -1) {
			return nan
		}
	case "median":
		slices.Sort(numbers)
		out = numbers[len(numbers)/2]
	case "diff":
		i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) })
		if i+1 < len(values) {
			out = values[len(values)-1] - values[i]
		}
	case "dev":
		out = modelDev(numbers)
	default:
		panic(name)
	}
	return out
}

func modelDev(numbers []float64) float64 {
	old := numbers[0]
	if len(numbers) == 1 {
		return 0
	}
	n, m2 := int64(2), 0.0
	for _, x := range numbers[1:] {
		mean := old + (x-old)/float64(n)
		m2 += (x - old) * (x - mean)
		old = mean
		n++
	}
	return math.Sqrt(m2 / float64(n-1))
}

// modelLongs aggregates as the class Aggregators does with integers.
func modelLongs(name string, values []int64) int64 {
	doubles := make([]float64, len(values))
	for i, v := range values {
		doubles[i] = float64(v)
	}
	if p, estimation, ok := percentileOf(name); ok {
		return int64(modelPercentile(doubles, p, estimation))
	}
	out := values[0]
	rest := values[1:]
	switch name {
	case "sum", "zimsum", "pfsum", "avg":
		for _, v := range rest {
			out += v
		}
		if name == "avg" {
			out /= int64(len(values))
		}
	case "squareSum":
		out = 0
		for _, v := range values {
			out += v * v
		}
	case "min", "mimmin":
		out = slices.Min(values)
	case "max", "mimmax":
		out = slices.Max(values)
	case "mult":
		for _, v := range rest {
			out *= v
		}
	case "count":
		out = int64(len(values))
	case "median":
		sorted := slices.Clone(values)
		slices.Sort(sorted)
		out = sorted[len(sorted)/2]
	case "dev":
		out = int64(modelDev(doubles))
	case "diff":
		out = values[len(values)-1] - values[0]
	case "last":
		out = values[len(values)-1]
	case "first", "none":
	default:
		panic(name)
	}
	return out
}

// percentileOf parses p999, ep75r3 and the like.
func percentileOf(name string) (p float64, estimation string, ok bool) {
	digits, estimated := strings.CutPrefix(name, "ep")
	if !estimated {
		if digits, ok = strings.CutPrefix(name, "p"); !ok || digits[0] > '9' {
			return 0, "", false
		}
	}
	digits, estimation, _ = strings.Cut(digits, "r")
	p, err := strconv.ParseFloat(digits, 64)
	if digits == "999" {
		p = 99.9
	}
	return p, estimation, err == nil
}

// modelPercentile is Percentile of commons-math3.
func modelPercentile(values []float64, p float64, estimation string) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := float64(len(sorted))
	switch len(sorted) {
	case 0:
		return math.NaN()
	case 1:
		return sorted[0]
	}
	q := p / 100
	var at float64
	switch estimation {
	case "3":
		if q > 0.5/n {
			at = math.RoundToEven(n * q)
		}
	case "7":
		at = 1 + (n-1)*q
	default:
		at = q * (n + 1)
	}
	if at < 1 {
		return sorted[0]
	}
	if at >= n {
		return sorted[len(sorted)-1]
	}
	lower, upper := sorted[int(at)-1], sorted[int(at)]
	return lower + (at-math.Floor(at))*(upper-lower)
}
