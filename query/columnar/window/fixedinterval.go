package window

import (
	"halite/query/columnar/grid"
)

// fixedInterval is how windows lie over evenly spaced samples when each step is a number of them: the bounds of step k are those
// of the first, as far as there are samples, and k times that number.
type fixedInterval struct {
	lo, hi    int // of the first step, as if there were samples at all times
	perStep   int // 0 if samples or steps are not so; if there is but one step it does not matter
	samples   int
	from, end int // steps whose windows have all their samples, to before end
}

// fixedIntervalMemo is the fixedInterval of the previous series. Series of one target follow each other and have the same
// sample times, so they share it, and the extrapolation of their first whole window.
type fixedIntervalMemo struct {
	firstMs, stepMs, endMs int64
	samples, steps         int

	even      fixedInterval
	stretch   stretch
	stretched bool
}

// of is newFixedInterval.
func (m *fixedIntervalMemo) of(w *Window, stepMs int64) fixedInterval {
	if m.firstMs != w.firstMs || m.stepMs != stepMs || m.endMs != w.FirstEndMs ||
		m.samples != len(w.Values) || m.steps != len(w.Lo) {
		*m = fixedIntervalMemo{
			firstMs: w.firstMs, stepMs: stepMs, endMs: w.FirstEndMs, samples: len(w.Values), steps: len(w.Lo),
			even: newFixedInterval(w, stepMs),
		}
	}
	return m.even
}

func newFixedInterval(w *Window, stepMs int64) fixedInterval {
	e := fixedInterval{
		lo: SamplesUpTo(w.firstMs, stepMs, w.FirstEndMs-w.RangeMs), hi: SamplesUpTo(w.firstMs, stepMs, w.FirstEndMs),
		perStep: max(1, int(w.StepMs/stepMs)), samples: len(w.Values),
	}
	steps := len(w.Lo)
	if e.lo < 0 {
		e.from = min(steps, (-e.lo+e.perStep-1)/e.perStep)
	}
	e.end = e.from
	if last := e.samples - e.hi; last >= 0 {
		e.end = max(e.from, min(steps, last/e.perStep+1))
	}
	return e
}

// SamplesUpTo counts samples that are stepMs apart, from firstMs on, up to a time; below zero it is how many are missing.
func SamplesUpTo(firstMs, stepMs, tsMs int64) int {
	n := (tsMs - firstMs) / stepMs
	if (tsMs-firstMs)%stepMs < 0 {
		n-- // towards the past
	}
	return int(n) + 1
}

// at are the bounds of step k.
func (e *fixedInterval) at(k int) (lo, hi int) {
	lo, hi = e.lo+k*e.perStep, e.hi+k*e.perStep
	return min(max(lo, 0), e.samples), min(max(hi, 0), e.samples)
}

// bounds fills in the bounds of all steps.
func (e *fixedInterval) bounds(los, his []int) {
	for k := range los {
		los[k], his[k] = e.at(k)
	}
}

// count adds to the statistics; first is the number of the first of the steps. It returns how many samples the window
// with most of them has.
func (e *fixedInterval) count(counts *grid.SampleCounts, first, steps int) (largest int) {
	one := func(k int) {
		lo, hi := e.at(k)
		if hi == lo {
			return
		}
		before := 0
		if first+k > 0 {
			_, before = e.at(k - 1)
		}
		largest = max(largest, hi-lo)
		counts.Total[first+k] += int64(hi - lo)
		counts.Fresh[first+k] += int64(hi - max(lo, before))
	}
	from := min(e.from+1, e.end) // the first step has none before it
	for k := range from {
		one(k)
	}
	if from < e.end && e.hi > e.lo {
		all := e.hi - e.lo
		largest = max(largest, all)
		counts.Spans(first+from, first+e.end, int64(all), int64(min(all, e.perStep)))
	}
	for k := e.end; k < steps; k++ {
		one(k)
	}
	return largest
}
