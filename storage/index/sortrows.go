package index

import (
	"cmp"
	"math/bits"
	"slices"
)

// rankColumns are series of one metric, column by column: ranks[c][i] is the rank of series i's value among the sorted
// values of label names[c], 0 if it lacks the label. Names are ascending and do not contain the metric's.
type rankColumns struct {
	names []string
	ranks [][]uint32
	rows  int
	// scratch is memory to work in, for those who sort again and again; nil allocates it.
	scratch *rankScratch
}

// rankScratch is memory for one sort after another.
type rankScratch struct {
	words   []uint32
	keys    []rowKey128
	follows []bool
}

// reset gives all memory free.
func (s *rankScratch) reset() { s.words = s.words[:0] }

// column returns memory for n numbers of any value.
func (s *rankScratch) column(n int) []uint32 {
	if s == nil {
		return make([]uint32, n)
	}
	if cap(s.words)-len(s.words) < n {
		s.words = make([]uint32, 0, max(2*cap(s.words), n, 256)) // what was given out stays as it is
	}
	from := len(s.words)
	s.words = s.words[:from+n]
	return s.words[from : from+n : from+n]
}

func (s *rankScratch) rowKeys(n int) []rowKey128 {
	if s == nil {
		return make([]rowKey128, n)
	}
	s.keys = slices.Grow(s.keys[:0], n)[:n]
	clear(s.keys)
	return s.keys
}

func (s *rankScratch) flags(n int) []bool {
	if s == nil {
		return make([]bool, n)
	}
	s.follows = slices.Grow(s.follows[:0], n)[:n]
	clear(s.follows)
	return s.follows
}

// order returns the series' numbers sorted as labels.Compare sorts their label sets.
//
// Of two series that differ first in whether they have a label, the one that has it comes first, unless the other has
// no label at all from there on. So in each column an absent label counts as less than every value if nothing
// follows, and as more than every value if something does. These codes, less the least in the column, usually fit in
// 128 bits.
func (r *rankColumns) order() []uint32 {
	out := r.scratch.column(r.rows)
	for i := range out {
		out[i] = uint32(i)
	}
	if r.rows < 2 {
		return out
	}
	codes, widths, total := r.codes()
	if total > 128 {
		compare := func(a, b uint32) int {
			for _, column := range codes {
				if x, y := column[a], column[b]; x != y {
					return cmp.Compare(x, y)
				}
			}
			return 0
		}
		if !slices.IsSortedFunc(out, compare) {
			slices.SortFunc(out, compare)
		}
		return out
	}
	keys := r.scratch.rowKeys(r.rows)
	for c, column := range codes {
		w := widths[c]
		for i := range keys {
			k := &keys[i]
			k.hi = k.hi<<w | k.lo>>(64-w)
			k.lo = k.lo<<w | uint64(column[i])
		}
	}
	for i := range keys {
		keys[i].row = uint32(i)
	}
	if !slices.IsSortedFunc(keys, rowKey128.compare) {
		slices.SortFunc(keys, rowKey128.compare)
	}
	for i := range keys {
		out[i] = keys[i].row
	}
	return out
}

type rowKey128 struct {
	hi, lo uint64
	row    uint32
}

func (a rowKey128) compare(b rowKey128) int {
	if a.hi != b.hi {
		return cmp.Compare(a.hi, b.hi)
	}
	return cmp.Compare(a.lo, b.lo)
}

// codes returns the columns that differ between series as codes to compare, with their widths in bits.
func (r *rankColumns) codes() (codes [][]uint32, widths []uint8, total int) {
	// follows[i]: series i has a label behind the column being looked at.
	follows := r.scratch.flags(r.rows)
	behindMetric := true
	for c := len(r.ranks) - 1; c >= 0; c-- {
		if behindMetric && r.names[c] < metricName {
			behindMetric = false
			for i := range follows {
				follows[i] = true
			}
		}
		low, high := uint32(1<<32-1), uint32(0)
		column := r.scratch.column(r.rows)
		for i, rank := range r.ranks[c] {
			switch {
			case rank != 0:
				follows[i] = true
			case follows[i]:
				rank = 1<<32 - 1
			}
			column[i] = rank
			low, high = min(low, rank), max(high, rank)
		}
		if low == high {
			continue
		}
		if high == 1<<32-1 { // absent with something behind: next to the largest rank
			high = 0
			for _, code := range column {
				if code != 1<<32-1 {
					high = max(high, code)
				}
			}
			high++
		}
		for i, code := range column {
			column[i] = min(code, high) - low
		}
		codes = append(codes, column)
		widths = append(widths, uint8(bits.Len32(high-low)))
		total += bits.Len32(high - low)
	}
	slices.Reverse(codes)
	slices.Reverse(widths)
	return codes, widths, total
}

// mergeRuns sorts a slice that consists of a few sorted runs, stably, in n·log(runs).
func mergeRuns[T any](s []T, compare func(a, b T) int) []T {
	ends := []int{}
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) > 0 {
			ends = append(ends, i)
		}
	}
	if len(ends) == 0 {
		return s
	}
	ends = append(ends, len(s))
	spare := make([]T, len(s))
	for len(ends) > 1 {
		from, out := 0, ends[:0]
		for i := 0; i < len(ends); i += 2 {
			mid, to := ends[i], ends[i]
			if i+1 < len(ends) {
				to = ends[i+1]
			}
			mergeTwo(spare[from:to], s[from:mid], s[mid:to], compare)
			out = append(out, to)
			from = to
		}
		s, spare, ends = spare, s, out
	}
	return s
}

func mergeTwo[T any](dst, a, b []T, compare func(a, b T) int) {
	for n := range dst {
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			dst[n], a = a[0], a[1:]
		} else {
			dst[n], b = b[0], b[1:]
		}
	}
}

// union joins two sorted lists without repetition; it may return one of them.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	out := make([]string, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch c := cmp.Compare(a[0], b[0]); {
		case c < 0:
			out, a = append(out, a[0]), a[1:]
		case c > 0:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}
