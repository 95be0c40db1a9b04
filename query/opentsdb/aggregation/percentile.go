package aggregation

import (
	"math"
	"slices"
)

// estimation returns the position of a quantile between 0 and 1 among n sorted values. The first value has position 1. Between
// two positions the percentile is interpolated.
type estimation func(quantile, n float64) float64

func legacy(quantile, n float64) float64 { return quantile * (n + 1) }

// nearestRank is estimate R-3 of Hyndman and Fan.
func nearestRank(quantile, n float64) float64 {
	if quantile <= 0.5/n {
		return 0
	}
	return math.RoundToEven(n * quantile)
}

// inclusive is estimate R-7 of Hyndman and Fan.
func inclusive(quantile, n float64) float64 { return 1 + float64((n-1)*quantile) }

// percentile returns percentile p, from 0 to 100, of one or more sorted values.
func percentile(p float64, estimate estimation, sorted []float64) float64 {
	n := len(sorted)
	if n == 1 {
		return sorted[0]
	}
	at := estimate(p/100, float64(n))
	floor := math.Floor(at)
	i := int(floor)
	switch {
	case at < 1:
		return sorted[0]
	case at >= float64(n):
		return sorted[n-1]
	}
	return sorted[i-1] + float64((at-floor)*(sorted[i]-sorted[i-1]))
}

func percentileDoubles(p float64) func([]float64) float64 {
	return func(values []float64) float64 {
		values = sortedNumbers(values)
		if len(values) == 0 {
			return math.NaN()
		}
		return percentile(p, legacy, values)
	}
}

func percentileLongs(p float64, estimate estimation) func([]int64) int64 {
	return func(values []int64) int64 {
		doubles := make([]float64, len(values))
		for i, v := range values {
			doubles[i] = float64(v)
		}
		slices.Sort(doubles)
		return truncated(percentile(p, estimate, doubles))
	}
}
