package heat

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// Column is the load of all key ranges from StartMs for SpanMs milliseconds. Range i holds the keys in [Starts[i],
// Starts[i+1]); the last one has no end. Starts ascend, and the first is "".
type Column struct {
	StartMs, SpanMs int64
	Starts          []string
	Counts          []Counts
}

// Validate returns an error if a column is invalid.
func (c *Column) Validate() error {
	switch {
	case c.StartMs < 0 || c.SpanMs <= 0:
		return fmt.Errorf("keyviz: bad time range of a column: start %d ms, span %d ms", c.StartMs, c.SpanMs)
	case len(c.Starts) == 0 || c.Starts[0] != "" || len(c.Starts) != len(c.Counts):
		return fmt.Errorf("keyviz: a column has %d ranges and %d counts; they must match and cover all keys", len(c.Starts),
			len(c.Counts))
	}
	for i := 1; i < len(c.Starts); i++ {
		if c.Starts[i] <= c.Starts[i-1] {
			return fmt.Errorf("keyviz: range %d starts at %q, not above %q", i, c.Starts[i], c.Starts[i-1])
		}
	}
	return nil
}

// Total adds up all ranges.
func (c *Column) Total() (sum Counts) {
	for i := range c.Counts {
		sum.Add(&c.Counts[i], 1)
	}
	return sum
}

// Find returns the range of a key.
func Find(starts []string, key string) int {
	return sort.Search(len(starts), func(i int) bool { return starts[i] > key }) - 1
}

// Add adds the counts of o, which may have other ranges. If the union divides a range, its counts spread evenly over the
// parts.
func (c *Column) Add(o *Column) {
	if slices.Equal(c.Starts, o.Starts) {
		for i := range c.Counts {
			c.Counts[i].Add(&o.Counts[i], 1)
		}
		return
	}
	axis := Union(c.Starts, o.Starts)
	counts := make([]Counts, len(axis))
	for _, from := range []*Column{c, o} {
		Spread(from.Starts, axis, func(i, at int, share float64) { counts[at].Add(&from.Counts[i], share) })
	}
	c.Starts, c.Counts = axis, counts
}

// Union merges two sorted lists of starts.
func Union(a, b []string) []string {
	out := make([]string, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		order := cmp.Compare(a[0], b[0])
		if order <= 0 {
			out = append(out, a[0])
			a = a[1:]
		} else {
			out = append(out, b[0])
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Spread calls put for each pair of a range of starts and an overlapping range of axis. share is the part of the first range
// that the second one gets. The shares of a range add up to 1.
func Spread(starts, axis []string, put func(i, at int, share float64)) {
	first := 0
	for i := range starts {
		for first+1 < len(axis) && axis[first+1] <= starts[i] {
			first++
		}
		end := first + 1
		for end < len(axis) && (i+1 == len(starts) || axis[end] < starts[i+1]) {
			end++
		}
		share := 1 / float64(end-first)
		for at := first; at < end; at++ {
			put(i, at, share)
		}
	}
}

// Reduce merges neighbours until at most rowsMax ranges remain. See Rows.
func (c *Column) Reduce(rowsMax int) {
	if len(c.Starts) <= rowsMax {
		return
	}
	heat := make([]float64, len(c.Starts))
	for i := range heat {
		heat[i] = c.Counts[i].Heat()
	}
	rows := Rows(c.Starts, heat, rowsMax)
	starts, counts := make([]string, len(rows)), make([]Counts, len(rows))
	for n, from := range rows {
		end := len(c.Starts)
		if n+1 < len(rows) {
			end = rows[n+1]
		}
		starts[n] = c.Starts[from]
		for i := from; i < end; i++ {
			counts[n].Add(&c.Counts[i], 1)
		}
	}
	c.Starts, c.Counts = starts, counts
}

// Drop removes the ranges that start in [start, end), with their counts. The last range may extend beyond end. It reports
// whether there were any. start is not "".
func (c *Column) Drop(start, end string) bool {
	first, last := sort.SearchStrings(c.Starts, start), sort.SearchStrings(c.Starts, end)
	if first == last {
		return false
	}
	// The column may share its starts with others.
	c.Starts = slices.Concat(c.Starts[:first], c.Starts[last:])
	c.Counts = slices.Delete(c.Counts, first, last)
	return true
}

// Heat combines all work into one figure: cells written, and rows written or read.
func (c *Counts) Heat() float64 { return c[WriteCells] + c[WriteRows] + c[ReadRows] }

// Rows merges adjacent ranges with little heat until at most rowsMax rows remain. It returns the first range of each row. No
// row crosses a border of a salt, metric or tenant if there are enough rows for these borders.
func Rows(starts []string, heat []float64, rowsMax int) []int {
	if len(starts) <= rowsMax {
		all := make([]int, len(starts))
		for i := range all {
			all[i] = i
		}
		return all
	}
	keep := make([]Border, len(starts)) // border at each start
	var borders [BorderTenant + 1]int
	for i := 1; i < len(starts); i++ {
		keep[i] = BorderOf(starts[i-1], starts[i])
		for level := BorderSalt; level <= keep[i]; level++ {
			borders[level]++
		}
	}
	level := BorderSalt
	for level <= BorderTenant && borders[level]+1 > rowsMax*borderParts/(borderParts+1) {
		level++
	}
	var total float64
	for _, h := range heat {
		total += h
	}
	// Find the smallest limit of a row's heat that gives at most rowsMax rows.
	low, high := 0.0, total
	rows := greedy(keep, heat, level, high)
	for range 40 {
		mid := (low + high) / 2
		if try := greedy(keep, heat, level, mid); len(try) <= rowsMax {
			high, rows = mid, try
		} else {
			low = mid
		}
	}
	return rows
}

// borderParts bounds the rows that borders may use: borderParts of borderParts+1.
const borderParts = 3

// greedy makes rows with at most limit of heat each. A single range may exceed it.
func greedy(keep []Border, heat []float64, level Border, limit float64) []int {
	rows := []int{0}
	sum := heat[0]
	for i := 1; i < len(heat); i++ {
		if keep[i] >= level || sum+heat[i] > limit {
			rows = append(rows, i)
			sum = 0
		}
		sum += heat[i]
	}
	return rows
}
