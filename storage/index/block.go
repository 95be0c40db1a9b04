package index

import (
	"encoding/binary"
	"fmt"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// block is the segment of one large metric, or of several small ones whose names follow each other: rows ordered by
// metric, then labels; the hours of each row; a column of value ids for each label name.
type block struct {
	number  int // in the segment
	rows    uint32
	metrics []metricRows
	// runs holds the distinct patterns of hours one after another, ends the end of each; presence gives each row one.
	runs     []presence.DayRun
	ends     []uint32
	presence valueid.Column
	columns  []blockColumn // ascending by name
}

type metricRows struct {
	metric uint32 // number of the metric in the period
	from   uint32 // first row
}

type blockColumn struct {
	name int // number of the label name in the period's root
	ids  valueid.Column
}

// rowsMax is the number of series in a block that a reader accepts.
const rowsMax = 1 << 27

// rowsEnd is the row behind the last of the i-th metric.
func (b *block) rowsEnd(i int) uint32 {
	if i+1 < len(b.metrics) {
		return b.metrics[i+1].from
	}
	return b.rows
}

// column returns a label name's column, nil if no series of the block has the label.
func (b *block) column(name int) *valueid.Column {
	lo, hi := 0, len(b.columns)
	for lo < hi {
		mid := (lo + hi) / 2
		if b.columns[mid].name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(b.columns) && b.columns[lo].name == name {
		return &b.columns[lo].ids
	}
	return nil
}

// patternNumber returns the number of a row's pattern.
func (b *block) patternNumber(row uint32) (uint32, error) {
	i := b.presence.At(row)
	if int(i) >= len(b.ends) {
		return 0, fmt.Errorf("%w: hours of row %d", envelope.ErrRange, row)
	}
	return i, nil
}

// pattern returns a pattern by its number.
func (b *block) pattern(i uint32) presence.Pattern {
	from := uint32(0)
	if i > 0 {
		from = b.ends[i-1]
	}
	return presence.Pattern(b.runs[from:b.ends[i]])
}

// meets reports whether a row has hours in the window.
func (b *block) meets(row uint32, w *presence.Window) (bool, error) {
	i, err := b.patternNumber(row)
	return err == nil && b.pattern(i).Meets(w), err
}

// addPattern appends a pattern.
func (b *block) addPattern(p presence.Pattern) {
	b.runs = append(b.runs, p...)
	b.ends = append(b.ends, uint32(len(b.runs)))
}

// packedColumns lists the presence and all columns: data cells are numbered in this order, from 1.
func (b *block) packedColumns() []*valueid.Column {
	out := make([]*valueid.Column, 0, len(b.columns)+1)
	out = append(out, &b.presence)
	for i := range b.columns {
		out = append(out, &b.columns[i].ids)
	}
	return out
}

func (b *block) SizeBytes() int64 {
	n := int64(128 + 8*len(b.metrics) + 8*cap(b.runs) + 4*cap(b.ends))
	for _, p := range b.packedColumns() {
		n += p.SizeBytes() + 16
	}
	return n
}

// appendBlockHeader writes the header; the columns' data follows in it if inline. The patterns of a day are masks.
func appendBlockHeader(dst []byte, b *block, month, inline bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.rows))
	dst = binary.AppendUvarint(dst, uint64(len(b.metrics)))
	last := uint32(0)
	for i, m := range b.metrics {
		dst = binary.AppendUvarint(dst, uint64(m.metric-last))
		dst = binary.AppendUvarint(dst, uint64(b.rowsEnd(i)-m.from))
		last = m.metric
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.ends)))
	for i := range b.ends {
		if p := b.pattern(uint32(i)); month {
			dst = presence.AppendRuns(dst, p)
		} else {
			dst = binary.AppendUvarint(dst, uint64(p[0].Hours))
		}
	}
	dst = b.presence.AppendHeader(dst)
	dst = binary.AppendUvarint(dst, uint64(len(b.columns)))
	last = 0
	for i := range b.columns {
		c := &b.columns[i]
		dst = binary.AppendUvarint(dst, uint64(uint32(c.name)-last))
		dst = c.ids.AppendHeader(dst)
		last = uint32(c.name) + 1
	}
	dst = append(dst, boolByte(inline))
	if inline {
		for _, p := range b.packedColumns() {
			dst = append(dst, p.Raw()...)
		}
	}
	return dst
}

// parseBlockHeader reads the header of a block of the metrics [from, to) of a period with so many label names. If the
// data is not inline, the caller adds it with setColumn. The block refers to the payload.
func parseBlockHeader(payload []byte, from, to uint32, names int, month bool) (b *block, inline bool, err error) {
	c := &envelope.Decoder{Rest: payload}
	b = &block{rows: c.Number(rowsMax)}
	b.readMetrics(c, from, to)
	b.readPatterns(c, month)
	b.presence = valueid.ReadHeader(c, b.rows)
	columns, next := c.Count(5), uint64(0)
	for i := 0; i < columns && c.Err == nil; i++ {
		name := next + c.Uvarint()
		if name < next || name >= uint64(names) {
			c.Fail(envelope.ErrRange)
		}
		b.columns = append(b.columns, blockColumn{name: int(name), ids: valueid.ReadHeader(c, b.rows)})
		next = name + 1
	}
	if inline = c.Byte() != 0; inline {
		for _, p := range b.packedColumns() {
			valueid.RefData(c, p)
		}
	}
	return b, inline, c.End()
}

func (b *block) readPatterns(c *envelope.Decoder, month bool) {
	n := c.Count(1)
	for i := 0; i < n && c.Err == nil; i++ {
		if month {
			b.runs = presence.ReadRuns(c, b.runs)
		} else {
			b.runs = append(b.runs, presence.DayRun{Days: 1, Hours: c.Number(presence.HoursMask)})
		}
		b.ends = append(b.ends, uint32(len(b.runs)))
	}
}

func (b *block) readMetrics(c *envelope.Decoder, from, to uint32) {
	n, next, row := c.Count(2), uint64(0), uint64(0)
	for i := 0; i < n && c.Err == nil; i++ {
		step := c.Uvarint()
		m := metricRows{metric: uint32(next + step), from: uint32(row)}
		rows := c.Uvarint()
		if step == 0 || next+step >= uint64(to) || i == 0 && m.metric != from ||
			rows == 0 || rows > uint64(b.rows)-row {
			c.Fail(envelope.ErrOrder)
			return
		}
		next, row = next+step, row+rows
		b.metrics = append(b.metrics, m)
	}
	if c.Err == nil && (row != uint64(b.rows) || n == 0) {
		c.Fail(envelope.ErrRange)
	}
}
