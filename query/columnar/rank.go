package columnar

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

// rankSorted is the number of values from which on they are not worth dividing.
const rankSorted = 12

// selectRank moves the values so that vs[k] is the one of rank k, none before it larger and none after it smaller. It
// divides the part with that rank until it is small, or sorts it if that goes on for too long.
func selectRank(vs []float64, k int) {
	lo, hi := 0, len(vs)-1
	for rounds := 2 * bits.Len(uint(len(vs))); hi-lo >= rankSorted && rounds > 0; rounds-- {
		a, b, c := vs[lo], vs[int(uint(lo+hi)>>1)], vs[hi]
		pivot := max(min(a, b), min(max(a, b), c))
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
	slices.Sort(vs[lo : hi+1])
}
