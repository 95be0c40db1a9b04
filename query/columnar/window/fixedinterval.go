package window

import (
	"halite/query/columnar/grid"
)

// fixedInterval has the bounds of windows over evenly spaced samples if each step is a whole number of sample intervals. The
// bounds of step k are the bounds of the first step plus k times that number, limited to the existing samples.
type fixedInterval struct {
	lo, hi    int // bounds of the first step, as if there were samples at all times
	perStep   int // samples per step; 0 if samples or steps are not evenly spaced; any number for a single step
	samples   int
	from, end int // steps [from, end) have windows with all their samples
}

// fixedIntervalMemo caches the fixedInterval of the previous series. Series of one target are consecutive and have the same
// sample times. So they share the fixedInterval and the extrapolation of their first whole window.
type fixedIntervalMemo struct {
	firstMs, stepMs, endMs int64
	samples, steps         int

	even      fixedInterval
	rate      windowRate
	rateKnown bool
}

// get returns the fixedInterval of the samples and steps, or the cached one.
func (m *fixedIntervalMemo) get(w *Window, stepMs int64) fixedInterval {
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

// SamplesUpTo counts the samples up to a time. They are stepMs apart and begin at firstMs. A negative result is the
// number of missing samples.
func SamplesUpTo(firstMs, stepMs, tsMs int64) int {
	n := (tsMs - firstMs) / stepMs
	if (tsMs-firstMs)%stepMs < 0 {
		n-- // rounds towards the past
	}
	return int(n) + 1
}

// at returns the bounds of step k.
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

// count adds the samples to the statistics. first is the number of the first step. It returns the number of samples
// in the largest window.
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
	from := min(e.from+1, e.end) // the first step has no predecessor
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
