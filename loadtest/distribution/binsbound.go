package distribution

import "math"

// boundErrorRate is the probability with which a random placement may exceed maxOverMeanBound.
const boundErrorRate = 0.01

// maxOverMeanBound bounds the fullest bin over the mean if n balls fall into bins at random. The bound fails with
// probability boundErrorRate. It is x·bins for the solution x of n·KL(x‖1/bins) = ln(bins/boundErrorRate): Chernoff's
// bound for each bin, and the union bound over all bins.
func maxOverMeanBound(n, bins int) float64 {
	if n <= 0 || bins <= 1 {
		return 1
	}
	p := 1 / float64(bins)
	limit := math.Log(float64(bins)/boundErrorRate) / float64(n)
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

// divergence returns the Kullback-Leibler divergence of two Bernoulli distributions with the given means.
func divergence(x, p float64) float64 {
	if x >= 1 {
		return -math.Log(p)
	}
	return x*math.Log(x/p) + (1-x)*math.Log((1-x)/(1-p))
}
