package window

import (
	"halite/query/columnar/grid"
)

// smoothedAtOnce is the number of windows that are smoothed in parallel lanes. Each value depends on the previous one of its
// window, but not on other windows.
const smoothedAtOnce = 4

// DoubleExponentialSmoothing smooths each window by two factors, each between 0 and 1. The order of the operations is
// Prometheus's, so results are equal to the last bit.
func DoubleExponentialSmoothing(factor, trend float64) Func {
	s := smoothing{factor, trend}
	return func(w *Window, out []float64) {
		var lanes [smoothedAtOnce]lane
		var steps [smoothedAtOnce]int
		n := 0
		flush := func() {
			s.smooth(lanes[:n])
			for i := range n {
				out[steps[i]] = lanes[i].value
			}
			n = 0
		}
		for k := range out {
			vs := w.valuesOf(k)
			if len(vs) < 2 {
				out[k] = grid.Absent()
				continue
			}
			lanes[n], steps[n] = lane{vs: vs[1:], value: vs[0], trend: vs[1] - vs[0]}, k
			if n++; n == len(lanes) {
				flush()
			}
		}
		flush()
	}
}

type smoothing struct{ factor, trend float64 }

// lane is the state of a window: the remaining values, the current smoothed value and its trend.
type lane struct {
	vs           []float64
	value, trend float64
}

// smooth processes all values of the lanes.
func (s smoothing) smooth(lanes []lane) {
	if len(lanes) == smoothedAtOnce {
		s.together(lanes)
	}
	for i := range lanes {
		l := &lanes[i]
		for _, v := range l.vs {
			l.value, l.trend = s.step(v, l.value, l.trend)
		}
	}
}

// together processes the values of all lanes, up to the length of the shortest.
func (s smoothing) together(lanes []lane) {
	a, b, c, d := lanes[0], lanes[1], lanes[2], lanes[3]
	n := min(len(a.vs), len(b.vs), len(c.vs), len(d.vs))
	as, bs, cs, ds := a.vs[:n], b.vs[:n], c.vs[:n], d.vs[:n]
	for i := range as {
		a.value, a.trend = s.step(as[i], a.value, a.trend)
		b.value, b.trend = s.step(bs[i], b.value, b.trend)
		c.value, c.trend = s.step(cs[i], c.value, c.trend)
		d.value, d.trend = s.step(ds[i], d.value, d.trend)
	}
	a.vs, b.vs, c.vs, d.vs = a.vs[n:], b.vs[n:], c.vs[n:], d.vs[n:]
	lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
}

// step adds a value. It returns the smoothed value and the trend for the next value.
func (s smoothing) step(v, value, trend float64) (smoothed, next float64) {
	smoothed = float64(s.factor*v) + float64((1-s.factor)*(value+trend))
	return smoothed, float64(s.trend*(smoothed-value)) + float64((1-s.trend)*trend)
}
