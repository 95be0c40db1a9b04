package window

import (
	"math/bits"
	"slices"
)

// twoRanks returns the values of two neighbouring ranks, or of one twice. It reorders the values; NaN ranks first.
func twoRanks(values []float64, lower, upper int) (below, above float64) {
	numbers := 0 // from here on; NaN before
	for i, v := range values {
		if v != v {
			values[numbers], values[i] = v, values[numbers]
			numbers++
		}
	}
	if upper < numbers {
		return values[lower], values[upper]
	}
	rest := values[numbers:]
	if lower < numbers {
		return values[lower], slices.Min(rest)
	}
	selectRank(rest, lower-numbers)
	below, above = values[lower], values[lower]
	if upper > lower {
		above = slices.Min(values[upper:])
	}
	return below, above
}

const (
	// rankSorted is the number of values from which on they are not worth dividing.
	rankSorted = 12
	// rankSampled is the number from which on a few of them are looked at for one to divide by.
	rankSampled = 60
)

// selectRank moves the values so that vs[k] is the one of rank k, none before it larger and none after it smaller. It
// divides the part with that rank until it is small, or sorts it if that goes on for too long.
func selectRank(vs []float64, k int) {
	lo, hi := 0, len(vs)-1
	for rounds := 2 * bits.Len(uint(len(vs))); hi-lo >= rankSorted; rounds-- {
		if rounds == 0 {
			slices.Sort(vs[lo : hi+1])
			return
		}
		pivot := pivotNear(vs[lo:hi+1], k-lo)
		i, j := lo, hi
		for i <= j {
			for vs[i] < pivot {
				i++
			}
			for vs[j] > pivot {
				j--
			}
			if i <= j {
				vs[i], vs[j] = vs[j], vs[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return
		}
	}
	sortFew(vs[lo : hi+1])
}

// pivotNear returns one of the values, of about rank k if they are many: dividing by it leaves few of them when k is near
// an end, as it is for the quantiles that are asked for most, and which side each is on can mostly be foretold.
func pivotNear(vs []float64, k int) float64 {
	if len(vs) < rankSampled {
		a, b, c := vs[0], vs[len(vs)/2], vs[len(vs)-1]
		return max(min(a, b), min(max(a, b), c))
	}
	var sample [7]float64
	for i := range sample {
		sample[i] = vs[(2*i+1)*len(vs)/(2*len(sample))]
	}
	sortFew(sample[:])
	return sample[k*len(sample)/len(vs)]
}

// sortFew sorts a few values without NaN.
func sortFew(vs []float64) {
	for i := 1; i < len(vs); i++ {
		v, at := vs[i], i
		for ; at > 0 && vs[at-1] > v; at-- {
			vs[at] = vs[at-1]
		}
		vs[at] = v
	}
}
