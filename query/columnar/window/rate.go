package window

import (
	"time"

	"halite/query/columnar/grid"
)

// Rate returns the increase of a counter per second in windows of rangeMs milliseconds.
func Rate(rangeMs int64) Func { return extrapolation{counter: true, perSecond: true}.over(rangeMs) }

// Increase returns the increase of a counter in windows of rangeMs milliseconds.
func Increase(rangeMs int64) Func { return extrapolation{counter: true}.over(rangeMs) }

// Delta returns the increase of a gauge in windows of rangeMs milliseconds.
func Delta(rangeMs int64) Func { return extrapolation{}.over(rangeMs) }

// over returns the difference between the last and the first sample of a window. It adds counter resets for a counter, and
// extrapolates towards the ends of the window like Prometheus.
func (x extrapolation) over(rangeMs int64) Func {
	x.rangeSeconds = (time.Duration(rangeMs) * time.Millisecond).Seconds()
	return func(w *Window, out []float64) {
		d := difference{Window: w, extrapolation: &x}
		if x.counter {
			w.marks = w.appendResets(w.marks[:0])
			d.resets = w.marks
		}
		if w.even.perStep > 0 {
			d.evenSteps(out)
			return
		}
		end := w.FirstEndMs
		for k := range out {
			out[k] = d.step(w.Lo[k], w.Hi[k], end)
			end += w.StepMs
		}
	}
}

// difference computes increases step by step.
type difference struct {
	*Window
	*extrapolation
	resets []int // positions of resets that later windows may have
}

// step is the value of a window.
func (d *difference) step(lo, hi int, endMs int64) float64 {
	if hi-lo < 2 {
		return grid.Absent()
	}
	s := d.windowRate(d.Window, lo, hi, endMs)
	return s.extrapolate(d.sum(lo, hi), d.Values[lo])
}

// sum is the difference between the samples lo and hi-1, plus the values lost by resets between them.
func (d *difference) sum(lo, hi int) float64 {
	diff := d.Values[hi-1] - d.Values[lo]
	for len(d.resets) > 0 && d.resets[0] <= lo {
		d.resets = d.resets[1:]
	}
	for _, r := range d.resets {
		if r >= hi {
			break
		}
		diff += d.Values[r-1]
	}
	return diff
}

// evenSteps computes all steps if samples and steps are evenly spaced. All whole windows have the same
// extrapolation.
func (d *difference) evenSteps(out []float64) {
	e := &d.even
	k := 0
	for ; k < min(e.from, len(out)); k++ {
		lo, hi := e.at(k)
		out[k] = d.step(lo, hi, d.FirstEndMs+int64(k)*d.StepMs)
	}
	if lo, hi := e.at(k); k < e.end && hi-lo >= 2 {
		s := &d.memo.rate
		if !d.memo.rateKnown {
			*s, d.memo.rateKnown = d.windowRate(d.Window, lo, hi, d.FirstEndMs+int64(k)*d.StepMs), true
		}
		if len(d.resets) == 0 {
			s.strides(out[k:e.end], d.Values[lo:], d.Values[hi-1:], e.perStep)
			k = e.end
		}
		for ; k < e.end; k++ {
			out[k] = s.extrapolate(d.sum(lo, hi), d.Values[lo])
			lo, hi = lo+e.perStep, hi+e.perStep
		}
	}
	for ; k < len(out); k++ {
		lo, hi := e.at(k)
		out[k] = d.step(lo, hi, d.FirstEndMs+int64(k)*d.StepMs)
	}
}

// appendResets appends the positions of values that are smaller than their predecessor.
func (w *Window) appendResets(to []int) []int {
	if w.samples != nil {
		if all, known := w.samples.AppendResets(to); known {
			return all
		}
	}
	return AppendResets(to, w.Values)
}

// AppendResets appends the positions of the samples that are smaller than their predecessor.
func AppendResets(dst []int, vs []float64) []int {
	for i := 1; i < len(vs); i++ {
		if vs[i] < vs[i-1] {
			dst = append(dst, i)
		}
	}
	return dst
}

type extrapolation struct {
	counter, perSecond bool
	rangeSeconds       float64
}

// windowRate extrapolates differences over a window. It depends on the times of the samples only.
type windowRate struct {
	*extrapolation
	sampled, toStart, toEnd float64
	factor                  float64 // if the series may begin as early as toStart
}

// windowRate computes the extrapolation of the window of samples lo to hi-1 that ends at endMs. The order of the
// operations is Prometheus's, for equal bits.
func (e *extrapolation) windowRate(w *Window, lo, hi int, endMs int64) windowRate {
	firstMs, lastMs := w.time(lo), w.time(hi-1)
	s := windowRate{
		extrapolation: e, sampled: float64(lastMs-firstMs) / 1000,
		toStart: float64(firstMs-(endMs-w.RangeMs)) / 1000, toEnd: float64(endMs-lastMs) / 1000,
	}
	between := s.sampled / float64(hi-lo-1)
	threshold := between * 1.1

	// If a sample is near an end of the window, the series extends to that end. Otherwise it extends by half
	// an interval.
	if s.toStart >= threshold {
		s.toStart = between / 2
	}
	if s.toEnd >= threshold {
		s.toEnd = between / 2
	}
	s.factor = s.from(s.toStart)
	return s
}

// from is the factor for a series that begins the given number of seconds before the first sample.
func (s *windowRate) from(toStart float64) float64 {
	factor := 1.0
	if s.sampled != 0 {
		factor = (s.sampled + toStart + s.toEnd) / s.sampled
	}
	if s.perSecond {
		factor /= s.rangeSeconds
	}
	return factor
}

// extrapolate extrapolates a difference over the window. first is the value of the first sample.
func (s *windowRate) extrapolate(diff, first float64) float64 {
	// A counter was never below zero. If first is at least twice the difference, the counter left zero longer than
	// toStart before its first sample, because toStart is at most 1.1 times sampled. That saves a division.
	if s.counter && diff > 0 && first >= 0 && first < 2*diff {
		if toZero := s.sampled * (first / diff); toZero < s.toStart {
			return diff * s.from(toZero)
		}
	}
	return diff * s.factor
}

// strides extrapolates the differences between the values of two slices at a constant distance.
func (s *windowRate) strides(out, firsts, lasts []float64, stride int) {
	factor, counter := s.factor, s.counter
	at := 0
	for k := range out {
		first := firsts[at]
		diff := lasts[at] - first
		at += stride
		if counter && first < 2*diff {
			out[k] = s.extrapolate(diff, first)
			continue
		}
		out[k] = diff * factor
	}
}

// IRate returns the increase of a counter per second between the last two samples of a window.
func IRate() Func { return lastPair(true) }

// IDelta returns the difference between the last two samples of a window.
func IDelta() Func { return lastPair(false) }

func lastPair(rate bool) Func {
	return perWindow(2, func(w *Window, k int) float64 {
		i := w.Hi[k] - 1
		v := w.Values[i]
		if !rate || !(v < w.Values[i-1]) {
			v -= w.Values[i-1]
		}
		if rate {
			v /= float64(w.time(i)-w.time(i-1)) / 1000
		}
		return v
	})
}
