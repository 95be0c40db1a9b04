package columnar

import (
	"slices"

	"halite/query/promql"
)

// window is the samples of a series and, for each step, which of them are in the window that ends there.
type window struct {
	promql.Windows
	grid   Grid
	params [][]float64 // of the function, a value for each step

	ts []int64   // without stale markers
	vs []float64 // of the same length
	// lo[k] ≤ i < hi[k] are the samples of step k.
	lo, hi []int

	annos []error // raised by the function

	staleTs []int64 // memory for ts and vs where markers had to be left out
	staleVs []float64
	scratch []float64
	marks   []int
	blocks  blocks
}

// windowFunc computes a value for each step, or absent.
type windowFunc func(w *window, out []float64)

func newWindow(w promql.Windows, g Grid, params [][]float64) *window {
	return &window{Windows: w, grid: g, params: params, lo: make([]int, w.Steps), hi: make([]int, w.Steps)}
}

// reset takes the samples of a series; it returns how many the window with most of them has.
func (w *window) reset(ev *eval, ts []int64, vs []float64) (largest int) {
	w.ts, w.vs = ts, vs
	if slices.ContainsFunc(vs, isAbsent) {
		w.leaveOutStale()
	}
	ts = w.ts
	lo, hi := 0, 0
	end := w.FirstEndMs
	for k := range w.hi {
		before := hi
		for hi < len(ts) && ts[hi] <= end {
			hi++
		}
		for lo < hi && ts[lo] <= end-w.RangeMs {
			lo++
		}
		w.lo[k], w.hi[k] = lo, hi
		if hi > lo {
			largest = max(largest, hi-lo)
			ev.total[k] += int64(hi - lo)
			ev.read[k] += int64(hi - max(lo, before))
		}
		end += w.StepMs
	}
	return largest
}

func (w *window) leaveOutStale() {
	w.staleTs, w.staleVs = w.staleTs[:0], w.staleVs[:0]
	for i, v := range w.vs {
		if !isAbsent(v) {
			w.staleTs = append(w.staleTs, w.ts[i])
			w.staleVs = append(w.staleVs, v)
		}
	}
	w.ts, w.vs = w.staleTs, w.staleVs
}

// each makes a windowFunc of a function of one window that has at least samplesMin samples.
func each(samplesMin int, f func(w *window, k int) float64) windowFunc {
	return func(w *window, out []float64) {
		for k := range out {
			if w.hi[k]-w.lo[k] < samplesMin {
				out[k] = absent()
				continue
			}
			out[k] = f(w, k)
		}
	}
}

// values are those of step k.
func (w *window) values(k int) []float64 { return w.vs[w.lo[k]:w.hi[k]] }
