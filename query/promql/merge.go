package promql

import "halite/storage/index"

// Rows of several hours that a selector wants together are kept once more as one entry: who asks for these hours again
// needs one look-up, and no copy.

const (
	// mergeHoursMax and mergeHoursMin bound the number of hours that are merged; a key has no room for more.
	mergeHoursMax = 31
	mergeHoursMin = 2
	// allFound marks a day of which nothing is left to keep: all its blocks were found.
	allFound = dayFound<<1 - 1
)

// merging is what a search needs to find and to make such entries.
type merging struct {
	on      bool
	nowHour int64
	span    index.HourSpan // that was asked for last
	block   block          // the hours at its beginning that may be merged
	found   bool           // those of the series before were
	list    []merged       // to be kept
	samples *buffer        // of these
}

// merged is the hours of a series, and where their samples end; they begin where those before end.
type merged struct {
	series int32
	block  block
	end    int
}

// mergeable are the hours at the beginning of a span that are over and were not written since the series were selected;
// none if there are too few or too many.
func (s *search) mergeable(span index.HourSpan) *block {
	m := &s.merging
	if m.span == span {
		return &m.block
	}
	m.span, m.block = span, block{firstHour: span.First}
	if span.Last-span.First >= mergeHoursMax {
		return &m.block
	}
	b := &m.block
	for hour := span.First; hour <= span.Last && hour < m.nowHour && s.p.epochs.of(hour) <= s.p.epoch; hour++ {
		b.epoch = max(b.epoch, s.p.epochs.of(hour))
		b.hours++
	}
	if b.hours < mergeHoursMin {
		b.hours = 0
	}
	return b
}

// touchTogether is touch for merged hours; it reports whether that will do.
func (s *search) touchTogether(number uint64, span index.HourSpan) bool {
	if !s.merging.on || !s.merging.found {
		return false
	}
	b := s.mergeable(span)
	if b.hours > 0 {
		s.ahead.add(s.u.table.probably(blockKey(number, b.firstHour, b.hours)))
	}
	return b.hours > 0
}

// together looks for the merged hours of a span, the first of which has slot at; it returns how many it has found.
func (s *search) together(span index.HourSpan, at int) (taken int64) {
	if !s.merging.on {
		return 0
	}
	b := s.mergeable(span)
	if s.merging.found = b.hours > 0 && s.block(b, b.firstHour, b.lastHour(), at); !s.merging.found {
		return 0
	}
	days := s.p.found[s.series*len(s.p.days) : (s.series+1)*len(s.p.days)]
	for i := range days {
		days[i] = allFound
	}
	return b.hours
}

// mergeableOf are the hours of a series that are to be merged, as they were found as several entries; nil if there are none.
func (s *search) mergeableOf(hits []hit) *block {
	series := int(hits[0].series)
	spans := s.p.hoursOf(series)
	if !s.merging.on || len(spans) != 1 || s.p.wanted[series] != nil {
		return nil
	}
	b := s.mergeable(spans[0])
	several := 0
	for i := range hits {
		if h := &hits[i]; h.hours.First <= b.lastHour() && h.shape.len() > 0 {
			several++
		}
	}
	if b.hours == 0 || several < 2 {
		return nil
	}
	return b
}

// merge notes the hours of a series for keepMerged.
func (s *search) merge(hits []hit) {
	b := s.mergeableOf(hits)
	if b == nil {
		return
	}
	m := &s.merging
	if m.samples == nil {
		m.samples = s.p.buffers.get(0)
	}
	before := m.samples.len()
	for i := range hits {
		h := &hits[i]
		if h.hours.First > b.lastHour() {
			break
		}
		words := s.words(h)
		hours := index.HourSpan{First: h.hours.First, Last: min(h.hours.Last, b.lastHour())}
		from, end := h.shape.within(words, h.startMs, hoursWindow(hours))
		m.samples.appendEntry(h.shape, words, h.startMs, from, end)
	}
	if err := s.p.charge(m.samples.len() - before); err != nil {
		m.samples.truncate(before) // then they are not merged
		m.on = false
		return
	}
	m.list = append(m.list, merged{series: hits[0].series, block: *b, end: m.samples.len()})
}

// keepMerged keeps what merge has noted. The caller does not hold the table's lock.
func (s *search) keepMerged() {
	m := &s.merging
	s.p.scratch.merges = m.list
	if m.samples == nil {
		return
	}
	start := 0
	for i := range m.list {
		one := &m.list[i]
		c := columns{m.samples.tsMs[start:one.end], m.samples.values[start:one.end]}
		s.u.put(&s.p.series[one.series], one.block.firstHour, one.block.hours, one.block.epoch, c, traitsOf(c))
		start = one.end
	}
	s.p.giveBack(&s.p.buffers, m.samples)
}
