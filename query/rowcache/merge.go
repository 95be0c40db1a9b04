package rowcache

import (
	"halite/query/column"
	"halite/storage/index"
)

// The rows of several hours that one selector reads are also cached as one merged entry. A later query for the same hours then
// needs one look-up for each series, and no copy.

const (
	// mergeHoursMax and mergeHoursMin bound the number of hours in a merged entry. A key has no room for more.
	mergeHoursMax = 31
	mergeHoursMin = 2
	// allFound marks a day with all blocks found.
	allFound = dayFound<<1 - 1
)

// merging is the state of a look-up for merged entries.
type merging struct {
	on      bool
	nowHour int64
	span    index.HourSpan // of the last call of mergeable
	block   block          // the hours at the beginning of span that may be merged
	found   bool           // the merged entry of the series before was found
	list    []mergedEntry  // entries to put
	samples *column.Buffer // samples of the list
}

// mergedEntry is an entry to put. Its samples begin where the samples of the previous entry end.
type mergedEntry struct {
	series int32
	block  block
	end    int
}

// mergeable returns the hours at the beginning of a span that are over and have not been written since the series were
// selected. The block has no hours if they are too few or too many.
func (l *Lookup) mergeable(span index.HourSpan) *block {
	m := &l.merging
	if m.span == span {
		return &m.block
	}
	m.span, m.block = span, block{firstHour: span.First}
	if span.Last-span.First >= mergeHoursMax {
		return &m.block
	}
	b := &m.block
	for hour := span.First; hour <= span.Last && hour < m.nowHour && l.versions.at(hour) <= l.Version; hour++ {
		b.version = max(b.version, l.versions.at(hour))
		b.hours++
	}
	if b.hours < mergeHoursMin {
		b.hours = 0
	}
	return b
}

// prefetchMerged is prefetchSlots for merged hours. It reports whether no other slots need a prefetch.
func (l *Lookup) prefetchMerged(number uint64, span index.HourSpan) bool {
	if !l.merging.on || !l.merging.found {
		return false
	}
	b := l.mergeable(span)
	if b.hours > 0 {
		l.prefetch.add(l.cache.table.slotOf(blockKey(number, b.firstHour, b.hours)))
	}
	return b.hours > 0
}

// findMerged looks for the merged hours of a span, whose first row is number at. It returns the number of hours found.
func (l *Lookup) findMerged(span index.HourSpan, at int) (taken int64) {
	if !l.merging.on {
		return 0
	}
	b := l.mergeable(span)
	if l.merging.found = b.hours > 0 && l.findBlock(b, b.firstHour, b.lastHour(), at); !l.merging.found {
		return 0
	}
	days := l.foundBlocks[l.series*len(l.days) : (l.series+1)*len(l.days)]
	for i := range days {
		days[i] = allFound
	}
	return b.hours
}

// mergeableOf returns the hours of a series to merge, or nil. Hours are worth merging if the look-up found them in several
// entries.
func (l *Lookup) mergeableOf(hits []hit) *block {
	series := int(hits[0].series)
	spans := l.hoursOf(series)
	if !l.merging.on || len(spans) != 1 || l.missing[series] != nil {
		return nil
	}
	b := l.mergeable(spans[0])
	several := 0
	for i := range hits {
		if h := &hits[i]; h.hours.First <= b.lastHour() && h.layout.len() > 0 {
			several++
		}
	}
	if b.hours == 0 || several < 2 {
		return nil
	}
	return b
}

// merge collects the merged hours of a series for putMerged.
func (l *Lookup) merge(hits []hit) {
	b := l.mergeableOf(hits)
	if b == nil {
		return
	}
	m := &l.merging
	if m.samples == nil {
		m.samples = l.Buffers.Get(0)
	}
	before := m.samples.Len()
	for i := range hits {
		h := &hits[i]
		if h.hours.First > b.lastHour() {
			break
		}
		words := l.words(h)
		hours := index.HourSpan{First: h.hours.First, Last: min(h.hours.Last, b.lastHour())}
		from, end := h.layout.within(words, h.startMs, hoursRange(hours))
		h.layout.appendTo(m.samples, words, h.startMs, from, end)
	}
	if err := l.reserve(m.samples.Len() - before); err != nil {
		m.samples.Truncate(before) // they are too many to merge
		m.on = false
		return
	}
	m.list = append(m.list, mergedEntry{series: hits[0].series, block: *b, end: m.samples.Len()})
}

// putMerged puts the merged hours. The caller does not hold the table's lock.
func (l *Lookup) putMerged() {
	m := &l.merging

	if m.samples == nil {
		return
	}
	start := 0
	for i := range m.list {
		one := &m.list[i]
		c := column.Points{TsMs: m.samples.TsMs[start:one.end], Values: m.samples.Values[start:one.end]}
		l.keys.put(&l.Series[one.series], &one.block, c, column.PropertiesOf(c))
		start = one.end
	}
	l.Budget.Release(int64(m.samples.Len()) * column.SampleBytes)
	l.Buffers.Put(m.samples)
}
