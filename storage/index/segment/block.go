package segment

import (
	"encoding/binary"
	"fmt"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// Block is a part of a segment: the series of one large metric, or of several small metrics with consecutive names. It has a
// row for each series, ordered by metric, then labels. It has the hours of each row, and a column of value ids for each label
// name.
type Block struct {
	Number  int // position in the segment
	Rows    uint32
	Metrics []metricRows
	// runs holds the distinct patterns of hours one after another, and Ends the end of each. presence holds the pattern of each
	// row.
	runs     []presence.DayRun
	Ends     []uint32
	presence valueid.Column
	Columns  []blockColumn // ascending by name
}

type metricRows struct {
	Metric uint32 // number of the metric in the partition
	From   uint32 // first row
}

type blockColumn struct {
	Name int // number of the label name in the partition's manifest
	IDs  valueid.Column
}

// rowsMax bounds the series in a block that a reader accepts.
const rowsMax = 1 << 27

// RowsEnd is the end of the rows of the i-th metric.
func (b *Block) RowsEnd(i int) uint32 {
	if i+1 < len(b.Metrics) {
		return b.Metrics[i+1].From
	}
	return b.Rows
}

// Column returns the column of a label name, or nil if no series of the block has the label.
func (b *Block) Column(name int) *valueid.Column {
	lo, hi := 0, len(b.Columns)
	for lo < hi {
		mid := (lo + hi) / 2
		if b.Columns[mid].Name < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(b.Columns) && b.Columns[lo].Name == name {
		return &b.Columns[lo].IDs
	}
	return nil
}

// PatternNumber returns the number of a row's pattern.
func (b *Block) PatternNumber(row uint32) (uint32, error) {
	i := b.presence.At(row)
	if int(i) >= len(b.Ends) {
		return 0, fmt.Errorf("%w: number of the hours of row %d", envelope.ErrRange, row)
	}
	return i, nil
}

// Pattern returns a pattern by its number.
func (b *Block) Pattern(i uint32) presence.Pattern {
	from := uint32(0)
	if i > 0 {
		from = b.Ends[i-1]
	}
	return presence.Pattern(b.runs[from:b.Ends[i]])
}

// Meets reports whether a row has hours in the window.
func (b *Block) Meets(row uint32, w *presence.Window) (bool, error) {
	i, err := b.PatternNumber(row)
	return err == nil && b.Pattern(i).Meets(w), err
}

// addPattern appends a pattern.
func (b *Block) addPattern(p presence.Pattern) {
	b.runs = append(b.runs, p...)
	b.Ends = append(b.Ends, uint32(len(b.runs)))
}

// packedColumns lists the presence and all columns. Data cells are numbered in this order, from 1.
func (b *Block) packedColumns() []*valueid.Column {
	out := make([]*valueid.Column, 0, len(b.Columns)+1)
	out = append(out, &b.presence)
	for i := range b.Columns {
		out = append(out, &b.Columns[i].IDs)
	}
	return out
}

func (b *Block) SizeBytes() int64 {
	n := int64(128 + 8*len(b.Metrics) + 8*cap(b.runs) + 4*cap(b.Ends))
	for _, p := range b.packedColumns() {
		n += p.SizeBytes() + 16
	}
	return n
}

// AppendBlockHeader writes the header, followed by the data of the columns if inline is set. The patterns of a day are
// masks.
func AppendBlockHeader(dst []byte, b *Block, partition presence.Partition, inline bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(b.Rows))
	dst = binary.AppendUvarint(dst, uint64(len(b.Metrics)))
	last := uint32(0)
	for i, m := range b.Metrics {
		dst = binary.AppendUvarint(dst, uint64(m.Metric-last))
		dst = binary.AppendUvarint(dst, uint64(b.RowsEnd(i)-m.From))
		last = m.Metric
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Ends)))
	for i := range b.Ends {
		if p := b.Pattern(uint32(i)); partition.IsMonth() {
			dst = presence.AppendRuns(dst, p)
		} else {
			dst = binary.AppendUvarint(dst, uint64(p[0].Hours))
		}
	}
	dst = b.presence.AppendHeader(dst)
	dst = binary.AppendUvarint(dst, uint64(len(b.Columns)))
	last = 0
	for i := range b.Columns {
		c := &b.Columns[i]
		dst = binary.AppendUvarint(dst, uint64(uint32(c.Name)-last))
		dst = c.IDs.AppendHeader(dst)
		last = uint32(c.Name) + 1
	}
	dst = append(dst, boolByte(inline))
	if inline {
		for _, p := range b.packedColumns() {
			dst = append(dst, p.Raw()...)
		}
	}
	return dst
}

// ParseBlockHeader reads the header of a block of a partition. The block has the metrics [from, to). names is the number of label
// names of the partition. If the data is not inline, the caller adds it to the columns. The block refers to the payload.
func ParseBlockHeader(
	payload []byte, partition presence.Partition, from, to uint32, names int,
) (b *Block, inline bool, err error) {
	c := &envelope.Decoder{Rest: payload}
	b = &Block{Rows: c.Number(rowsMax)}
	b.readMetrics(c, from, to)
	b.readPatterns(c, partition)
	b.presence = valueid.ReadHeader(c, b.Rows)
	columns, next := c.Count(5), uint64(0)
	for i := 0; i < columns && c.Err == nil; i++ {
		name := next + c.Uvarint()
		if name < next || name >= uint64(names) {
			c.Fail(envelope.ErrRange)
		}
		b.Columns = append(b.Columns, blockColumn{Name: int(name), IDs: valueid.ReadHeader(c, b.Rows)})
		next = name + 1
	}
	if inline = c.Byte() != 0; inline {
		for _, p := range b.packedColumns() {
			valueid.RefData(c, p)
		}
	}
	return b, inline, c.End()
}

func (b *Block) readPatterns(c *envelope.Decoder, partition presence.Partition) {
	n := c.Count(1)
	for i := 0; i < n && c.Err == nil; i++ {
		if partition.IsMonth() {
			b.runs = presence.ReadRuns(c, b.runs)
		} else {
			b.runs = append(b.runs, presence.DayRun{Days: 1, Hours: c.Number(presence.HoursMask)})
		}
		b.Ends = append(b.Ends, uint32(len(b.runs)))
	}
}

func (b *Block) readMetrics(c *envelope.Decoder, from, to uint32) {
	n, next, row := c.Count(2), uint64(0), uint64(0)
	for i := 0; i < n && c.Err == nil; i++ {
		step := c.Uvarint()
		m := metricRows{Metric: uint32(next + step), From: uint32(row)}
		rows := c.Uvarint()
		if step == 0 || next+step >= uint64(to) || i == 0 && m.Metric != from ||
			rows == 0 || rows > uint64(b.Rows)-row {
			c.Fail(envelope.ErrOrder)
			return
		}
		next, row = next+step, row+rows
		b.Metrics = append(b.Metrics, m)
	}
	if c.Err == nil && (row != uint64(b.Rows) || n == 0) {
		c.Fail(envelope.ErrRange)
	}
}

// Present returns the rows in [from, to) that have hours, in a block of a day.
func (b *Block) Present(from, to uint32) ([]uint32, error) {
	rows := make([]uint32, 0, to-from)
	for row := from; row < to; row++ {
		n, err := b.PatternNumber(row)
		if err != nil {
			return nil, err
		}
		if b.Pattern(n)[0].Hours != 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}
