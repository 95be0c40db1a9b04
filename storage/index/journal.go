package index

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

// A day's journal is a sequence of parts, one row each. A part brings new series, numbered on from the parts before it,
// and hours for any series of the journal. It carries its own dictionaries, so that it can be read with nothing else.

// partRowLimit is the number of new series in a part that a reader accepts.
const partRowLimit = 1 << 16

var errPartGap = errors.New("part does not continue the parts before it")

// part is a parsed journal part.
type part struct {
	base    uint32 // series in the parts before
	rows    uint32 // new series
	names   []partName
	metrics []partMetric
	runs    []hourRun
}

type partName struct {
	name   string
	values []string // values[i] has id i+1
}

type partMetric struct {
	metric  string
	rows    uint32
	columns []partColumn
}

type partColumn struct {
	name int // index in part.names
	ids  valueid.Column
}

func appendPart(dst []byte, p *part) []byte {
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

// parsePart reads a payload; what it returns does not refer to the payload.
func parsePart(payload []byte) (*part, error) {
	c := &envelope.Decoder{Rest: payload}
	p := &part{base: c.Number(1<<32 - 1), rows: c.Number(partRowLimit)}
	if uint64(p.base)+uint64(p.rows) > 1<<32-1 {
		return nil, envelope.ErrRange
	}
	names := c.Count(2)
	for i := 0; i < names && c.Err == nil; i++ {
		n := partName{name: string(c.Text())}
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
		return nil, fmt.Errorf("%w: %d series announced, %d found", envelope.ErrRange, p.rows, rows)
	}
	p.runs = readRuns(c, uint64(p.base)+uint64(p.rows))
	return p, c.End()
}

func (p *part) readMetric(c *envelope.Decoder) partMetric {
	m := partMetric{metric: string(c.Text()), rows: c.Number(partRowLimit)}
	if m.metric == "" {
		c.Fail(envelope.ErrTruncated)
	}
	columns, next := c.Count(5), 0
	for i := 0; i < columns && c.Err == nil; i++ {
		col := partColumn{name: int(c.Number(1<<31 - 1))}
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

// journalReader takes a day's parts in order into an index.
type journalReader struct {
	active *memory.Index
	rows   []memory.Ref // of each journal row
}

// add takes in the next part; touch is called for every series with hours, row is its journal row.
func (j *journalReader) add(p *part, hour int64, touch func(ref memory.Ref, row, hours uint32)) error {
	if int(p.base) != len(j.rows) {
		return fmt.Errorf("%w: it starts at series %d, they end at %d", errPartGap, p.base, len(j.rows))
	}
	remap := make([][]uint32, len(p.names))
	for i, n := range p.names {
		d := j.active.Dict(n.name)
		remap[i] = make([]uint32, len(n.values)+1)
		for k, v := range n.values {
			remap[i][k+1] = d.Intern(v)
		}
	}
	for i := range p.metrics {
		if err := j.addMetric(p, &p.metrics[i], remap, hour); err != nil {
			return err
		}
	}
	for _, r := range p.runs {
		for row := r.row; row < r.row+r.count; row++ {
			touch(j.rows[row], row, r.hours)
		}
	}
	return nil
}

func (j *journalReader) addMetric(p *part, m *partMetric, remap [][]uint32, hour int64) error {
	dicts := make([]*memory.Dictionary, len(m.columns))
	for i, c := range m.columns {
		dicts[i] = j.active.Dict(p.names[c.name].name)
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
	return j.active.AddRows(m.metric, dicts, m.rows, hour, fill, func(ref memory.Ref) { j.rows = append(j.rows, ref) })
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
