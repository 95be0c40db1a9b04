package window

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"halite/query/columnar/grid"
)

// QuantileOverTime has the quantile as its first parameter. Overlapping windows stay sorted, so the cost of a step depends on
// the samples that enter and leave.
func QuantileOverTime(pos posrange.PositionRange) Func {
	return func(w *Window, out []float64) {
		s := &w.ranks
		s.begin(w)
		for k := range out {
			if w.Lo[k] == w.Hi[k] {
				out[k] = grid.Absent()
				continue
			}
			q := w.Params[0][k]
			if BadQuantile(q) {
				w.Annotations = append(w.Annotations, annotations.NewInvalidQuantileWarning(q, pos))
				out[k] = Quantile(q, w.valuesOf(k)) // the values do not matter
				continue
			}
			if !s.slides(w, k) {
				w.scratch = append(w.scratch[:0], w.valuesOf(k)...)
				out[k] = Quantile(q, w.scratch)
				continue
			}
			s.move(w.Lo[k], w.Hi[k])
			out[k] = s.quantile(q)
		}
	}
}

// MadOverTime returns the median distance of the samples of each window from their median.
func MadOverTime() Func {
	return func(w *Window, out []float64) {
		s := &w.ranks
		s.begin(w)
		for k := range out {
			vs := w.valuesOf(k)
			switch {
			case len(vs) == 0:
				out[k] = grid.Absent()
			case !s.slides(w, k):
				w.scratch = append(w.scratch[:0], vs...)
				out[k] = medianDistance(w.scratch)
			default:
				s.move(w.Lo[k], w.Hi[k])
				if s.infinite() {
					w.scratch = append(w.scratch[:0], vs...)
					out[k] = medianDistance(w.scratch)
					continue
				}
				out[k] = s.medianDistance()
			}
		}
	}
}

// medianDistance overwrites the values.
func medianDistance(vs []float64) float64 {
	for _, v := range vs {
		if v != v {
			return math.NaN()
		}
	}
	median := Quantile(0.5, vs)
	for i, v := range vs {
		vs[i] = math.Abs(v - median)
	}
	return Quantile(0.5, vs)
}

// sortedWindow keeps the samples of a sliding window sorted.
type sortedWindow struct {
	vs     []float64
	lo, hi int // bounds in vs
	sorted []float64
	nans   int // number of NaNs in the window; sorted has none
	// entering and leaving are the numbers that enter and leave with a move.
	entering, leaving []float64
}

func (s *sortedWindow) begin(w *Window) {
	s.vs, s.lo, s.hi, s.nans, s.sorted = w.Values, 0, 0, 0, s.sorted[:0]
}

// slides reports whether the window of step k shares most samples with the previous window. Then a move costs less than a
// selection.
func (s *sortedWindow) slides(w *Window, k int) bool {
	return 4*w.Windows.StepMs <= w.RangeMs && len(w.Lo) > 1
}

// move moves the window to the samples [lo, hi). Neither bound may decrease.
func (s *sortedWindow) move(lo, hi int) {
	if lo >= s.hi {
		s.sorted, s.nans, s.lo, s.hi = s.sorted[:0], 0, lo, lo
	}
	s.entering, s.leaving = s.numbers(s.entering[:0], s.hi, hi, 1), s.numbers(s.leaving[:0], s.lo, lo, -1)
	s.lo, s.hi = lo, hi
	if len(s.entering)+len(s.leaving) > fewMoves {
		s.merge()
		return
	}
	// Each leaving number makes room for an entering one.
	for i, v := range s.entering {
		if i < len(s.leaving) {
			s.replace(s.leaving[i], v)
			continue
		}
		at, _ := slices.BinarySearch(s.sorted, v)
		s.sorted = slices.Insert(s.sorted, at, v)
	}
	for i := len(s.entering); i < len(s.leaving); i++ {
		at, _ := slices.BinarySearch(s.sorted, s.leaving[i])
		s.sorted = slices.Delete(s.sorted, at, at+1)
	}
}

// fewMoves is the largest number of samples for which move searches each sample.
const fewMoves = 24

// numbers appends the samples [lo, hi) that are numbers, and counts the others.
func (s *sortedWindow) numbers(dst []float64, lo, hi, sign int) []float64 {
	for _, v := range s.vs[lo:hi] {
		if v != v {
			s.nans += sign
			continue
		}
		dst = append(dst, v)
	}
	return dst
}

// replace replaces a value by another and shifts the values between them.
func (s *sortedWindow) replace(old, v float64) {
	from, _ := slices.BinarySearch(s.sorted, old)
	to, _ := slices.BinarySearch(s.sorted, v)
	if to > from {
		to--
		copy(s.sorted[from:to], s.sorted[from+1:to+1])
	} else {
		copy(s.sorted[to+1:from+1], s.sorted[to:from])
	}
	s.sorted[to] = v
}

// merge removes all leaving numbers and inserts all entering ones in one pass.
func (s *sortedWindow) merge() {
	slices.Sort(s.entering)
	slices.Sort(s.leaving)
	kept := s.sorted[:0]
	gone := s.leaving
	for _, v := range s.sorted {
		if len(gone) > 0 && gone[0] == v {
			gone = gone[1:]
			continue
		}
		kept = append(kept, v)
	}
	i, j := len(kept)-1, len(s.entering)-1
	s.sorted = slices.Grow(kept, len(s.entering))[:len(kept)+len(s.entering)]
	for at := len(s.sorted) - 1; j >= 0; at-- {
		if i >= 0 && s.sorted[i] > s.entering[j] {
			s.sorted[at] = s.sorted[i]
			i--
			continue
		}
		s.sorted[at] = s.entering[j]
		j--
	}
}

// rank returns the value of a rank. NaN ranks first.
func (s *sortedWindow) rank(i int) float64 {
	if i < s.nans {
		return math.NaN()
	}
	return s.sorted[i-s.nans]
}

func (s *sortedWindow) quantile(q float64) float64 {
	return interpolate(q, len(s.sorted)+s.nans, func(lower, upper int) (float64, float64) {
		return s.rank(lower), s.rank(upper)
	})
}

// infinite reports whether a value is infinite. Distances from an infinite median are NaN.
func (s *sortedWindow) infinite() bool {
	return len(s.sorted) > 0 && (Infinite(s.sorted[0]) || Infinite(s.sorted[len(s.sorted)-1]))
}

// medianDistance finds the two middle distances from the median. Distances grow from the median on to both sides.
func (s *sortedWindow) medianDistance() float64 {
	if s.nans > 0 {
		return math.NaN()
	}
	median := s.quantile(0.5)
	return interpolate(0.5, len(s.sorted), func(lower, upper int) (below, above float64) {
		return s.distance(median, lower), s.distance(median, upper)
	})
}

// distance returns the distance of a rank among the distances of all values from the median. The values up to that rank are
// adjacent in sorted.
func (s *sortedWindow) distance(median float64, rank int) float64 {
	vs := s.sorted
	// The run begins at lo: the first start for which the value at the end is not nearer than the value
	// before the start.
	lo, end := 0, len(vs)-rank-1
	for lo < end {
		mid := (lo + end) / 2
		if median-vs[mid] > vs[mid+rank+1]-median {
			lo = mid + 1
		} else {
			end = mid
		}
	}
	return max(math.Abs(vs[lo]-median), math.Abs(vs[lo+rank]-median))
}
