package index

import (
	"github.com/prometheus/prometheus/model/labels"
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
			n.names[labels.MetricName] = n.names[labels.MetricName] || s.root.series > 0
			continue
		}
		mask := hoursWithin(d.day, n.q.from, n.q.to)
		if err := n.q.scanClosed(d, func(s *segment, b *block, rows []uint32) error {
			return n.closed(s, b, rows, mask)
		}); err != nil {
			return err
		}
	}
	if !n.names[labels.MetricName] {
		delete(n.names, labels.MetricName)
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
	check(labels.MetricName, func(uint32) bool { return true })
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
	if err := check(labels.MetricName, func(uint32) bool { return true }); err != nil {
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
	values map[string]bool

	seen map[*dictionary]*idSet
}

func (s *valueScan) run() error {
	s.seen = map[*dictionary]*idSet{}
	if err := s.q.scanActive(s.active); err != nil {
		return err
	}
	for d, ids := range s.seen {
		ids.each(func(id uint32) bool {
			s.values[d.value(id)] = true
			return true
		})
	}
	s.q.findClosed()
	for _, d := range s.q.closed {
		if err := s.closedDay(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *valueScan) active(v *view, rows []uint32) error {
	if s.name == labels.MetricName {
		for _, row := range rows {
			if s.q.touched(v.ref(row)) {
				s.values[v.t.metric] = true
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

func (s *valueScan) closedDay(d *closedDay) error {
	found := map[uint32]*idSet{} // by generation: a retry after a fold starts anew
	mask := hoursWithin(d.day, s.q.from, s.q.to)
	whole := s.q.wholeDay(d.day) && len(s.q.matchers) == 0
	if whole {
		seg, err := s.q.x.segment(s.q.ctx, d)
		if err != nil {
			return err
		}
		if ok, err := s.allValues(seg); err == nil || !ok {
			return err
		}
	}
	return s.q.scanClosed(d, func(seg *segment, b *block, rows []uint32) error {
		ids := found[seg.root.gen]
		return s.closedBlock(seg, b, rows, mask, &ids, func(set *idSet) { found[seg.root.gen] = set })
	})
}

// allValues takes the day's whole dictionary; after an error with ok set the blocks can be scanned instead.
func (s *valueScan) allValues(seg *segment) (ok bool, err error) {
	if _, has := seg.root.name(s.name); !has && s.name != labels.MetricName {
		return false, nil
	}
	d, err := seg.dict(s.q.ctx, s.name)
	if err != nil {
		return true, err
	}
	for i := range d.header.chunks {
		c, err := d.chunk(s.q.ctx, i)
		if err != nil {
			return true, err
		}
		for id := c.first; id < c.first+c.count; id++ {
			s.values[c.value(id)] = true
		}
	}
	return true, nil
}

func (s *valueScan) closedBlock(
	seg *segment, b *block, rows []uint32, mask uint32, ids **idSet, keep func(*idSet),
) error {
	n, has := seg.root.name(s.name)
	metric := s.name == labels.MetricName
	var column *packed
	if has {
		column = b.column(n)
	}
	if column == nil && !metric {
		return nil
	}
	d, err := seg.dict(s.q.ctx, s.name)
	if err != nil {
		return err
	}
	if *ids == nil {
		*ids = newIDSet(d.header.values)
		keep(*ids)
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
		if id == 0 || (*ids).has(id) {
			continue
		}
		hours, err := b.hoursOf(row)
		if err != nil {
			return seg.badHours(b, err)
		}
		if hours&mask == 0 {
			continue
		}
		value, err := d.value(s.q.ctx, id)
		if err != nil {
			return err
		}
		(*ids).add(id)
		s.values[value] = true
	}
	return nil
}
