package window

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
)

// CountOverTime counts the samples of each window.
func CountOverTime() Func {
	return perWindow(1, func(w *Window, k int) float64 { return float64(w.Hi[k] - w.Lo[k]) })
}

// PresentOverTime is 1 for each window that has samples.
func PresentOverTime() Func {
	return perWindow(1, func(*Window, int) float64 { return 1 })
}

// TimeOfFirst returns the time of the first sample of each window, in seconds.
func TimeOfFirst() Func {
	return perWindow(1, func(w *Window, k int) float64 { return float64(w.time(w.Lo[k])) / 1000 })
}

// TimeOfLast returns the time of the last sample of each window, in seconds.
func TimeOfLast() Func {
	return perWindow(1, func(w *Window, k int) float64 { return float64(w.time(w.Hi[k]-1)) / 1000 })
}

// LastOverTime returns the last sample of each window.
func LastOverTime() Func {
	return perWindow(1, func(w *Window, k int) float64 { return w.Values[w.Hi[k]-1] })
}

// FirstOverTime returns the first sample of each window.
func FirstOverTime() Func {
	return perWindow(1, func(w *Window, k int) float64 { return w.Values[w.Lo[k]] })
}

// SumOverTime adds up each window in the order of time, with compensation. It sums long overlapping windows from
// the sums of blocks, which may change the last bits of a result.
func SumOverTime() Func {
	return blockwise(func(w *Window, k int) float64 {
		var sum, c float64
		for _, v := range w.valuesOf(k) {
			sum, c = Kahan(v, sum, c)
		}
		if Infinite(sum) {
			return sum
		}
		return sum + c
	}, func(sum, c, _ float64) float64 { return sum + c })
}

// AvgOverTime returns the mean of each window.
func AvgOverTime() Func {
	return blockwise(func(w *Window, k int) float64 { return average(w.valuesOf(k)) },
		func(sum, c, n float64) float64 { return sum/n + c/n })
}

// average is the compensated sum divided by the count. After the sample at which the sum would overflow, it is an
// incremental mean.
func average(vs []float64) float64 {
	sum, c := vs[0], 0.0
	for i, v := range vs[1:] {
		newSum, newC := Kahan(v, sum, c)
		if Infinite(newSum) {
			return incrementalMean(vs[i+1:], float64(i+1), sum, c)
		}
		sum, c = newSum, newC
	}
	n := float64(len(vs))
	return sum/n + c/n
}

// incrementalMean continues after n samples with the given sum and compensation.
func incrementalMean(vs []float64, n, sum, c float64) float64 {
	mean := sum / n
	c /= n
	for _, v := range vs {
		n++
		q := (n - 1) / n
		mean, c = kahansum.Inc(v/n, q*mean, q*c)
	}
	return mean + c
}

// changesOverTime counts, with running totals, the samples of a window that differ from their predecessor.
func changesOverTime(differs func(before, v float64) bool) Func {
	return func(w *Window, out []float64) {
		totals := slices.Grow(w.marks[:0], len(w.Values))
		total := 0
		for i, v := range w.Values {
			if i > 0 && differs(w.Values[i-1], v) {
				total++
			}
			totals = append(totals, total)
		}
		w.marks = totals
		for k := range out {
			if w.Lo[k] == w.Hi[k] {
				out[k] = grid.Absent()
				continue
			}
			out[k] = float64(totals[w.Hi[k]-1] - totals[w.Lo[k]])
		}
	}
}

// Resets counts the counter resets in each window.
func Resets() Func {
	return changesOverTime(func(before, v float64) bool { return v < before })
}

// Changes counts the samples in each window that differ from their predecessor.
func Changes() Func {
	return changesOverTime(func(before, v float64) bool {
		return v != before && !(math.IsNaN(v) && math.IsNaN(before))
	})
}

// BadQuantile reports whether no quantile q exists.
func BadQuantile(q float64) bool { return math.IsNaN(q) || q < 0 || q > 1 }

// Quantile interpolates between the two nearest ranks of the values. It reorders the values. NaN ranks first.
func Quantile(q float64, values []float64) float64 {
	switch {
	case len(values) == 0 || math.IsNaN(q):
		return math.NaN()
	case q < 0:
		return math.Inf(-1)
	case q > 1:
		return math.Inf(+1)
	}
	return interpolate(q, len(values), func(lower, upper int) (below, above float64) { return twoRanks(values, lower, upper) })
}

// interpolate computes the quantile q of n values. It calls values for the values of the two nearest ranks.
func interpolate(q float64, n int, values func(lower, upper int) (below, above float64)) float64 {
	last := float64(n - 1)
	rank := q * last
	lower := math.Max(0, math.Floor(rank))
	upper := math.Min(last, lower+1)
	weight := rank - math.Floor(rank)
	below, above := values(int(lower), int(upper))
	return below*(1-weight) + above*weight
}
