package compaction

import (
	"context"
	"slices"

	"github.com/prometheus/common/model"

	"halite/storage/index/memory"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
	"halite/storage/index/valueid"
)

// Source has series of a partition to compact. It is the active index, the previous segment, the segment of one of its days,
// or the result of a rebuild from the data rows.
type Source interface {
	// metrics returns the metrics that have series, sorted.
	metrics(ctx context.Context) ([]string, error)
	// names returns the label names, indexed by the source's own ids. A name may occur more than once.
	names() []string
	// values calls fn for the values in use of a label name.
	values(ctx context.Context, name int, fn func(id uint32, value string)) error
	// rows returns the series of a metric, column by column. It returns nothing for a metric without series.
	rows(ctx context.Context, metric string, hours *presence.Patterns) (sourceRows, error)
}

// sourceRows holds the series of a metric. The i-th series has the id columns[k].ids[i] of each label, 0 if absent, and the
// presence hours[i].
type sourceRows struct {
	columns []sourceColumn
	hours   []uint32
}

type sourceColumn struct {
	name int
	ids  []uint32
}

// activeSource reads active series that have hours in a snapshot of a day. The caller prevents the replacement of tables.
type activeSource struct {
	active *memory.Index
	hours  memory.HoursByRef
	tables []*memory.Table
	dicts  []*memory.Dictionary
	used   []*valueid.Set
	number map[*memory.Dictionary]int
}

// NewActiveSource returns the active series that have hours.
func NewActiveSource(cat *memory.Index, hours memory.HoursByRef) *activeSource {
	s := &activeSource{active: cat, hours: hours, number: map[*memory.Dictionary]int{}}
	var v memory.View
	for _, t := range cat.Tables() {
		v.Load(t)
		touched := s.touched(&v)
		if len(touched) == 0 {
			continue
		}
		s.tables = append(s.tables, t)
		for pos, c := range v.Columns {
			n, ok := s.number[c.Dict]
			if !ok {
				n = len(s.dicts)
				s.number[c.Dict] = n
				s.dicts = append(s.dicts, c.Dict)
				s.used = append(s.used, valueid.NewSet(c.Dict.Len()))
			}
			set, data := s.used[n], v.Data[pos]
			for _, row := range touched {
				// Larger ids belong to series that were added, and so marked active, after the snapshot.
				if id := data.At(row); set.Holds(id) {
					set.Add(id)
				}
			}
		}
	}
	return s
}

// touched lists the rows with hours.
func (s *activeSource) touched(v *memory.View) []uint32 {
	var rows []uint32
	for row := range v.Rows {
		if s.hours.Hours(v.Ref(row)) != 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

func (s *activeSource) metrics(context.Context) ([]string, error) {
	out := make([]string, len(s.tables))
	for i, t := range s.tables {
		out[i] = t.Metric
	}
	return out, nil
}

func (s *activeSource) names() []string {
	out := make([]string, len(s.dicts))
	for i, d := range s.dicts {
		out[i] = d.Name
	}
	return out
}

func (s *activeSource) values(_ context.Context, name int, fn func(id uint32, value string)) error {
	d := s.dicts[name]
	s.used[name].ForEach(func(id uint32) bool {
		fn(id, d.Value(id))
		return true
	})
	return nil
}

func (s *activeSource) rows(_ context.Context, metric string, _ *presence.Patterns) (sourceRows, error) {
	var out sourceRows
	t := s.active.Table(metric)
	if t == nil {
		return out, nil
	}
	var v memory.View
	v.Load(t)
	touched := s.touched(&v)
	for _, row := range touched {
		out.hours = append(out.hours, s.hours.Hours(v.Ref(row)))
	}
	for pos, c := range v.Columns {
		n, ok := s.number[c.Dict]
		if !ok {
			continue
		}
		ids, any := make([]uint32, len(touched)), uint32(0)
		for i, row := range touched {
			ids[i] = v.Data[pos].At(row)
			any |= ids[i]
		}
		if any != 0 {
			out.columns = append(out.columns, sourceColumn{name: n, ids: ids})
		}
	}
	return out, nil
}

// SegmentSource reads a segment. Shift is the position of the segment's first day in the new partition.
type SegmentSource struct {
	Segment *segment.Segment
	Shift   uint8
}

func (c SegmentSource) metrics(ctx context.Context) ([]string, error) {
	d, err := c.Segment.Dict(ctx, model.MetricNameLabel)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, d.Header.Values)
	for id := uint32(1); id <= d.Header.Values; id++ {
		v, err := d.Value(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (c SegmentSource) names() []string { return c.Segment.Manifest.Names }

func (c SegmentSource) values(ctx context.Context, name int, fn func(id uint32, value string)) error {
	d, err := c.Segment.Dict(ctx, c.Segment.Manifest.Names[name])
	if err != nil {
		return err
	}
	for i := range d.Header.Chunks {
		chunk, err := d.Chunk(ctx, i)
		if err != nil {
			return err
		}
		for id := chunk.First; id < chunk.First+chunk.Count; id++ {
			fn(id, chunk.Value(id))
		}
	}
	return nil
}

func (c SegmentSource) rows(ctx context.Context, metric string, hours *presence.Patterns) (sourceRows, error) {
	var out sourceRows
	names, err := c.Segment.Dict(ctx, model.MetricNameLabel)
	if err != nil {
		return out, err
	}
	id, err := names.Lookup(ctx, metric)
	if err != nil || id == 0 {
		return out, err
	}
	from, to := c.Segment.Manifest.BlocksOf(id)
	for n := from; n < to; n++ {
		blocks, err := c.Segment.Blocks(ctx, []int{n})
		if err != nil {
			return out, err
		}
		if err := out.addBlock(c, blocks[0], id, hours); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addBlock appends the rows of a metric in a block.
func (r *sourceRows) addBlock(c SegmentSource, b *segment.Block, metric uint32, hours *presence.Patterns) error {
	numbers := make([]uint32, len(b.Ends)) // numbers of the block's patterns; 0 until the first use
	for i, m := range b.Metrics {
		if m.Metric != metric {
			continue
		}
		before, to := len(r.hours), b.RowsEnd(i)
		rows := make([]uint32, 0, to-m.From) // rows with hours
		for row := m.From; row < to; row++ {
			n, err := b.PatternNumber(row)
			if err != nil {
				return c.Segment.CorruptHours(b, err)
			}
			if numbers[n] == 0 {
				numbers[n] = hours.Number(b.Pattern(n).Later(c.Shift))
			}
			if numbers[n] != 0 {
				r.hours = append(r.hours, numbers[n])
				rows = append(rows, row)
			}
		}
		for k := range b.Columns {
			c := &b.Columns[k]
			ids, any := make([]uint32, 0, len(rows)), uint32(0)
			for _, row := range rows {
				id := c.IDs.At(row)
				ids = append(ids, id)
				any |= id
			}
			if any != 0 {
				r.addColumn(c.Name, before, ids)
			}
		}
		for k := range r.columns {
			c := &r.columns[k]
			c.ids = append(c.ids, make([]uint32, len(r.hours)-len(c.ids))...)
		}
	}
	return nil
}

// addColumn appends rows to a column that has before rows.
func (r *sourceRows) addColumn(name, before int, ids []uint32) {
	at := slices.IndexFunc(r.columns, func(c sourceColumn) bool { return c.name == name })
	if at < 0 {
		at = len(r.columns)
		r.columns = append(r.columns, sourceColumn{name: name, ids: make([]uint32, before)})
	}
	r.columns[at].ids = append(r.columns[at].ids, ids...)
}
