package window

import (
	"math"

	"halite/rollup"
)

// Sliding is the two-stack sliding aggregate: it merges the states of adjacent intervals into the state of a window. It merges
// a state at most three times, however many windows contain it. Before mid it keeps the suffixes that end at mid. It merges
// later states one by one.
type Sliding struct {
	Fields   rollup.Fields
	states   []rollup.State
	suffixes []rollup.State // suffixes[i] is the join of states[i:mid]
	mid, end int
	tail     rollup.State // join of states[mid:end]
	out      rollup.State
}

// Reset starts with new states.
func (s *Sliding) Reset(states []rollup.State) {
	s.states, s.mid, s.end, s.tail = states, 0, 0, rollup.State{}
	if len(s.suffixes) < len(states) {
		s.suffixes = make([]rollup.State, len(states))
	}
}

// Window returns the join of states[lo:hi]. Neither bound may decrease. The result is valid until the next
// call.
func (s *Sliding) Window(lo, hi int) *rollup.State {
	if lo >= s.mid {
		s.rebuild(lo, hi)
	}
	for ; s.end < hi; s.end++ {
		s.tail.Append(&s.states[s.end], s.Fields)
	}
	if s.tail.Count == 0 && lo < s.mid {
		return &s.suffixes[lo]
	}
	s.out = rollup.State{}
	if lo < s.mid {
		s.out = s.suffixes[lo]
	}
	s.out.Append(&s.tail, s.Fields)
	return &s.out
}

// rebuild computes suffixes of states[lo:hi].
func (s *Sliding) rebuild(lo, hi int) {
	s.mid, s.end, s.tail = hi, hi, rollup.State{}
	if lo >= hi {
		return
	}
	s.suffixes[hi-1] = s.states[hi-1]
	for i := hi - 2; i >= lo; i-- {
		s.suffixes[i] = s.states[i]
		s.suffixes[i].Append(&s.suffixes[i+1], s.Fields)
	}
}

const (
	// cancelMax bounds the ratio of the largest value times the count to the sum. Sums of states are exact to 2^-56 of
	// their size, so the result is exact to 2^-41.
	cancelMax = 1 << 15
	// spreadMax bounds the ratio of the squared mean to the variance.
	spreadMax = 1e7
	// correctionMax bounds the ratio of the values to their increase, if the result may depend on the order of additions.
	correctionMax = 2000
)

// Exactly reports whether a function of a window's state equals the function of its samples, to 1e-12. It returns false if
// so much cancels out that the result depends on the order of additions, or if sums are not finite.
func Exactly(fn rollup.Func, s *rollup.State) bool {
	if s.Count == 0 {
		return true
	}
	switch fn {
	case rollup.SumOverTime, rollup.AvgOverTime:
		total := s.Total()
		if math.IsNaN(total) || math.IsInf(total, 0) {
			return s.NaNs > 0
		}
		return s.Min >= 0 || s.Max <= 0 || math.Abs(total)*cancelMax >= float64(s.Count)*max(-s.Min, s.Max)
	case rollup.StddevOverTime, rollup.StdvarOverTime:
		if math.IsNaN(s.M2) || math.IsInf(s.M2, 0) {
			return s.NaNs > 0
		}
		return s.Min == s.Max || s.Variance()*spreadMax >= s.Mean*s.Mean
	case rollup.Rate, rollup.Increase:
		if s.Resets < 2 {
			return true
		}
		diff := s.Last - s.First + s.Correction
		return math.Abs(diff)*correctionMax >= max(math.Abs(s.First), math.Abs(s.Last), math.Abs(s.Correction))
	}
	return true
}
