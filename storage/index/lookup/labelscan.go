package lookup

import (
	"slices"

	"github.com/prometheus/common/model"

	"halite/storage/index/envelope"
	"halite/storage/index/memory"
	"halite/storage/index/segment"
	"halite/storage/index/sorted"
	"halite/storage/index/valueid"
)

// labelNameScan collects the label names of matching series.
type labelNameScan struct {
	q     *query
	names map[string]bool
	found valueid.Set // dictionaries of the active labels in names
}

func (n *labelNameScan) run() error {
	if err := n.q.scanActive(n.active); err != nil {
		return err
	}
	n.q.findClosed()
	if len(n.q.matchers) > 0 {
		return n.q.forEachClosed(n.scan)
	}
	n.q.wholeDays = true // for the masks of the manifest
	return n.q.forEachClosed(func(s *segment.Segment) error {
		mask, ok := s.WindowMask()
		if !ok || n.q.hasExpired(s) {
			return n.scan(s)
		}
		for i, name := range s.Manifest.Names {
			if s.Manifest.TouchedNames[i]&mask != 0 {
				n.names[name] = true
			}
		}
		if s.Manifest.Touched&mask != 0 && s.Manifest.Series > 0 {
			n.names[model.MetricNameLabel] = true
		}
		return nil
	})
}

func (n *labelNameScan) scan(s *segment.Segment) error { return n.q.scanSegment(s, n.closed) }

// active searches, for each missing name, a row that has the name and was active in the window.
func (n *labelNameScan) active(v *memory.View, rows []uint32) error {
	if !n.names[model.MetricNameLabel] && n.touched(v, rows, nil) {
		n.names[model.MetricNameLabel] = true
	}
	for pos, c := range v.Columns {
		// The first tables have most of the labels. Later tables need no look-up in the map.
		if id := c.Dict.ID; !n.found.Has(id) && n.touched(v, rows, v.Data[pos]) {
			n.found.Grow(id)
			n.found.Add(id)
			n.names[c.Dict.Name] = true
		}
	}
	return nil
}

// touched reports whether one of the rows has the label of the column and was active in the window. A nil column means any
// label.
func (n *labelNameScan) touched(v *memory.View, rows []uint32, data *memory.ColumnData) bool {
	for _, row := range rows {
		if (data == nil || data.At(row) != 0) && n.q.touched(v.Ref(row)) {
			return true
		}
	}
	return false
}

func (n *labelNameScan) closed(s *segment.Segment, b *segment.Block, rows []uint32) error {
	check := func(name string, has func(row uint32) bool) error {
		if n.names[name] {
			return nil
		}
		for _, row := range rows {
			if !has(row) {
				continue
			}
			meets, err := b.Meets(row, &s.Window)
			if err != nil {
				return s.CorruptHours(b, err)
			}
			if meets {
				n.names[name] = true
				return nil
			}
		}
		return nil
	}
	if err := check(model.MetricNameLabel, func(uint32) bool { return true }); err != nil {
		return err
	}
	for i := range b.Columns {
		c := &b.Columns[i]
		if err := check(s.Manifest.Names[c.Name], func(row uint32) bool { return c.IDs.At(row) != 0 }); err != nil {
			return err
		}
	}
	return nil
}

// labelValueScan collects the values of one label among matching series. For each value it checks the hours of rows only until
// it finds one in the window.
type labelValueScan struct {
	q      *query
	name   string
	values []string // sorted

	metrics []string // found in the active index, if the label is the metric's name
	seen    map[*memory.Dictionary]*valueid.Set
}

func (s *labelValueScan) run() error {
	s.seen = map[*memory.Dictionary]*valueid.Set{}
	if err := s.q.scanActive(s.active); err != nil {
		return err
	}
	s.values = s.metrics // the tables are in the order of metrics
	for d, ids := range s.seen {
		s.values = sorted.Union(s.values, dictValues(ids, d))
	}
	s.q.findClosed()
	s.q.wholeDays = len(s.q.matchers) == 0 // for the masks of the dictionary
	return s.q.forEachClosed(func(seg *segment.Segment) error {
		values, err := s.closed(seg)
		if err != nil {
			return err
		}
		s.values = sorted.Union(s.values, values)
		return nil
	})
}

// dictValues returns the values of the ids, sorted.
func dictValues(s *valueid.Set, d *memory.Dictionary) []string {
	out := make([]string, 0, s.Count)
	if s.Count*16 > int(d.Len()) {
		for _, id := range d.Sorted().IDs {
			if s.Has(id) {
				out = append(out, d.Value(id))
			}
		}
		return out
	}
	s.ForEach(func(id uint32) bool {
		out = append(out, d.Value(id))
		return true
	})
	slices.Sort(out)
	return out
}

func (s *labelValueScan) active(v *memory.View, rows []uint32) error {
	if s.name == model.MetricNameLabel {
		for _, row := range rows {
			if s.q.touched(v.Ref(row)) {
				if s.metrics == nil {
					s.metrics = make([]string, 0, 64)
				}
				s.metrics = append(s.metrics, v.Metric())
				return nil
			}
		}
		return nil
	}
	pos := v.Find(s.name)
	if pos < 0 {
		return nil
	}
	d, data := v.Columns[pos].Dict, v.Data[pos]
	ids, count := s.seen[d], d.Len()
	if ids == nil || !ids.Holds(count) {
		grown := valueid.NewSet(count)
		if ids != nil {
			ids.ForEach(func(id uint32) bool { grown.Add(id); return true })
		}
		ids = grown
		s.seen[d] = ids
	}
	for _, row := range rows {
		if ids.Count == int(count) {
			break // Other rows have no other values.
		}
		if id := data.At(row); id != 0 && !ids.Has(id) && s.q.touched(v.Ref(row)) {
			ids.Add(id)
		}
	}
	return nil
}

// closed returns the values of a segment, sorted. Without matchers it reads them from the dictionary.
func (s *labelValueScan) closed(seg *segment.Segment) ([]string, error) {
	if _, has := seg.Manifest.Name(s.name); !has && s.name != model.MetricNameLabel || seg.Manifest.Series == 0 {
		return nil, nil
	}
	mask, ok := seg.WindowMask()
	if len(s.q.matchers) > 0 || !ok || s.q.hasExpired(seg) {
		return s.scan(seg)
	}
	dict, err := seg.Dict(s.q.ctx, s.name)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, dict.Header.Values)
	for i := range dict.Header.Chunks {
		c, err := dict.Chunk(s.q.ctx, i)
		if err != nil {
			return nil, err
		}
		out = c.AppendTouched(out, mask)
	}
	return out, nil
}

// scan returns the values of the series that match and were active in the window.
func (s *labelValueScan) scan(seg *segment.Segment) ([]string, error) {
	d, err := seg.Dict(s.q.ctx, s.name)
	if err != nil {
		return nil, err
	}
	c := closedValues{s: s, dict: d, ids: valueid.NewSet(d.Header.Values)}
	if err := s.q.scanSegment(seg, c.block); err != nil {
		return nil, err
	}
	out := make([]string, 0, c.ids.Count)
	c.ids.ForEach(func(id uint32) bool {
		var v string
		v, err = c.dict.Value(s.q.ctx, id)
		out = append(out, v)
		return err == nil
	})
	return out, err
}

// closedValues collects the value ids of a segment.
type closedValues struct {
	s    *labelValueScan
	dict *segment.Dict
	ids  *valueid.Set
}

func (c *closedValues) block(seg *segment.Segment, b *segment.Block, rows []uint32) error {
	n, has := seg.Manifest.Name(c.s.name)
	metric := c.s.name == model.MetricNameLabel
	var column *valueid.Column
	if has {
		column = b.Column(n)
	}
	if column == nil && !metric {
		return nil
	}
	at := 0
	for _, row := range rows {
		var id uint32
		if metric {
			for b.RowsEnd(at) <= row {
				at++
			}
			id = b.Metrics[at].Metric
		} else {
			id = column.At(row)
		}
		if id == 0 || c.ids.Has(id) {
			continue
		}
		meets, err := b.Meets(row, &seg.Window)
		switch {
		case err != nil:
			return seg.CorruptHours(b, err)
		case !c.ids.Holds(id):
			return seg.CorruptHours(b, envelope.ErrRange)
		}
		if meets {
			c.ids.Add(id)
		}
	}
	return nil
}
