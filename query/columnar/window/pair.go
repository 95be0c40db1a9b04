package window

import "math"

// pair is a sum in two parts: rest is the rounding error of sum. Prometheus's compensated sums have the same bits while all
// values are finite, because the order of the two terms of an addition does not change its rounding error.
type pair struct{ sum, rest float64 }

func (p pair) add(v float64) pair {
	t := p.sum + v
	y := t - p.sum
	return pair{t, p.rest + ((p.sum - (t - y)) + (v - y))}
}

// value is the sum, rounded once.
func (p pair) value() float64 { return p.sum + p.rest }

// finite reports whether the sum and all intermediate sums were finite.
func (p pair) finite() bool { return p.rest-p.rest == 0 && p.sum-p.sum == 0 }

// times multiplies by a number.
func (p pair) times(v float64) pair {
	product := p.sum * v
	return pair{product, math.FMA(p.sum, v, -product) + p.rest*v}
}

// minus subtracts another pair.
func (p pair) minus(o pair) pair {
	d := p.add(-o.sum)
	d.rest -= o.rest
	return d
}

// prefixes are running sums: element i is the sum of the first i terms. The difference of two elements is the sum of a
// window.
type prefixes []pair

// reset makes room for n terms and sets the sum of no terms.
func (p prefixes) reset(n int) prefixes {
	if cap(p) < n+1 {
		p = make(prefixes, n+1)
	}
	p = p[:n+1]
	p[0] = pair{}
	return p
}

// between returns the sum of the terms [lo, hi).
func (p prefixes) between(lo, hi int) pair { return p[hi].minus(p[lo]) }

const (
	// magnitudeMax and magnitudeMin bound the values in prefixes, so that products do not overflow or underflow.
	magnitudeMax = 1e100
	magnitudeMin = 1e-100
	// carriedMax bounds the ratio of the running sums to the sum of a window. Running sums are exact to about 2^-100 of
	// their own size.
	carriedMax = 1 << 30
	// roundoff is half the distance between 1 and the next larger number.
	roundoff = 1.0 / (1 << 53)
	// toleranceMax is the largest relative error of a result that counts as equal: half of the permitted difference of
	// results.
	toleranceMax = 5e-13
)

// odd reports whether prefixes cannot include a value.
func odd(v float64) bool {
	v = math.Abs(v)
	return !(v <= magnitudeMax) || v < magnitudeMin && v != 0
}

// runs follows sliding windows over the values of a series. It finds odd values and runs of equal values.
type runs struct {
	vs      []float64
	changed int // position of the window's first value that differs from its predecessor
	odd     int // position of the first odd value from the window's start on
}

// window moves to the values [lo, hi). Neither bound may decrease.
func (r *runs) window(lo, hi int) (constant, hasOdd bool) {
	r.changed, r.odd = max(r.changed, lo+1), max(r.odd, lo)
	for r.changed < hi && r.vs[r.changed] == r.vs[r.changed-1] {
		r.changed++
	}
	for r.odd < hi && !odd(r.vs[r.odd]) {
		r.odd++
	}
	return r.changed >= hi, r.odd < hi
}
