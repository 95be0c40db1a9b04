package loadtest

import (
	"math"
	"slices"
)

// boundDoubt is the probability with which an even spread may exceed boundMaxOverMean.
const boundDoubt = 0.01

// boundMaxOverMean is how far the fullest of bins may be above the mean if n balls fall into bins at random, except with
// probability boundDoubt: the solution x of n·KL(x‖1/bins) = ln(bins/boundDoubt), Chernoff's bound for each bin and the
// union of all, divided by the mean.
func boundMaxOverMean(n, bins int) float64 {
	if n <= 0 || bins <= 1 {
		return 1
	}
	p := 1 / float64(bins)
	limit := math.Log(float64(bins)/boundDoubt) / float64(n)
	low, high := p, 1.0
	for range 100 {
		x := (low + high) / 2
		if divergence(x, p) < limit {
			low = x
		} else {
			high = x
		}
	}
	return min(high/p, float64(bins))
}

// divergence is the Kullback-Leibler divergence of two coins.
func divergence(x, p float64) float64 {
	if x >= 1 {
		return -math.Log(p)
	}
	return x*math.Log(x/p) + (1-x)*math.Log((1-x)/(1-p))
}

// Spread says how evenly something falls on ranges of keys.
type Spread struct {
	// Ranges is the number of salts or tablets; Loads what each of them got.
	Ranges int     `json:"ranges"`
	Loads  []int64 `json:"loads"`
	// MaxOverMean is the load of the hottest over the mean; HottestShare its share of all.
	MaxOverMean  float64 `json:"max_over_mean"`
	HottestShare float64 `json:"hottest_share"`
	// Bound is what MaxOverMean of as many series thrown at random stays below with 99 %; 0 where no chance is involved.
	Bound float64 `json:"bound,omitempty"`
}

func (s *Spread) sum() (sum int64) {
	for _, n := range s.Loads {
		sum += n
	}
	return sum
}

// newSpread sums up loads; series is the number of balls, 0 for none.
func newSpread(loads []int64, series int) Spread {
	s := Spread{Ranges: len(loads), Loads: loads}
	if sum := s.sum(); sum > 0 {
		s.HottestShare = float64(slices.Max(loads)) / float64(sum)
		s.MaxOverMean = s.HottestShare * float64(len(loads))
	}
	if series > 0 {
		s.Bound = boundMaxOverMean(series, len(loads))
	}
	return s
}
