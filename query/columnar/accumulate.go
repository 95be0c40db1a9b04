package columnar

import (
	"math"

	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
	"halite/query/columnar/window"
)

// addSum keeps sums in a and their compensation in b.
func addSum(g *accumulator, values []float64) {
	sums, comps := g.a[:len(values)], g.b[:len(values)]
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		if grid.IsAbsent(sums[k]) {
			sums[k] = v
			continue
		}
		if sums[k], comps[k] = window.Kahan(v, sums[k], comps[k]); window.Infinite(sums[k]) {
			comps[k] = 0
		}
	}
}

func finishSum(g *accumulator) {
	for k, v := range g.a {
		if !grid.IsAbsent(v) {
			g.a[k] = v + g.b[k]
		}
	}
}

// addAverage keeps sums, compensations and counts in a, b and c; where a sum would overflow, a is a mean from then on.
func addAverage(g *accumulator, values []float64) {
	sums, comps, counts := g.a[:len(values)], g.b[:len(values)], g.c[:len(values)]
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		counts[k]++
		if grid.IsAbsent(sums[k]) {
			sums[k] = v
			continue
		}
		n := counts[k]
		if g.incremental == nil || !g.incremental[k] {
			sum, comp := window.Kahan(v, sums[k], comps[k])
			if !window.Infinite(sum) {
				sums[k], comps[k] = sum, comp
				continue
			}
			if g.incremental == nil {
				g.incremental = make([]bool, len(values))
			}
			g.incremental[k] = true
			sums[k] /= n - 1
			comps[k] /= n - 1
		}
		q := (n - 1) / n
		sums[k], comps[k] = kahansum.Inc(v/n, q*sums[k], q*comps[k])
	}
}

func finishAverage(g *accumulator) {
	for k, v := range g.a {
		switch {
		case grid.IsAbsent(v):
		case g.incremental != nil && g.incremental[k]:
			g.a[k] = v + g.b[k]
		default:
			g.a[k] = v/g.c[k] + g.b[k]/g.c[k]
		}
	}
}

func addMin(g *accumulator, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) && (g.a[k] > v || math.IsNaN(g.a[k])) {
			g.a[k] = v
		}
	}
}

func addMax(g *accumulator, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) && (g.a[k] < v || math.IsNaN(g.a[k])) {
			g.a[k] = v
		}
	}
}

func addCount(g *accumulator, values []float64) {
	for k, v := range values {
		switch {
		case grid.IsAbsent(v):
		case grid.IsAbsent(g.a[k]):
			g.a[k] = 1
		default:
			g.a[k]++
		}
	}
}

func addGroup(g *accumulator, values []float64) {
	for k, v := range values {
		if !grid.IsAbsent(v) {
			g.a[k] = 1
		}
	}
}

// addVariance keeps the sum of squared distances in a, the mean in b and the count in c.
func addVariance(g *accumulator, values []float64) {
	for k, v := range values {
		if grid.IsAbsent(v) {
			continue
		}
		if grid.IsAbsent(g.a[k]) {
			g.a[k] = 0
			if math.IsNaN(v) || math.IsInf(v, 0) {
				g.a[k] = math.NaN()
			}
			g.b[k], g.c[k] = v, 1
			continue
		}
		g.c[k]++
		delta := v - g.b[k]
		g.b[k] += delta / g.c[k]
		g.a[k] += delta * (v - g.b[k])
	}
}

func finishVariance(result func(float64) float64) func(g *accumulator) {
	return func(g *accumulator) {
		for k, v := range g.a {
			if !grid.IsAbsent(v) {
				g.a[k] = result(v / g.c[k])
			}
		}
	}
}
