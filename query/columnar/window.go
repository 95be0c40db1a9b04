package columnar

import (
	"slices"

	"halite/query/column"
	"halite/query/read"
)

// window is the samples of a series and, for each step, which of them are in the window that ends there.
type window struct {
	read.Windows
	grid   Grid
	params [][]float64 // of the function, a value for each step

	vs []float64 // without stale markers
	ts []int64   // of the same length; nil where firstMs and betweenMs tell them
	// firstMs is the time of the first sample, betweenMs that between samples where ts are not there.
	firstMs, betweenMs int64
	// lo[k] ≤ i < hi[k] are the samples of step k. They are not there for a function that knows what to do with even.
	lo, hi []int
	// even is set if samples and steps are evenly spaced and a step is so many samples.
	even even
	memo evenMemo
	// samples are those of the column, nil if some of it were left out.
	samples *column.Samples

	annos []error // raised by the function

	staleTs []int64 // memory for ts and vs where markers had to be left out
	staleVs []float64
	times   []int64 // memory for ts where they have to be made
	scratch []float64
	marks   []int
	blocks  blocks
	part    *window // the section asked for last
}

// windowFunc computes a value for each step, or absent.
type windowFunc func(w *window, out []float64)

func newWindow(w read.Windows, g Grid, params [][]float64) *window {
	return &window{Windows: w, grid: g, params: params, lo: make([]int, w.Steps), hi: make([]int, w.Steps)}
}

// section is the window of some of the steps. It is valid until the next call.
func (w *window) section(first, steps int) *window {
	if steps == w.Steps {
		return w
	}
	if w.part == nil {
		w.part = &window{params: make([][]float64, len(w.params))}
	}
	p := w.part
	p.Windows, p.grid = w.Windows, w.grid
	p.FirstEndMs += int64(first) * w.StepMs
	p.grid.StartMs = w.grid.at(first)
	p.Steps, p.grid.Steps = steps, steps
	p.grid.EndMs = p.grid.at(steps - 1)
	for i, values := range w.params {
		p.params[i] = values[first : first+steps]
	}
	p.lo, p.hi = w.lo[:steps], w.hi[:steps]
	return p
}

// reset takes the samples of a series; it returns how many the window with most of them has. first is the number of the
// first step. knowsEven says that the function needs no bounds where there is an even.
func (w *window) reset(ev *eval, first int, c *column.Column, knowsEven bool) (largest int) {
	if c.Len() == 0 {
		return 0
	}
	w.ts, w.vs, w.samples, w.even = c.TsMs, c.Values, &c.Samples, even{}
	stepMs := c.StepMs
	if !c.NoStale && hasAbsent(c.Values) {
		w.leaveOutStale(c)
		if len(w.vs) == 0 {
			return 0
		}
		stepMs = 0
	}
	w.firstMs, w.betweenMs = c.Time(0), stepMs
	if stepMs > 0 && (w.Steps == 1 && first == 0 || w.StepMs%stepMs == 0) {
		w.even = w.memo.of(w, stepMs)
		if !knowsEven {
			w.even.bounds(w.lo, w.hi)
		}
		return w.even.count(ev, first, len(w.lo))
	}
	if w.ts == nil {
		w.times = c.Times(w.times)
		w.ts = w.times
	}
	return w.search(ev, first)
}

// time is that of sample i.
func (w *window) time(i int) int64 {
	if w.ts == nil {
		return w.firstMs + int64(i)*w.betweenMs
	}
	return w.ts[i]
}

// search finds the bounds of all windows.
func (w *window) search(ev *eval, first int) (largest int) {
	ts := w.ts
	lo, hi := 0, 0
	end := w.FirstEndMs
	if first > 0 {
		// What the step before had was counted.
		for hi < len(ts) && ts[hi] <= end-w.StepMs {
			hi++
		}
	}
	total, fresh := ev.total[first:first+len(w.hi)], ev.fresh[first:first+len(w.hi)]
	ahead, behind := 0, 0 // how far the ends moved at the last step: they mostly do so again
	for k := range w.hi {
		before, from := hi, lo
		hi = advance(ts, hi, ahead, end)
		lo = advance(ts[:hi], min(lo, hi), behind, end-w.RangeMs)
		ahead, behind = hi-before, lo-from
		w.lo[k], w.hi[k] = lo, hi
		if hi > lo {
			largest = max(largest, hi-lo)
			total[k] += int64(hi - lo)
			fresh[k] += int64(hi - max(lo, before))
		}
		end += w.StepMs
	}
	return largest
}

// advance returns the number of times up to endMs, given that those before at are; guess is how many more may be.
func advance(ts []int64, at, guess int, endMs int64) int {
	if next := at + guess; guess > 1 && next <= len(ts) && ts[next-1] <= endMs {
		at = next
	}
	for at < len(ts) && ts[at] <= endMs {
		at++
	}
	return at
}

func (w *window) leaveOutStale(c *column.Column) {
	w.staleTs, w.staleVs = w.staleTs[:0], w.staleVs[:0]
	for i, v := range w.vs {
		if !isAbsent(v) {
			w.staleTs = append(w.staleTs, c.Time(i))
			w.staleVs = append(w.staleVs, v)
		}
	}
	w.ts, w.vs, w.samples = w.staleTs, w.staleVs, nil
}

// apart reports whether no two windows share samples.
func (w *window) apart() bool { return w.Steps == 1 || w.StepMs >= w.RangeMs }

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

// memory is scratch for so many numbers.
func (w *window) memory(n int) []float64 {
	w.scratch = slices.Grow(w.scratch[:0], n)
	return w.scratch[:n]
}

// values are those of step k.
func (w *window) values(k int) []float64 { return w.vs[w.lo[k]:w.hi[k]] }
