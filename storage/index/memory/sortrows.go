package memory

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/prometheus/common/model"
)

// RankColumns are series of one metric as columns. ranks[c][i] is the rank of series i's value among the sorted values
// of label names[c], or 0 if the series lacks the label. Names are ascending, without the metric's name.
type RankColumns struct {
	Names []string
	Ranks [][]uint32
	Rows  int
	// scratch is memory that several sorts reuse; nil allocates it.
	scratch *SortScratch
}

// SortScratch is memory that consecutive sorts reuse.
type SortScratch struct {
	words   []uint32
	keys    []rowKey128
	follows []bool
}

// reset frees all memory for reuse.
func (s *SortScratch) reset() { s.words = s.words[:0] }

// column returns memory for n numbers of any value.
func (s *SortScratch) column(n int) []uint32 {
	if s == nil {
		return make([]uint32, n)
	}
	if cap(s.words)-len(s.words) < n {
		s.words = make([]uint32, 0, max(2*cap(s.words), n, 256)) // earlier columns keep their memory
	}
	from := len(s.words)
	s.words = s.words[:from+n]
	return s.words[from : from+n : from+n]
}

func (s *SortScratch) rowKeys(n int) []rowKey128 {
	if s == nil {
		return make([]rowKey128, n)
	}
	s.keys = slices.Grow(s.keys[:0], n)[:n]
	clear(s.keys)
	return s.keys
}

func (s *SortScratch) flags(n int) []bool {
	if s == nil {
		return make([]bool, n)
	}
	s.follows = slices.Grow(s.follows[:0], n)[:n]
	clear(s.follows)
	return s.follows
}

// Order returns the numbers of the series, sorted by their label sets like labels.Compare.
//
// Suppose two series are equal up to a label that only one of them has. The series with the label comes first, unless the
// other series has no further label. So an absent label sorts below every value if no label follows it, and above every
// value otherwise. These codes, minus the least code of the column, usually fit in 128 bits.
func (r *RankColumns) Order() []uint32 {
	out := r.scratch.column(r.Rows)
	for i := range out {
		out[i] = uint32(i)
	}
	if r.Rows < 2 {
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
	keys := r.scratch.rowKeys(r.Rows)
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
func (r *RankColumns) codes() (codes [][]uint32, widths []uint8, total int) {
	// follows[i] is set if series i has a label after the current column.
	follows := r.scratch.flags(r.Rows)
	behindMetric := true
	for c := len(r.Ranks) - 1; c >= 0; c-- {
		if behindMetric && r.Names[c] < model.MetricNameLabel {
			behindMetric = false
			for i := range follows {
				follows[i] = true
			}
		}
		low, high := uint32(1<<32-1), uint32(0)
		column := r.scratch.column(r.Rows)
		for i, rank := range r.Ranks[c] {
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
		if high == 1<<32-1 { // absent, and a label follows: above the largest rank
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
