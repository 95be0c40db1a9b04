package columnar

import "time"

// increase makes rate, increase and delta: the difference between the last and the first sample of a window, counter
// resets added where it is a counter, extrapolated towards the ends of the window as Prometheus does.
func increase(rangeMs int64, counter, perSecond bool) windowFunc {
	e := extrapolation{
		counter: counter, perSecond: perSecond,
		rangeSeconds: (time.Duration(rangeMs) * time.Millisecond).Seconds(),
	}
	return func(w *window, out []float64) {
		resets := w.marks[:0]
		if counter {
			resets = appendResets(resets, w.vs)
			w.marks = resets
		}
		end := w.FirstEndMs
		for k := range out {
			lo, hi := w.lo[k], w.hi[k]
			if hi-lo < 2 {
				out[k] = absent()
				end += w.StepMs
				continue
			}
			diff := w.vs[hi-1] - w.vs[lo]
			for len(resets) > 0 && resets[0] <= lo {
				resets = resets[1:]
			}
			for _, r := range resets {
				if r >= hi {
					break
				}
				diff += w.vs[r-1]
			}
			out[k] = e.extrapolate(w, lo, hi, end, diff)
			end += w.StepMs
		}
	}
}

// appendResets appends the positions of values that are smaller than the one before.
func appendResets(dst []int, vs []float64) []int {
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

// extrapolate stretches the difference between samples lo and hi-1 over the window that ends at endMs. The order of the
// operations is Prometheus', for equal bits.
func (e *extrapolation) extrapolate(w *window, lo, hi int, endMs int64, diff float64) float64 {
	firstMs, lastMs := w.ts[lo], w.ts[hi-1]
	toStart := float64(firstMs-(endMs-w.RangeMs)) / 1000
	toEnd := float64(endMs-lastMs) / 1000
	sampled := float64(lastMs-firstMs) / 1000
	between := sampled / float64(hi-lo-1)
	threshold := between * 1.1

	// Near an end, the series is taken to go on to it; otherwise half an interval further.
	if toStart >= threshold {
		toStart = between / 2
	}
	if e.counter {
		toZero := toStart
		// From twice the difference on, a counter was zero longer ago than toStart, which is at most 1.1 times sampled:
		// that saves a division.
		if first := w.vs[lo]; diff > 0 && first >= 0 && first < 2*diff {
			toZero = sampled * (first / diff)
		}
		// A counter was never below zero.
		if toZero < toStart {
			toStart = toZero
		}
	}
	if toEnd >= threshold {
		toEnd = between / 2
	}
	factor := 1.0
	if sampled != 0 {
		factor = (sampled + toStart + toEnd) / sampled
	}
	if e.perSecond {
		factor /= e.rangeSeconds
	}
	return diff * factor
}

// lastPair makes irate and idelta, of the last two samples of a window.
func lastPair(rate bool) windowFunc {
	return each(2, func(w *window, k int) float64 {
		i := w.hi[k] - 1
		v := w.vs[i]
		if !rate || !(v < w.vs[i-1]) {
			v -= w.vs[i-1]
		}
		if rate {
			v /= float64(w.ts[i]-w.ts[i-1]) / 1000
		}
		return v
	})
}
