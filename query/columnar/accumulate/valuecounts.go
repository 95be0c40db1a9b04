package accumulate

import (
	"math"

	"halite/query/columnar/grid"
)

// ValueCounts counts how often each value occurs at each step. It has points only for steps at which a value occurs.
type ValueCounts struct {
	Values []float64
	counts [][]stepCount // of each value, by step
	index  map[uint64]int
	points int
}

type stepCount struct {
	step, n int32
}

// Add counts a value at a step. Steps come in order. likely is the number of a value that is probably equal to v. Add
// returns the number of the value.
func (c *ValueCounts) Add(step int, v float64, likely int) int {
	bits := math.Float64bits(v)
	if v != v {
		bits = math.Float64bits(math.NaN()) // all NaNs have the same text
	}
	i := likely
	if i >= len(c.Values) || math.Float64bits(c.Values[i]) != bits {
		i = c.number(bits)
	}
	counts := c.counts[i]
	if last := len(counts) - 1; last >= 0 && int(counts[last].step) == step {
		counts[last].n++
		return i
	}
	c.counts[i] = append(counts, stepCount{int32(step), 1})
	c.points++
	return i
}

// number returns the number of a value, and numbers a new value.
func (c *ValueCounts) number(bits uint64) int {
	if c.index == nil {
		c.index = map[uint64]int{}
	}
	i, ok := c.index[bits]
	if !ok {
		i = len(c.Values)
		c.index[bits] = i
		c.Values, c.counts = append(c.Values, math.Float64frombits(bits)), append(c.counts, nil)
	}
	return i
}

// Points returns the number of points of all values.
func (c *ValueCounts) Points() int { return c.points }

// valueBytes and pointBytes estimate the memory of a value and of a point.
const (
	valueBytes = 100
	pointBytes = 16
)

// Bytes estimates the memory of the counts.
func (c *ValueCounts) Bytes() int64 {
	return int64(len(c.Values))*valueBytes + int64(c.points)*pointBytes
}

// Row fills a row with the counts of value i.
func (c *ValueCounts) Row(i int, row []float64) {
	grid.ClearRow(row)
	for _, p := range c.counts[i] {
		row[p.step] = float64(p.n)
	}
}
