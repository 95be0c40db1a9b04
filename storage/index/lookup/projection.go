package lookup

import (
	"slices"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
)

// projection builds the active series of a query with only some of their labels. It builds one label set for each combination
// of value ids in a table.
type projection struct {
	hours  collector // only hours of projected series
	names  []string  // without the metric's name
	tables []tableRows
	*projectionScratch
	builder labels.ScratchBuilder
	groups  uint32
	early   bool // a table has labels that sort before the metric's name

	// The current table:
	v       *memory.View
	columns []projected
	numbers map[uint64]int // numbers of combinations, by the number of the earlier columns' combination and an id; nil if computed
}

// tableRows are rows of a table. end is their end in the list of the rows of all tables.
type tableRows struct {
	v   *memory.View
	end int
}

// projected is a projected column.
type projected struct {
	pos  uint16
	data *memory.ColumnData
	ids  int // number of possible values, including 0
}

// combination is the group and the labels of rows with the same ids. The group is 0 before the first of these rows.
type combination struct {
	group  uint32
	labels labels.Labels
}

// projectionScratch is memory that projections reuse.
type projectionScratch struct {
	rows  []uint32 // of all tables
	cells []combination
	sort  memory.SortScratch
}

var projectionPool = sync.Pool{New: func() any { return new(projectionScratch) }}

// cellsShare bounds the possible combinations for each row. With more, a map numbers the combinations that occur.
const cellsShare = 4

func newProjection(q *query, names []string) *projection {
	return &projection{
		hours: collector{q: q}, names: names, builder: labels.NewScratchBuilder(8),
		projectionScratch: projectionPool.Get().(*projectionScratch),
	}
}

// close frees the memory. Series do not refer to it.
func (p *projection) close() {
	p.rows = p.rows[:0]
	clear(p.cells)
	projectionPool.Put(p.projectionScratch)
}

// unordered reports whether the concatenated tables are not in the order of labels.
func (p *projection) unordered() bool { return p.early && len(p.tables) > 1 }

// addRows adds rows of a table.
func (p *projection) addRows(v *memory.View, rows []uint32) error {
	p.rows = append(p.rows, rows...)
	p.tables = append(p.tables, tableRows{v.Clone(), len(p.rows)})
	return nil
}

// series makes the series of all rows that have hours.
func (p *projection) series() ([]Series, error) {
	if err := p.hours.q.charge(len(p.rows) * SeriesBytes); err != nil {
		return nil, err
	}
	out := make([]Series, 0, len(p.rows))
	from := 0
	for _, t := range p.tables {
		rows := t.v.SortRows(p.rows[from:t.end], &p.sort)
		from = t.end
		p.beginTable(t.v, len(rows))
		for i := 0; i < len(rows) && (i%4096 != 0 || p.hours.q.ctx.Err() == nil); i += projectionBatch {
			out = p.appendSeries(out, rows[i:min(i+projectionBatch, len(rows))])
		}
	}
	return out, p.hours.q.ctx.Err()
}

// projectionBatch is the number of rows whose refs and hours one loop fetches. It divides 4096.
const projectionBatch = 128

// appendSeries appends the series of some rows of the current table.
func (p *projection) appendSeries(out []Series, rows []uint32) []Series {
	var (
		refs   [projectionBatch]memory.Ref
		words  [projectionBatch]uint32
		day    = p.hours.q.onlyDay()
		wanted uint32
	)
	for i, row := range rows {
		refs[i] = p.v.Ref(row)
	}
	if day != nil {
		day.HoursOfRefs(refs[:len(rows)], words[:len(rows)])
		wanted = presence.HoursWithin(day.Day, p.hours.q.first, p.hours.q.to)
	}
	for i, row := range rows {
		ref := refs[i]
		if ref == 0 {
			continue // retired
		}
		var hours []presence.Span
		if day != nil {
			hours = p.hours.hoursOf(day.Day, words[i]&wanted)
		} else {
			hours = p.hours.activeHours(ref)
		}
		if len(hours) > 0 {
			c := p.combination(row)
			out = append(out, Series{Labels: c.labels, Ref: ref, Group: c.group, Hours: hours, v: p.v, row: row})
		}
	}
	return out
}

// beginTable begins a table and sets the number of rows that it needs.
func (p *projection) beginTable(v *memory.View, rows int) {
	p.v, p.columns, p.numbers = v, p.columns[:0], nil
	p.hours.q.first = p.hours.q.firstRetainedHour(v.Metric())
	cells := 1
	for _, pos := range v.ByName {
		c := v.Columns[pos]
		p.early = p.early || c.Dict.Name < model.MetricNameLabel
		if slices.Contains(p.names, c.Dict.Name) {
			ids := int(c.Dict.Len()) + 1
			p.columns = append(p.columns, projected{pos, v.Data[pos], ids})
			cells = min(cells*ids, 1<<30)
		}
	}
	if cells > cellsShare*rows {
		p.numbers, cells = make(map[uint64]int), 1
	}
	clear(p.cells)
	p.cells = slices.Grow(p.cells[:0], cells)[:cells]
}

// combination returns the combination of a row.
func (p *projection) combination(row uint32) *combination {
	at := 0
	for i := range p.columns {
		c := &p.columns[i]
		id := c.data.At(row)
		if p.numbers == nil {
			at = at*c.ids + int(id)
			continue
		}
		key := uint64(at)<<32 | uint64(id)
		next, known := p.numbers[key]
		if !known {
			next = len(p.cells)
			p.numbers[key] = next
			p.cells = append(p.cells, combination{})
		}
		at = next
	}
	c := &p.cells[at]
	if c.group == 0 {
		p.groups++
		*c = combination{p.groups, p.labels(row)}
	}
	return c
}

// labels returns the projected labels of a row.
func (p *projection) labels(row uint32) labels.Labels {
	p.builder.Reset()
	p.builder.Add(model.MetricNameLabel, p.v.Metric())
	for _, c := range p.columns {
		if id := c.data.At(row); id != 0 {
			d := p.v.Columns[c.pos].Dict
			p.builder.Add(d.Name, d.Value(id))
		}
	}
	p.builder.Sort()
	return p.builder.Labels()
}
