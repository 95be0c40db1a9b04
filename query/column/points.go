package column

import "sort"

// Points are the times and values of samples: two slices of one length, times ascending.
type Points struct {
	TsMs   []int64
	Values []float64
}

// Split splits points at a time. from holds the points at or after tsMs.
func (c Points) Split(tsMs int64) (before, from Points) {
	n := sort.Search(len(c.TsMs), func(i int) bool { return c.TsMs[i] >= tsMs })
	return Points{c.TsMs[:n], c.Values[:n]}, Points{c.TsMs[n:], c.Values[n:]}
}

// Clip returns the points within the range.
func (w TimeRange) Clip(c Points) Points {
	if n := len(c.TsMs); n > 0 && c.TsMs[0] < w.MinMs {
		_, c = c.Split(w.MinMs)
	}
	if n := len(c.TsMs); n > 0 && c.TsMs[n-1] > w.MaxMs {
		c, _ = c.Split(w.MaxMs + 1)
	}
	return c
}

// TimeRange is a span of time in milliseconds, both ends inclusive.
type TimeRange struct{ MinMs, MaxMs int64 }

// Empty reports whether the range has no times.
func (w TimeRange) Empty() bool { return w.MinMs > w.MaxMs }
