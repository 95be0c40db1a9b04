package index

import (
	"errors"
	"slices"
)

// nameScan gathers the label names of matching series.
type nameScan struct {
	q     *query
	names map[string]bool
}

func (n *nameScan) run() error {
	if err := n.q.scanActive(n.active); err != nil {
		return err
	}
	n.q.findClosed()
	for _, d := range n.q.closed {
		if len(n.q.matchers) == 0 && n.q.wholeDay(d.day) {
			s, err := n.q.x.segment(n.q.ctx, d)
			if err != nil {
				return err
			}
			for _, name := range s.root.names {
				n.names[name] = true
			}
			if s.root.series > 0 {
				n.names[metricName] = true
			}
			continue
		}
		mask := hoursWithin(d.day, n.q.from, n.q.to)
		if err := n.q.scanClosed(d, func(s *segment, b *block, rows []uint32) error {
			return n.closed(s, b, rows, mask)
		}); err != nil {
			return err
		}
	}
	return nil
}

// active looks for each name that is not found yet for one touched row that has it.
func (n *nameScan) active(v *view, rows []uint32) error {
	check := func(name string, has func(row uint32) bool) {
		if n.names[name] {
			return
		}
		for _, row := range rows {
			if has(row) && n.q.touched(v.ref(row)) {
				n.names[name] = true
				return
			}
		}
	}
	check(metricName, func(uint32) bool { return true })
	for pos, c := range v.columns {
		check(c.dict.name, func(row uint32) bool { return v.data[pos].at(row) != 0 })
	}
	return nil
}

func (n *nameScan) closed(s *segment, b *block, rows []uint32, mask uint32) error {
	check := func(name string, has func(row uint32) bool) error {
		if n.names[name] {
			return nil
		}
		for _, row := range rows {
			if !has(row) {
				continue
			}
			hours, err := b.hoursOf(row)
			if err != nil {
				return s.badHours(b, err)
			}
			if hours&mask != 0 {
				n.names[name] = true
				return nil
			}
		}
		return nil
	}
	if err := check(metricName, func(uint32) bool { return true }); err != nil {
		return err
	}
	for i := range b.columns {
		c := &b.columns[i]
		if err := check(s.root.names[c.name], func(row uint32) bool { return c.ids.at(row) != 0 }); err != nil {
			return err
		}
	}
	return nil
}

// valueScan gathers the values of one label among matching series. A value's rows are asked for their hours only until
// one of them lies in the window.
type valueScan struct {
	q      *query
	name   string
	values []string // sorted

	metrics []string // found in the active catalogue, if name is the metric's
	seen    map[*dictionary]*idSet
}

func (s *valueScan) run() error {
	s.seen = map[*dictionary]*idSet{}
	if err := s.q.scanActive(s.active); err != nil {
		return err
	}
	slices.Sort(s.metrics)
	s.values = s.metrics
	for d, ids := range s.seen {
		s.values = union(s.values, ids.values(d))
	}
	s.q.findClosed()
	for _, d := range s.q.closed {
		values, err := s.closedDay(d)
		if err != nil {
			return err
		}
		s.values = union(s.values, values)
	}
	return nil
}

// values returns the values of the ids, sorted.
func (s *idSet) values(d *dictionary) []string {
	out := make([]string, 0, s.count)
	if s.count*16 > int(d.count.Load()) {
		for _, id := range d.sorted().ids {
			if s.has(id) {
				out = append(out, d.value(id))
			}
		}
		return out
	}
	s.each(func(id uint32) bool {
		out = append(out, d.value(id))
		return true
	})
	slices.Sort(out)
	return out
}

func (s *valueScan) active(v *view, rows []uint32) error {
	if s.name == metricName {
		for _, row := range rows {
			if s.q.touched(v.ref(row)) {
				s.metrics = append(s.metrics, v.t.metric)
				return nil
			}
		}
		return nil
	}
	pos := v.find(s.name)
	if pos < 0 {
		return nil
	}
	d, data := v.columns[pos].dict, v.data[pos]
	ids := s.seen[d]
	if count := d.count.Load(); ids == nil || int(count/64) >= len(ids.words) {
		grown := newIDSet(count)
		if ids != nil {
			ids.each(func(id uint32) bool { grown.add(id); return true })
		}
		ids = grown
		s.seen[d] = ids
	}
	for _, row := range rows {
		if id := data.at(row); id != 0 && !ids.has(id) && s.q.touched(v.ref(row)) {
			ids.add(id)
		}
	}
	return nil
}

// closedDay returns the day's values, sorted.
func (s *valueScan) closedDay(d *closedDay) (out []string, err error) {
	for try := 0; ; try++ {
		if len(s.q.matchers) == 0 && s.q.wholeDay(d.day) {
			out, err = s.wholeDay(d)
		} else {
			out, err = s.partOfDay(d)
		}
		if !errors.Is(err, errStale) || try == staleRetriesMax {
			return out, err
		}
	}
}

// wholeDay returns all values that the day has: its dictionary.
func (s *valueScan) wholeDay(d *closedDay) ([]string, error) {
	seg, err := s.q.x.segment(s.q.ctx, d)
	if err != nil {
		return nil, err
	}
	if _, has := seg.root.name(s.name); !has && s.name != metricName || seg.root.series == 0 {
		return nil, nil
	}
	dict, err := seg.dict(s.q.ctx, s.name)
	if err != nil {
		return nil, err
	}
	out := make([]string, 0, dict.header.values)
	for i := range dict.header.chunks {
		c, err := dict.chunk(s.q.ctx, i)
		if err != nil {
			return nil, err
		}
		for id := c.first; id < c.first+c.count; id++ {
			out = append(out, c.value(id))
		}
	}
	return out, nil
}

// partOfDay returns the values of the series that match and were touched in the window.
func (s *valueScan) partOfDay(d *closedDay) ([]string, error) {
	c := closedValues{s: s, mask: hoursWithin(d.day, s.q.from, s.q.to)}
	if err := s.q.scanClosed(d, c.block); err != nil || c.seg == nil {
		return nil, err
	}
	out := make([]string, 0, c.ids.count)
	var err error
	c.ids.each(func(id uint32) bool {
		var v string
		v, err = c.dict.value(s.q.ctx, id)
		out = append(out, v)
		return err == nil
	})
	return out, err
}

// closedValues gathers the value ids of a day.
type closedValues struct {
	s    *valueScan
	mask uint32
	seg  *segment
	dict *segmentDict
	ids  *idSet
}

func (c *closedValues) block(seg *segment, b *block, rows []uint32) error {
	n, has := seg.root.name(c.s.name)
	metric := c.s.name == metricName
	var column *packed
	if has {
		column = b.column(n)
	}
	if column == nil && !metric {
		return nil
	}
	if c.seg != seg { // the first block, or the day was folded meanwhile and starts anew
		d, err := seg.dict(c.s.q.ctx, c.s.name)
		if err != nil {
			return err
		}
		c.seg, c.dict, c.ids = seg, d, newIDSet(d.header.values)
	}
	at := 0
	for _, row := range rows {
		var id uint32
		if metric {
			for b.rowsEnd(at) <= row {
				at++
			}
			id = b.metrics[at].metric
		} else {
			id = column.at(row)
		}
		if id == 0 || c.ids.has(id) {
			continue
		}
		hours, err := b.hoursOf(row)
		if err == nil && int(id/64) >= len(c.ids.words) {
			err = errRange
		}
		if err != nil {
			return seg.badHours(b, err)
		}
		if hours&c.mask != 0 {
			c.ids.add(id)
		}
	}
	return nil
}
