package window

import (
	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
)

// VarianceOverTime returns the result of the variance of each window: the variance itself or its square root.
//
// Overlapping windows share running sums. These give the exact variance, rounded. Prometheus's result differs from it by some
// units in the last place times the mean over the deviation. A window with too small a deviation is computed sample by sample.
func VarianceOverTime(result func(variance float64) float64) Func {
	return func(w *Window, out []float64) {
		prepared := false
		var left welford // windows that are computed sample by sample
		for k := range out {
			lo, hi := w.Lo[k], w.Hi[k]
			if lo == hi {
				out[k] = grid.Absent()
				continue
			}
			if w.sharesSums(lo, hi) {
				if !prepared {
					w.spread.prepare(w.Values)
					prepared = true
				}
				if v, ok := w.spread.variance(lo, hi); ok {
					out[k] = result(v)
					continue
				}
			}
			if left.add(w.Values[lo:hi], k) {
				left.finish(out, result)
			}
		}
		left.finish(out, result)
	}
}

// welford computes some windows in parallel lanes, in the order of time, like Prometheus. Each mean depends on the previous one
// of its window, but not on other windows.
type welford struct {
	windows [4][]float64
	steps   [4]int
	n       int
}

// add adds a window. It reports whether all lanes are in use.
func (w *welford) add(vs []float64, step int) (full bool) {
	w.windows[w.n], w.steps[w.n] = vs, step
	w.n++
	return w.n == len(w.windows)
}

// finish computes the variances of the windows and frees the lanes.
func (w *welford) finish(out []float64, result func(variance float64) float64) {
	var lanes [4]moments
	n := 0 // number of samples in the shortest window
	if w.n == len(lanes) {
		a, b, c, d := w.windows[0], w.windows[1], w.windows[2], w.windows[3]
		n = min(len(a), len(b), len(c), len(d))
		a, b, c, d = a[:n], b[:n], c[:n], d[:n]
		for i := range a {
			count := float64(i + 1)
			lanes[0] = lanes[0].add(a[i], count)
			lanes[1] = lanes[1].add(b[i], count)
			lanes[2] = lanes[2].add(c[i], count)
			lanes[3] = lanes[3].add(d[i], count)
		}
	}
	for i := range w.n {
		vs, m := w.windows[i], lanes[i]
		for j, v := range vs[n:] {
			m = m.add(v, float64(n+j+1))
		}
		variance := m.squares.value() / float64(len(vs))
		if !m.mean.finite() || !m.squares.finite() {
			variance = infiniteVariance(vs)
		}
		out[w.steps[i]] = result(variance)
	}
	w.n = 0
}

// moments are the mean and the sum of squared distances from it.
type moments struct{ mean, squares pair }

// add adds the value with the number count.
func (m moments) add(v, count float64) moments {
	delta := v - m.mean.value()
	m.mean = m.mean.add(delta / count)
	m.squares = m.squares.add(float64(delta * (v - m.mean.value())))
	return m
}

// infiniteVariance is the variance for sums that are not finite. Prometheus then drops compensations.
func infiniteVariance(vs []float64) float64 {
	var count, mean, cMean, aux, cAux float64
	for _, v := range vs {
		count++
		delta := v - (mean + cMean)
		mean, cMean = kahansum.Inc(delta/count, mean, cMean)
		aux, cAux = kahansum.Inc(delta*(v-(mean+cMean)), aux, cAux)
	}
	return (aux + cAux) / count
}
