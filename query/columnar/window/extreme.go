package window

import (
	"halite/query/columnar/grid"
)

// extreme finds the largest of values times sign, which is 1 or -1. Any number replaces NaN. The first of equal values wins,
// and the last of NaNs.
type extreme struct{ sign float64 }

// MinOverTime returns the least sample of each window.
func MinOverTime() Func { return extreme{-1}.overTime }

// MaxOverTime returns the greatest sample of each window.
func MaxOverTime() Func { return extreme{1}.overTime }

// join returns the extreme of a and b. a is earlier.
func (e extreme) join(a, b float64) float64 {
	if e.sign*b > e.sign*a || a != a {
		return b
	}
	return a
}

func (e extreme) find(vs []float64) float64 {
	best := vs[0]
	for _, v := range vs[1:] {
		best = e.join(best, v)
	}
	return best
}

// suffixes puts into dst the extreme of each value and all later ones.
func (e extreme) suffixes(dst, vs []float64) {
	last := len(vs) - 1
	dst[last] = vs[last]
	for i := last - 1; i >= 0; i-- {
		dst[i] = e.join(vs[i], dst[i+1])
	}
}

// overTime reads each sample of overlapping windows at most twice. For the samples before mid it has the extremes of all
// suffixes that end at mid. It joins later samples one by one.
func (e extreme) overTime(w *Window, out []float64) {
	var (
		apart    = w.apart()
		suffixes = w.memory(len(w.Values))
		mid, end int
		tail     float64 // extreme of the samples [mid, end)
	)
	for k := range out {
		lo, hi := w.Lo[k], w.Hi[k]
		switch {
		case lo == hi:
			out[k] = grid.Absent()
			continue
		case apart:
			out[k] = e.find(w.Values[lo:hi])
			continue
		case lo >= mid:
			e.suffixes(suffixes[lo:hi], w.Values[lo:hi])
			mid, end, tail = hi, hi, grid.Absent()
		}
		for ; end < hi; end++ {
			tail = e.join(tail, w.Values[end])
		}
		out[k] = suffixes[lo]
		if end > mid {
			out[k] = e.join(out[k], tail)
		}
	}
}

// TimeOfMin returns the time of the least sample of each window, in seconds. Among equal samples it uses the last
// one.
func TimeOfMin() Func { return extreme{-1}.timeOf }

// TimeOfMax returns the time of the greatest sample of each window, in seconds. Among equal samples it uses the last
// one.
func TimeOfMax() Func { return extreme{1}.timeOf }

// replaces reports whether a later value b replaces a.
func (e extreme) replaces(a, b float64) bool { return e.sign*b >= e.sign*a || a != a }

// timeOf keeps a queue of samples. Each of them becomes the extreme after all earlier candidates have
// left the window.
func (e extreme) timeOf(w *Window, out []float64) {
	queue, first, end := w.marks[:0], 0, 0
	for k := range out {
		lo, hi := w.Lo[k], w.Hi[k]
		if lo == hi {
			out[k] = grid.Absent()
			continue
		}
		for end = max(end, lo); end < hi; end++ {
			for len(queue) > first && e.replaces(w.Values[queue[len(queue)-1]], w.Values[end]) {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, end)
		}
		for queue[first] < lo {
			first++
		}
		out[k] = float64(w.time(queue[first])) / 1000
	}
	w.marks = queue
}
