package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
)

// root is the directory of a segment, held in one cell. Writing that cell is what makes a fold take effect: it names
// the generation, and only cells of that generation belong to the period.
type root struct {
	gen uint32
	// journalSeq: parts below it are contained in the generation.
	journalSeq uint32
	series     uint64
	metrics    uint32
	// names are the label names but for the metric name, sorted; values is the size of each one's dictionary.
	names  []string
	values []uint32
	// touched tells the hours of the day, or the days of the month, in which any series was touched; touchedNames that of
	// the series that have each label. dated is false if the root does not say (format 1): then they are all.
	dated        bool
	touched      uint32
	touchedNames []uint32
	// blocks are ordered by metric; metrics are numbered from 1 in order of their names.
	blocks []blockRef
	// days are what a month contains, by the day of the month; nil in a day.
	days []monthDay
	// removed are hours of a day that were taken out since the segment was written; nil if none were.
	removed *removals
}

// monthDay: the month contains this generation of the day, 0 if it contains none, with that many series.
type monthDay struct {
	gen    uint32
	series uint64
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
	dst = binary.AppendUvarint(dst, uint64(r.touched))
	dst = binary.AppendUvarint(dst, uint64(len(r.names)))
	for i, n := range r.names {
		dst = binary.AppendUvarint(envelope.AppendText(dst, n), uint64(r.values[i]))
		dst = binary.AppendUvarint(dst, uint64(r.touchedNames[i]))
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.blocks)))
	last := uint32(0)
	for _, b := range r.blocks {
		dst = binary.AppendUvarint(dst, uint64(b.firstMetric-last))
		dst = binary.AppendUvarint(dst, uint64(b.rows))
		last = b.firstMetric
	}
	if r.removed != nil {
		return r.removed.append(dst)
	}
	for _, d := range r.days {
		dst = binary.AppendUvarint(dst, uint64(d.gen))
		if d.gen != 0 {
			dst = binary.AppendUvarint(dst, d.series)
		}
	}
	return dst
}

// rootBlob starts a root's value.
func rootBlob(r *root) []byte {
	if r.removed != nil {
		return appendRoot(envelope.New(envelope.FormatV3, 1024), r)
	}
	return appendRoot(envelope.New(envelope.FormatV2, 1024), r)
}

// rootGen reads the generation that a root names, and nothing else.
func rootGen(payload []byte) (uint32, error) {
	c := &envelope.Decoder{Rest: payload}
	return c.Number(1<<32 - 1), c.Err
}

func parseRoot(payload []byte, format byte, month bool) (*root, error) {
	c := &envelope.Decoder{Rest: payload}
	r := &root{gen: c.Number(1<<32 - 1), journalSeq: c.Number(1<<32 - 1), series: c.Uvarint()}
	r.metrics = c.Number(1<<32 - 2)
	r.dated, r.touched = format != envelope.FormatV1, presence.HoursMask
	if r.dated {
		r.touched = c.Number(1<<presence.MonthDaysMax - 1)
	}
	names := c.Count(3)
	for i := 0; i < names && c.Err == nil; i++ {
		name := string(c.Text())
		if name == "" || name == model.MetricNameLabel || i > 0 && r.names[i-1] >= name {
			c.Fail(envelope.ErrOrder)
		}
		r.names = append(r.names, name)
		r.values = append(r.values, c.Number(1<<32-2))
		touched := uint32(presence.HoursMask)
		if r.dated {
			touched = c.Number(1<<presence.MonthDaysMax - 1)
		}
		r.touchedNames = append(r.touchedNames, touched)
	}
	blocks, last := c.Count(2), uint64(0)
	for i := 0; i < blocks && c.Err == nil; i++ {
		step := c.Uvarint()
		b := blockRef{firstMetric: uint32(last + step), rows: c.Number(rowsMax)}
		if step > uint64(r.metrics)-last || i == 0 && step != 1 {
			return nil, fmt.Errorf("%w: block %d", envelope.ErrOrder, i)
		}
		if step == 0 {
			b.part = r.blocks[i-1].part + 1
		}
		last += step
		r.blocks = append(r.blocks, b)
	}
	if c.Err == nil && (blocks == 0) != (r.metrics == 0) {
		c.Fail(envelope.ErrRange)
	}
	if format == envelope.FormatV3 && month {
		c.Fail(envelope.ErrFormat)
	}
	if format == envelope.FormatV3 {
		r.removed = readRemovals(c, r.blocks)
	}
	for i := 0; month && i < presence.MonthDaysMax; i++ {
		d := monthDay{gen: c.Number(1<<32 - 1)}
		if d.gen != 0 {
			d.series = c.Uvarint()
		}
		r.days = append(r.days, d)
	}
	return r, c.End()
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
