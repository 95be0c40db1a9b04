package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// root is the directory of a closed day, held in one cell. Writing that cell is what makes a fold take effect: it names
// the generation, and only cells of that generation belong to the day.
type root struct {
	gen uint32
	// journalSeq: parts below it are contained in the generation.
	journalSeq uint32
	series     uint64
	metrics    uint32
	// names are the label names but for the metric name, sorted; values is the size of each one's dictionary.
	names  []string
	values []uint32
	// blocks are ordered by metric; metrics are numbered from 1 in order of their names.
	blocks []blockRef
}

// blockRef: the block holds the metrics from firstMetric up to the next block's. A metric with more than blockRowsMax
// series has several blocks, numbered by part.
type blockRef struct {
	firstMetric uint32
	part        uint32
	rows        uint32
}

func appendRoot(dst []byte, r *root) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.gen))
	dst = binary.AppendUvarint(dst, uint64(r.journalSeq))
	dst = binary.AppendUvarint(dst, r.series)
	dst = binary.AppendUvarint(dst, uint64(r.metrics))
	dst = binary.AppendUvarint(dst, uint64(len(r.names)))
	for i, n := range r.names {
		dst = binary.AppendUvarint(appendText(dst, n), uint64(r.values[i]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.blocks)))
	last := uint32(0)
	for _, b := range r.blocks {
		dst = binary.AppendUvarint(dst, uint64(b.firstMetric-last))
		dst = binary.AppendUvarint(dst, uint64(b.rows))
		last = b.firstMetric
	}
	return dst
}

func parseRoot(payload []byte) (*root, error) {
	c := &cursor{b: payload}
	r := &root{gen: c.number(1<<32 - 1), journalSeq: c.number(1<<32 - 1), series: c.uvarint()}
	r.metrics = c.number(1<<32 - 2)
	names := c.count(3)
	for i := 0; i < names && c.err == nil; i++ {
		name := string(c.text())
		if name == "" || name == metricName || i > 0 && r.names[i-1] >= name {
			c.fail(errOrder)
		}
		r.names = append(r.names, name)
		r.values = append(r.values, c.number(1<<32-2))
	}
	blocks, last := c.count(2), uint64(0)
	for i := 0; i < blocks && c.err == nil; i++ {
		step := c.uvarint()
		b := blockRef{firstMetric: uint32(last + step), rows: c.number(rowsMax)}
		if step > uint64(r.metrics)-last || i == 0 && step != 1 {
			return nil, fmt.Errorf("%w: block %d", errOrder, i)
		}
		if step == 0 {
			b.part = r.blocks[i-1].part + 1
		}
		last += step
		r.blocks = append(r.blocks, b)
	}
	if c.err == nil && (blocks == 0) != (r.metrics == 0) {
		c.fail(errRange)
	}
	return r, c.end()
}

// name returns the number of a label name, ok is false if no series of the day has it.
func (r *root) name(name string) (int, bool) {
	return slices.BinarySearch(r.names, name)
}

// blocksOf returns the numbers [from, to) of the blocks that hold a metric.
func (r *root) blocksOf(metric uint32) (from, to int) {
	to = sort.Search(len(r.blocks), func(i int) bool { return r.blocks[i].firstMetric > metric })
	for from = to - 1; from > 0 && r.blocks[from].part > 0; {
		from--
	}
	return from, to
}

// metricRange returns the metrics [from, to) of a block.
func (r *root) metricRange(block int) (from, to uint32) {
	from, to = r.blocks[block].firstMetric, r.metrics+1
	if block+1 < len(r.blocks) {
		to = r.blocks[block+1].firstMetric
	}
	return from, max(to, from+1)
}

func (r *root) sizeBytes() int64 {
	n := int64(128 + 8*len(r.blocks))
	for _, name := range r.names {
		n += int64(len(name)) + 20
	}
	return n
}
