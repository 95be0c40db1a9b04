package window

import "math"

// pair is a sum in two parts: rest is what rounding took from sum. Prometheus's compensated sums are equal to the last bit, as
// long as all is finite: the order in which the two terms of an addition come does not change what rounding takes.
type pair struct{ sum, rest float64 }

func (p pair) add(v float64) pair {
	t := p.sum + v
	of := t - p.sum
	return pair{t, p.rest + ((p.sum - (t - of)) + (v - of))}
}

// value is the sum, rounded once.
func (p pair) value() float64 { return p.sum + p.rest }

// finite reports whether the sum and all sums on the way to it were finite.
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

// prefixes are running sums: element i adds up the first i terms. The difference of two of them is the sum of a window.
type prefixes []pair

// reset makes room for n terms. The sum of none is there.
func (p prefixes) reset(n int) prefixes {
	if cap(p) < n+1 {
		p = make(prefixes, n+1)
	}
	p = p[:n+1]
	p[0] = pair{}
	return p
}

// between adds up the terms from lo to before hi.
func (p prefixes) between(lo, hi int) pair { return p[hi].minus(p[lo]) }

const (
	// magnitudeMax and magnitudeMin bound the values that prefixes add up, so that products neither overflow nor vanish.
	magnitudeMax = 1e100
	magnitudeMin = 1e-100
	// carriedMax is how many times larger than the sum of a window the running sums may be. They are good to about 2^-100 of
	// their own size.
	carriedMax = 1 << 30
	// roundoff is half the distance between 1 and the next larger number.
	roundoff = 1.0 / (1 << 53)
	// toleranceMax is the relative error up to which a result counts as equal: half of what answers may differ by.
	toleranceMax = 5e-13
)

// odd reports whether prefixes cannot add a value up.
func odd(v float64) bool {
	v = math.Abs(v)
	return !(v <= magnitudeMax) || v < magnitudeMin && v != 0
}

// runs follows windows that slide over the values of a series, and notices odd values and equal ones.
type runs struct {
	vs      []float64
	changed int // the first value behind the first of the window that differs from the value before it
	odd     int // the first odd value from the first of the window on
}

// window moves on to the values from lo to before hi. Neither may go back.
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
