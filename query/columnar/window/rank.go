package window

import (
	"math/bits"
	"slices"
)

// twoRanks returns the values of two neighbouring ranks, or one value twice. It reorders the values. NaN ranks
// first.
func twoRanks(values []float64, lower, upper int) (below, above float64) {
	numbers := 0 // the values from this index on are numbers; earlier ones are NaN
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
	// rankSorted is the number of values below which selectRank sorts instead of partitioning.
	rankSorted = 12
	// rankSampled is the number of values above which pivotNear samples several values.
	rankSampled = 60
)

// selectRank reorders the values so that vs[k] has rank k, no earlier value is larger and no later value is smaller. It
// partitions the part with rank k until that part is small. If partitioning takes too long, it sorts the part.
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

// pivotNear returns one of the values. If there are many, its rank is near k. Then partitioning leaves few values if k is
// near an end, as for the usual quantiles, and branches are mostly predictable.
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
