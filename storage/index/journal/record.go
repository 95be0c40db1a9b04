package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// recordSeriesMax is the largest number of new series in a record that a reader accepts.
const recordSeriesMax = 1 << 16

var errGap = errors.New("record does not continue the records before it")

// record is a parsed record of a journal: new series, and hours for any series that the journal has so far.
type record struct {
	base    uint32 // series in the records before
	rows    uint32 // new series
	names   []recordName
	metrics []recordMetric
	runs    []hourRun
}

type recordName struct {
	name   string
	values []string // values[i] has id i+1
}

type recordMetric struct {
	metric  string
	rows    uint32
	columns []recordColumn
}

type recordColumn struct {
	name int // index in record.names
	ids  valueid.Column
}

func appendRecord(dst []byte, p *record) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.base))
	dst = binary.AppendUvarint(dst, uint64(p.rows))
	dst = binary.AppendUvarint(dst, uint64(len(p.names)))
	for _, n := range p.names {
		dst = envelope.AppendText(dst, n.name)
		dst = binary.AppendUvarint(dst, uint64(len(n.values)))
		for _, v := range n.values {
			dst = envelope.AppendText(dst, v)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.metrics)))
	for _, m := range p.metrics {
		dst = envelope.AppendText(dst, m.metric)
		dst = binary.AppendUvarint(dst, uint64(m.rows))
		dst = binary.AppendUvarint(dst, uint64(len(m.columns)))
		for i := range m.columns {
			c := &m.columns[i]
			dst = binary.AppendUvarint(dst, uint64(c.name))
			dst = c.ids.AppendHeader(dst)
			dst = append(dst, c.ids.Raw()...)
		}
	}
	return appendRuns(dst, p.runs)
}

// parseRecord reads a payload and keeps no reference to it.
func parseRecord(payload []byte) (*record, error) {
	c := &envelope.Decoder{Rest: payload}
	p := &record{base: c.Number(1<<32 - 1), rows: c.Number(recordSeriesMax)}
	if uint64(p.base)+uint64(p.rows) > 1<<32-1 {
		return nil, envelope.ErrRange
	}
	names := c.Count(2)
	for i := 0; i < names && c.Err == nil; i++ {
		n := recordName{name: string(c.Text())}
		if c.Err == nil && (n.name == "" || n.name == model.MetricNameLabel) {
			return nil, fmt.Errorf("%w: label name %q", envelope.ErrRange, n.name)
		}
		values := c.Count(2)
		n.values = make([]string, 0, values)
		for range values {
			v := string(c.Text())
			if v == "" {
				c.Fail(envelope.ErrTruncated)
			}
			n.values = append(n.values, v)
		}
		p.names = append(p.names, n)
	}
	rows := uint64(0)
	metrics := c.Count(3)
	for i := 0; i < metrics && c.Err == nil; i++ {
		m := p.readMetric(c)
		rows += uint64(m.rows)
		p.metrics = append(p.metrics, m)
	}
	if c.Err == nil && rows != uint64(p.rows) {
		return nil, fmt.Errorf("%w: the header says %d series, the record has %d", envelope.ErrRange, p.rows, rows)
	}
	p.runs = readRuns(c, uint64(p.base)+uint64(p.rows))
	return p, c.End()
}

func (p *record) readMetric(c *envelope.Decoder) recordMetric {
	m := recordMetric{metric: string(c.Text()), rows: c.Number(recordSeriesMax)}
	if m.metric == "" {
		c.Fail(envelope.ErrTruncated)
	}
	columns, next := c.Count(5), 0
	for i := 0; i < columns && c.Err == nil; i++ {
		col := recordColumn{name: int(c.Number(1<<31 - 1))}
		if col.name < next || col.name >= len(p.names) {
			c.Fail(envelope.ErrRange)
			return m
		}
		next = col.name + 1
		col.ids = valueid.ReadHeader(c, m.rows)
		valueid.ReadData(c, &col.ids)
		m.columns = append(m.columns, col)
	}
	return m
}

// loader adds the series of a day's records to an index, record by record.
type loader struct {
	active *memory.Index
	rows   []memory.Ref // of each journal row
}

// add loads the next record. It calls visit for every series with hours; row is its row in the journal.
func (l *loader) add(p *record, hour int64, visit func(ref memory.Ref, row, hours uint32)) error {
	if int(p.base) != len(l.rows) {
		return fmt.Errorf("%w: it starts at series %d instead of %d", errGap, p.base, len(l.rows))
	}
	remap := make([][]uint32, len(p.names))
	for i, n := range p.names {
		d := l.active.Dict(n.name)
		remap[i] = make([]uint32, len(n.values)+1)
		for k, v := range n.values {
			remap[i][k+1] = d.Intern(v)
		}
	}
	for i := range p.metrics {
		if err := l.addMetric(p, &p.metrics[i], remap, hour); err != nil {
			return err
		}
	}
	for _, r := range p.runs {
		for row := r.row; row < r.row+r.count; row++ {
			visit(l.rows[row], row, r.hours)
		}
	}
	return nil
}

func (l *loader) addMetric(p *record, m *recordMetric, remap [][]uint32, hour int64) error {
	dicts := make([]*memory.Dictionary, len(m.columns))
	for i, c := range m.columns {
		dicts[i] = l.active.Dict(p.names[c.name].name)
	}
	fill := func(row uint32, ids []uint32) error {
		for i := range m.columns {
			c := &m.columns[i]
			id := c.ids.At(row)
			if int(id) >= len(remap[c.name]) {
				return envelope.ErrRange
			}
			ids[i] = remap[c.name][id]
		}
		return nil
	}
	return l.active.AddRows(m.metric, dicts, m.rows, hour, fill, func(ref memory.Ref) { l.rows = append(l.rows, ref) })
}

// hourRun gives the journal rows [row, row+count) these hours.
type hourRun struct{ row, count, hours uint32 }

// appendRuns writes ascending runs that do not overlap.
func appendRuns(dst []byte, runs []hourRun) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(runs)))
	next := uint32(0)
	for _, r := range runs {
		dst = binary.AppendUvarint(dst, uint64(r.row-next))
		dst = binary.AppendUvarint(dst, uint64(r.count))
		dst = binary.AppendUvarint(dst, uint64(r.hours))
		next = r.row + r.count
	}
	return dst
}

// readRuns reads runs of rows below end.
func readRuns(c *envelope.Decoder, end uint64) (out []hourRun) {
	runs, next := c.Count(3), uint64(0)
	for i := 0; i < runs && c.Err == nil; i++ {
		row := next + c.Uvarint()
		r := hourRun{row: uint32(row), count: c.Number(end), hours: c.Number(presence.HoursMask)}
		next = row + uint64(r.count)
		if row > end || next > end || r.count == 0 || r.hours == 0 {
			c.Fail(envelope.ErrRange)
			return out
		}
		out = append(out, r)
	}
	return out
}
