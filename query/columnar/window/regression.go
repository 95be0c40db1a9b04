package window

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"

	"halite/query/columnar/grid"
)

// Deriv returns the slope per second of a line through each window, by least squares.
func Deriv() Func {
	return func(w *Window, out []float64) {
		w.lines(out, false, func(_, lo int) int64 { return w.time(lo) }, func(f fit, _ int) prediction {
			return prediction{value: f.slope, slope: f.slope}
		})
	}
}

// PredictLinear extends the line by its first parameter, in seconds after the step.
func PredictLinear() Func {
	return func(w *Window, out []float64) {
		w.lines(out, true, func(k, _ int) int64 { return w.Grid.At(k) }, func(f fit, k int) prediction {
			ahead := w.Params[0][k]
			p := prediction{value: f.slope*ahead + f.intercept, slope: f.slope * (ahead - f.middle)}
			p.terms = math.Abs(p.slope) + math.Abs(f.intercept) + math.Abs(f.slope*f.middle)
			return p
		})
	}
}

// fit is a line. Its intercept is the value at the origin of time. Its middle is the mean time in seconds after the
// origin.
type fit struct {
	slope, intercept, middle float64
	// slopeError bounds the relative difference between the slope and Prometheus's.
	slopeError float64
}

// prediction is the result of a function of a line. The slope's error affects the part slope. Rounding affects the terms.
type prediction struct{ value, slope, terms float64 }

// lines fits a line to each window. origin returns the origin of time in a window. predict computes the result
// from the line.
//
// Overlapping windows share running sums. If values are whole numbers and times are whole seconds apart, all products and sums
// are exact and results have the same bits. Otherwise Prometheus rounds products differently. If the result of a window might
// depend on that, lines sums its products again in the order of time.
func (w *Window) lines(
	out []float64, fromStep bool, origin func(k, lo int) int64, predict func(f fit, k int) prediction,
) {
	prepared := false
	for k := range out {
		lo, hi := w.Lo[k], w.Hi[k]
		if hi-lo < 2 {
			out[k] = grid.Absent()
			continue
		}
		at, shared := origin(k, lo), w.sharesSums(lo, hi)
		if shared {
			if !prepared {
				w.lineSums.prepare(w, fromStep)
				prepared = true
			}
			if f, ok := w.lineSums.fit(w, lo, hi, at); ok {
				p := predict(f, k)
				if f.slopeError == 0 || f.slopeError*math.Abs(p.slope)+4*roundoff*p.terms <= toleranceMax*math.Abs(p.value) {
					out[k] = p.value
					continue
				}
			}
		}
		out[k] = predict(w.regression(lo, hi, at, shared), k).value
	}
}

// lineSums are the running sums of a series for the lines through its windows. Times count from the first sample, in units.
type lineSums struct {
	runs
	values, products prefixes  // products of time and value
	sizes            []float64 // running sums of absolute values
	times, squares   []int64   // running sums of times and of their squares, modulo 2^64
	baseMs, unitMs   int64
	// whole says that all values are whole numbers and all times whole seconds. largest is the largest absolute
	// value.
	whole   bool
	largest float64
	at      sampleTimes // times of the last window that was summed sample by sample
}

// prepare computes the sums of a series. fromStep says that the origins of time are steps.
func (l *lineSums) prepare(w *Window, fromStep bool) {
	n := len(w.Values)
	l.runs = runs{vs: w.Values}
	l.baseMs, l.unitMs = w.time(0), l.unit(w, fromStep)
	l.whole, l.largest = l.unitMs == 1000, 0
	l.values, l.products = l.values.reset(n), l.products.reset(n)
	if cap(l.times) < n+1 {
		l.times, l.squares, l.sizes = make([]int64, n+1), make([]int64, n+1), make([]float64, n+1)
	}
	l.times, l.squares, l.sizes = l.times[:n+1], l.squares[:n+1], l.sizes[:n+1]
	var values, products pair
	for i, v := range w.Values {
		if odd(v) {
			v = 0 // windows with the value are summed sample by sample
		}
		t := (w.time(i) - l.baseMs) / l.unitMs
		size := math.Abs(v)
		l.whole = l.whole && float64(int64(v)) == v
		l.largest = max(l.largest, size)
		values = values.add(v)
		product := float64(t) * v
		products = products.add(product)
		products.rest += math.FMA(float64(t), v, -product)
		l.values[i+1], l.products[i+1] = values, products
		l.sizes[i+1] = l.sizes[i] + size
		l.times[i+1], l.squares[i+1] = l.times[i]+t, l.squares[i]+t*t
	}
}

// unit is a second if the times of all samples and origins are whole seconds apart, otherwise a millisecond.
func (l *lineSums) unit(w *Window, fromStep bool) int64 {
	first := w.time(0)
	if fromStep && ((first-w.Grid.StartMs)%1000 != 0 || w.Grid.StepMs%1000 != 0) {
		return 1
	}
	if w.ts == nil {
		if w.betweenMs%1000 != 0 {
			return 1
		}
		return 1000
	}
	for _, t := range w.ts {
		if (t-first)%1000 != 0 {
			return 1
		}
	}
	return 1000
}

const (
	// squaresMax bounds a sum of squares that an int64 holds.
	squaresMax = 1 << 62
	// exactMax is the largest n such that a float64 holds all whole numbers up to n.
	exactMax = 1 << 53
)

// fit fits a line to the samples [lo, hi). ok is false if the running sums are not exact enough.
func (l *lineSums) fit(w *Window, lo, hi int, originMs int64) (f fit, ok bool) {
	constant, hasOdd := l.window(lo, hi)
	switch {
	case hasOdd:
		return f, false
	case constant:
		f.intercept = w.Values[lo]
		return f, true
	}
	var (
		n       = int64(hi - lo)
		count   = float64(n)
		perUnit = 1000 / float64(l.unitMs)
		origin  = (originMs - l.baseMs) / l.unitMs
		far     = float64(max(abs(w.time(lo)-originMs), abs(w.time(hi-1)-originMs))) / float64(l.unitMs)
	)
	if count*far*far > squaresMax {
		return f, false
	}
	times, values := l.times[hi]-l.times[lo], l.values.between(lo, hi)
	shift := values.times(float64(origin))
	products := l.products.between(lo, hi).minus(shift)
	exact := l.whole && max(l.largest, far)*far < exactMax
	size := far * (l.sizes[hi] - l.sizes[lo])
	if carried := math.Abs(l.products[hi].sum) + math.Abs(shift.sum) + far*l.sizes[hi]; !exact && carried > carriedMax*size {
		return f, false
	}
	sumX := float64(times-n*origin) / perUnit
	sumX2 := float64(l.squares[hi]-l.squares[lo]-2*origin*times+n*origin*origin) / (perUnit * perUnit)
	sumXY, sumY := products.value()/perUnit, values.value()
	f = newFit(count, sumX, sumY, sumXY, sumX2)
	if !exact {
		// The error of a sum of rounded products grows about with the root of their number.
		wrong := 2*math.Abs(sumXY) + 6*size/perUnit/math.Sqrt(count)
		if l.unitMs != 1000 {
			wrong = 2*wrong + 4*math.Abs(sumX*sumY/count)
			f.slopeError = 8 * roundoff * sumX2 / (sumX2 - sumX*sumX/count)
		}
		f.slopeError += roundoff * (wrong/math.Abs(sumXY-sumX*sumY/count) + 4)
	}
	return f, f.slope-f.slope == 0
}

// newFit computes a line from sums, with the operations of Prometheus.
func newFit(n, sumX, sumY, sumXY, sumX2 float64) (f fit) {
	f.slope, f.middle = (sumXY-sumX*sumY/n)/(sumX2-sumX*sumX/n), sumX/n
	f.intercept = sumY/n - f.slope*sumX/n
	return f
}

func abs(v int64) int64 { return max(v, -v) }

// regression fits a line to the samples [lo, hi), in the order of time. The intercept is its value at originMs.
func (w *Window) regression(lo, hi int, originMs int64, shared bool) fit {
	l := &w.lineSums
	n, values := float64(hi-lo), w.Values[lo:hi]
	l.at.move(w, lo, hi, originMs)
	times := l.at.seconds[:len(values)]
	if shared && l.sizes[hi] <= carriedMax*(l.sizes[hi]-l.sizes[lo]) && !slices.ContainsFunc(values, odd) {
		var xy pair
		for i, v := range values {
			xy = xy.add(float64(times[i] * v))
		}
		return newFit(n, l.at.sum, l.values.between(lo, hi).value(), xy.value(), l.at.squares)
	}
	var y, xy pair
	constant := true
	for i, v := range values {
		constant = constant && v == values[0]
		y, xy = y.add(v), xy.add(float64(times[i]*v))
	}
	if constant {
		if Infinite(values[0]) {
			return fit{slope: math.NaN(), intercept: math.NaN()}
		}
		return fit{intercept: values[0]}
	}
	if !y.finite() || !xy.finite() {
		var f fit
		f.slope, f.intercept = w.infiniteRegression(lo, hi, originMs)
		return f
	}
	return newFit(n, l.at.sum, y.value(), xy.value(), l.at.squares)
}

// sampleTimes are the times of a window's samples after an origin, their sum, and the sum of their squares, added in
// Prometheus's order.
type sampleTimes struct {
	seconds            []float64
	even               bool
	firstMs, betweenMs int64 // firstMs counts from the origin
	sum, squares       float64
}

// move loads the times of the samples [lo, hi). Windows of evenly spaced samples mostly have the same times, within a series
// and across series.
func (s *sampleTimes) move(w *Window, lo, hi int, originMs int64) {
	firstMs, even := w.time(lo)-originMs, w.ts == nil
	if s.even && even && len(s.seconds) == hi-lo && s.firstMs == firstMs && s.betweenMs == w.betweenMs {
		return
	}
	s.even, s.firstMs, s.betweenMs, s.seconds = even, firstMs, w.betweenMs, s.seconds[:0]
	var sum, squares pair
	for i := lo; i < hi; i++ {
		t := float64(w.time(i)-originMs) / 1e3
		sum, squares = sum.add(t), squares.add(float64(t*t))
		s.seconds = append(s.seconds, t)
	}
	s.sum, s.squares = sum.value(), squares.value()
}

// infiniteRegression is regression for sums that are not finite. Prometheus then drops compensations.
func (w *Window) infiniteRegression(lo, hi int, originMs int64) (slope, intercept float64) {
	var n, sumX, cX, sumY, cY, sumXY, cXY, sumX2, cX2 float64
	for i, y := range w.Values[lo:hi] {
		n++
		x := float64(w.time(lo+i)-originMs) / 1e3
		sumX, cX = kahansum.Inc(x, sumX, cX)
		sumY, cY = kahansum.Inc(y, sumY, cY)
		sumXY, cXY = kahansum.Inc(x*y, sumXY, cXY)
		sumX2, cX2 = kahansum.Inc(x*x, sumX2, cX2)
	}
	sumX += cX
	sumY += cY
	sumXY += cXY
	sumX2 += cX2
	slope = (sumXY - sumX*sumY/n) / (sumX2 - sumX*sumX/n)
	return slope, sumY/n - slope*sumX/n
}
