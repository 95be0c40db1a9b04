package record

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// SeriesColumns collects series and encodes them column by column, one column for each label name. SeriesPacker compresses
// the result into a KindSeriesColumns payload. The label sets of a fleet repeat their values in few patterns. So a
// compressed payload takes a tenth of the bytes of a compressed KindSeries payload. SeriesColumns is not for concurrent use.
type SeriesColumns struct {
	refs    []uint32
	shapes  []seriesShape
	shapeOf []uint32          // shape of each series
	byNames map[string]uint32 // indexes of shapes by their encoded names
	columns []seriesColumn
	byName  map[string]int // indexes of columns
	scratch []byte
	bytes   int
}

// seriesShape is a set of label names.
type seriesShape struct {
	columns []int // by ascending name
	encoded string
	count   uint64
}

// seriesColumn holds the values of one label name.
type seriesColumn struct {
	name   string
	values []string
	ids    map[string]uint32
	cells  []uint32 // for each series that has the label, an index of values
	last   uint32   // the last used index
	at     int      // the next cell, while parsing
}

// NewSeriesColumns returns an empty encoder.
func NewSeriesColumns() *SeriesColumns {
	return &SeriesColumns{byNames: map[string]uint32{}, byName: map[string]int{}}
}

// Add adds the entry that gives the number ref to the series ls. It does not keep the labels' memory.
func (c *SeriesColumns) Add(ref uint32, ls labels.Labels) {
	c.scratch = binary.AppendUvarint(c.scratch[:0], uint64(ls.Len()))
	ls.Range(func(l labels.Label) { c.scratch = appendString(c.scratch, l.Name) })
	id, ok := c.byNames[string(c.scratch)]
	if !ok {
		id = c.addShape(ls)
	}
	c.refs, c.shapeOf = append(c.refs, ref), append(c.shapeOf, id)
	columns, i := c.shapes[id].columns, 0
	ls.Range(func(l labels.Label) {
		c.columns[columns[i]].add(l.Value)
		i++
	})
	c.bytes += seriesBytes(ls)
}

// addShape adds the set of names that scratch holds.
func (c *SeriesColumns) addShape(ls labels.Labels) uint32 {
	s := seriesShape{encoded: string(c.scratch)}
	ls.Range(func(l labels.Label) {
		at, ok := c.byName[l.Name]
		if !ok {
			at = len(c.columns)
			name := strings.Clone(l.Name)
			c.columns = append(c.columns, seriesColumn{name: name, ids: map[string]uint32{}})
			c.byName[name] = at
		}
		s.columns = append(s.columns, at)
	})
	id := uint32(len(c.shapes))
	c.shapes = append(c.shapes, s)
	c.byNames[s.encoded] = id
	return id
}

func (c *seriesColumn) add(value string) {
	if len(c.values) == 0 || c.values[c.last] != value {
		id, ok := c.ids[value]
		if !ok {
			id = uint32(len(c.values))
			value = strings.Clone(value)
			c.values = append(c.values, value)
			c.ids[value] = id
		}
		c.last = id
	}
	c.cells = append(c.cells, c.last)
}

// seriesBytes estimates the bytes that a series takes in a KindSeries payload, rounded up.
func seriesBytes(ls labels.Labels) int {
	size := 2 * binary.MaxVarintLen32
	ls.Range(func(l labels.Label) { size += len(l.Name) + len(l.Value) + 2*binary.MaxVarintLen16 })
	return size
}

// SizeBytes estimates the bytes of the series as a KindSeries payload, rounded up. The caller keeps it below BytesMax.
func (c *SeriesColumns) SizeBytes() int { return c.bytes }

// Append appends the payload.
func (c *SeriesColumns) Append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.refs)))
	previous := uint32(0)
	for _, ref := range c.refs {
		dst = binary.AppendVarint(dst, int64(ref)-int64(previous))
		previous = ref
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.shapes)))
	for _, s := range c.shapes {
		dst = append(dst, s.encoded...)
	}
	for _, id := range c.shapeOf {
		dst = binary.AppendUvarint(dst, uint64(id))
	}
	for i := range c.columns {
		column := &c.columns[i]
		dst = binary.AppendUvarint(dst, uint64(len(column.values)))
		for _, value := range column.values {
			dst = appendString(dst, value)
		}
		for _, id := range column.cells {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	}
	return dst
}

// ParseSeriesColumns calls fn for each series of an unpacked payload, in order. fn must not keep the slice; it may keep the
// strings, which do not alias the payload. ParseSeriesColumns stops at an error of fn and returns it. It returns
// ErrMalformed if the payload does not parse or label names do not ascend. It also does so if the series would exceed
// BytesMax as a KindSeries payload.
func ParseSeriesColumns(payload []byte, fn func(ref uint32, ls []labels.Label) error) error {
	p := seriesParser{r: fieldReader{rest: string(payload)}, c: NewSeriesColumns()}
	if !p.refs() || !p.shapes() || !p.columns() || len(p.r.rest) > 0 {
		return malformed("series in columns", len(payload)-len(p.r.rest))
	}
	var ls []labels.Label
	size := 0
	for i, ref := range p.c.refs {
		ls = ls[:0]
		for _, at := range p.c.shapes[p.c.shapeOf[i]].columns {
			column := &p.c.columns[at]
			value := column.values[column.cells[column.at]]
			size += len(column.name) + len(value)
			ls = append(ls, labels.Label{Name: column.name, Value: value})
			column.at++
		}
		if size > BytesMax {
			return malformed("series in columns are too long", 0)
		}
		if err := fn(ref, ls); err != nil {
			return err
		}
	}
	return nil
}

// seriesParser reads a payload of series in columns. Each number takes at least a byte, so the remaining bytes bound each
// count.
type seriesParser struct {
	r fieldReader
	c *SeriesColumns
}

// count reads the number of entries that follow. Each takes at least a byte.
func (p *seriesParser) count() (n int, ok bool) {
	u := p.r.uvarint()
	return int(u), !p.r.bad && u <= uint64(len(p.r.rest))
}

func (p *seriesParser) refs() bool {
	n, ok := p.count()
	if !ok {
		return false
	}
	p.c.refs = make([]uint32, n)
	ref := int64(0)
	for i := range p.c.refs {
		u := p.r.uvarint()
		if ref += int64(u>>1) ^ -int64(u&1); p.r.bad || ref < 0 || ref > math.MaxUint32 {
			return false
		}
		p.c.refs[i] = uint32(ref)
	}
	return true
}

func (p *seriesParser) shapes() bool {
	n, ok := p.count()
	for range n {
		s := seriesShape{}
		var names int
		if names, ok = p.count(); !ok {
			return false
		}
		previous := ""
		for i := range names {
			name := p.r.field()
			if p.r.bad || i > 0 && name <= previous {
				return false
			}
			at, known := p.c.byName[name]
			if !known {
				at = len(p.c.columns)
				p.c.byName[name] = at
				p.c.columns = append(p.c.columns, seriesColumn{name: name})
			}
			s.columns = append(s.columns, at)
			previous = name
		}
		p.c.shapes = append(p.c.shapes, s)
	}
	if !ok || len(p.c.refs) > len(p.r.rest) {
		return false
	}
	p.c.shapeOf = make([]uint32, len(p.c.refs))
	for i := range p.c.shapeOf {
		id := p.r.uvarint()
		if p.r.bad || id >= uint64(n) {
			return false
		}
		p.c.shapeOf[i] = uint32(id)
		p.c.shapes[id].count++
	}
	return true
}

func (p *seriesParser) columns() bool {
	counts := make([]uint64, len(p.c.columns))
	for _, s := range p.c.shapes {
		for _, at := range s.columns {
			counts[at] += s.count
		}
	}
	for i := range p.c.columns {
		column := &p.c.columns[i]
		n, ok := p.count()
		if !ok || uint64(n) > counts[i] {
			return false
		}
		column.values = slices.Grow(column.values, n)
		for range n {
			column.values = append(column.values, p.r.field())
		}
		if p.r.bad || counts[i] > uint64(len(p.r.rest)) {
			return false
		}
		column.cells = make([]uint32, counts[i])
		for k := range column.cells {
			id := p.r.uvarint()
			if p.r.bad || id >= uint64(n) {
				return false
			}
			column.cells[k] = uint32(id)
		}
	}
	return true
}
