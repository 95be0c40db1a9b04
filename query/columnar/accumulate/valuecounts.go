package accumulate

import (
	"math"

	"halite/query/columnar/grid"
)

// ValueCounts counts, for each value, how often it comes at each step. It holds a point only for steps at which a value comes.
type ValueCounts struct {
	Values []float64
	counts [][]stepCount // of each value, by step
	index  map[uint64]int
	points int
}

type stepCount struct {
	step, n int32
}

// Add counts a value at a step. Steps come in order. likely is the number of a value that may be the same; Add returns the number
// of the value.
func (c *ValueCounts) Add(step int, v float64, likely int) int {
	bits := math.Float64bits(v)
	if v != v {
		bits = math.Float64bits(math.NaN()) // all are written alike
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

// number returns the number of a value, and gives it one if it is new.
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

// Points is the number of steps with a count, of all values.
func (c *ValueCounts) Points() int { return c.points }

// valueBytes and pointBytes are about what a value and a point cost.
const (
	valueBytes = 100
	pointBytes = 16
)

// Bytes is about the memory of the counts.
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
