package window

import (
	"slices"

	"halite/query/column"
	"halite/query/columnar/grid"
	"halite/query/read"
)

// Window has the samples of a series, and for each step the bounds of the window that ends there.
type Window struct {
	read.Windows
	Grid   grid.Grid
	Params [][]float64 // parameters of the function, a value for each step
	// Exact makes the function sum each window in the order of its samples, even if windows share most samples.
	Exact bool

	Values []float64 // without stale markers
	ts     []int64   // times, of the same length; nil if firstMs and betweenMs determine them
	// firstMs is the time of the first sample. If ts is nil, betweenMs is the interval of the samples.
	firstMs, betweenMs int64
	// Lo[k] ≤ i < Hi[k] are the samples of step k. They are nil for a function that uses even instead.
	Lo, Hi []int
	// even is set if samples and steps are evenly spaced and a step is a whole number of sample intervals.
	even fixedInterval
	memo fixedIntervalMemo
	// samples are the samples of the column; nil if some of them are missing.
	samples *column.Samples

	Annotations []error // raised by the function

	staleTs []int64 // memory for ts and vs without stale markers
	staleVs []float64
	times   []int64 // memory for computed ts
	scratch []float64
	marks   []int
	blocks  blocks
	// Overlapping windows share these sums and ranks.
	lineSums lineSums
	spread   spread
	ranks    sortedWindow
	part     *Window // the last section
}

// Func computes a value for each step, or absent.
type Func func(w *Window, out []float64)

// New returns a Window, which holds one series at a time. params has a row of values for each parameter of the
// function.
func New(w read.Windows, g grid.Grid, params [][]float64) *Window {
	return &Window{Windows: w, Grid: g, Params: params, Lo: make([]int, w.Steps), Hi: make([]int, w.Steps)}
}

// Section returns the windows of some of the steps. It is valid until the next call.
func (w *Window) Section(first, steps int) *Window {
	if steps == w.Steps {
		return w
	}
	if w.part == nil {
		w.part = &Window{Params: make([][]float64, len(w.Params))}
	}
	p := w.part
	p.Windows, p.Grid = w.Windows, w.Grid
	p.FirstEndMs += int64(first) * w.StepMs
	p.Grid.StartMs = w.Grid.At(first)
	p.Steps, p.Grid.Steps = steps, steps
	p.Grid.EndMs = p.Grid.At(steps - 1)
	for i, values := range w.Params {
		p.Params[i] = values[first : first+steps]
	}
	p.Lo, p.Hi, p.Exact = w.Lo[:steps], w.Hi[:steps], w.Exact
	return p
}

// Reset loads the samples of a series and returns the number of samples in the largest window. first is the number of the
// first step. knowsEven means that the function needs no bounds if even is set.
func (w *Window) Reset(counts *grid.SampleCounts, first int, c *column.Column, knowsEven bool) (largest int) {
	if c.Len() == 0 {
		return 0
	}
	w.ts, w.Values, w.samples, w.even = c.TsMs, c.Values, &c.Samples, fixedInterval{}
	stepMs := c.StepMs
	if !c.NoStale && grid.HasAbsent(c.Values) {
		w.leaveOutStale(c)
		if len(w.Values) == 0 {
			return 0
		}
		stepMs = 0
	}
	w.firstMs, w.betweenMs = c.Time(0), stepMs
	if stepMs > 0 && (w.Steps == 1 && first == 0 || w.StepMs%stepMs == 0) {
		w.even = w.memo.get(w, stepMs)
		if !knowsEven {
			w.even.bounds(w.Lo, w.Hi)
		}
		return w.even.count(counts, first, len(w.Lo))
	}
	if w.ts == nil {
		w.times = c.Times(w.times)
		w.ts = w.times
	}
	return w.search(counts, first)
}

// time returns the time of sample i.
func (w *Window) time(i int) int64 {
	if w.ts == nil {
		return w.firstMs + int64(i)*w.betweenMs
	}
	return w.ts[i]
}

// search finds the bounds of all windows.
func (w *Window) search(counts *grid.SampleCounts, first int) (largest int) {
	ts := w.ts
	lo, hi := 0, 0
	end := w.FirstEndMs
	if first > 0 {
		// The samples of the previous step are already counted.
		for hi < len(ts) && ts[hi] <= end-w.StepMs {
			hi++
		}
	}
	total, fresh := counts.Total[first:first+len(w.Hi)], counts.Fresh[first:first+len(w.Hi)]
	ahead, behind := 0, 0 // distances of the last moves of the bounds, a guess for the next ones
	for k := range w.Hi {
		before, from := hi, lo
		hi = advance(ts, hi, ahead, end)
		lo = advance(ts[:hi], min(lo, hi), behind, end-w.RangeMs)
		ahead, behind = hi-before, lo-from
		w.Lo[k], w.Hi[k] = lo, hi
		if hi > lo {
			largest = max(largest, hi-lo)
			total[k] += int64(hi - lo)
			fresh[k] += int64(hi - max(lo, before))
		}
		end += w.StepMs
	}
	return largest
}

// advance returns the number of times up to endMs. All times before at are earlier. guess is the likely number of additional
// ones.
func advance(ts []int64, at, guess int, endMs int64) int {
	if next := at + guess; guess > 1 && next <= len(ts) && ts[next-1] <= endMs {
		at = next
	}
	for at < len(ts) && ts[at] <= endMs {
		at++
	}
	return at
}

func (w *Window) leaveOutStale(c *column.Column) {
	w.staleTs, w.staleVs = w.staleTs[:0], w.staleVs[:0]
	for i, v := range w.Values {
		if !grid.IsAbsent(v) {
			w.staleTs = append(w.staleTs, c.Time(i))
			w.staleVs = append(w.staleVs, v)
		}
	}
	w.ts, w.Values, w.samples = w.staleTs, w.staleVs, nil
}

// apart reports whether windows share no samples.
func (w *Window) apart() bool { return w.Steps == 1 || w.StepMs >= w.RangeMs }

// perWindow makes a Func of a function of one window. The result is absent for windows with fewer than samplesMin
// samples.
func perWindow(samplesMin int, f func(w *Window, k int) float64) Func {
	return func(w *Window, out []float64) {
		for k := range out {
			if w.Hi[k]-w.Lo[k] < samplesMin {
				out[k] = grid.Absent()
				continue
			}
			out[k] = f(w, k)
		}
	}
}

// memory returns scratch memory for n numbers.
func (w *Window) memory(n int) []float64 {
	w.scratch = slices.Grow(w.scratch[:0], n)
	return w.scratch[:n]
}

// valuesOf returns the samples of step k.
func (w *Window) valuesOf(k int) []float64 { return w.Values[w.Lo[k]:w.Hi[k]] }
