package rowcache

import (
	"math"
	"math/bits"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// keyHeadHours is the number of hours in the key of a row of the head. No other entry has this number.
const keyHeadHours = 0

// HeadRows finds, extends and puts decoded rows of the head, all of one hour. A row of the head only grows until the hour is
// flushed or samples are deleted, and only its newest sample may change. So an entry stays valid unless the head reports a
// late sample, or returns another value for the last sample of the entry. An evenly spaced entry has room for more samples.
// Extend adds them after the samples that readers have pinned. The caller must not put a row that is about to be flushed,
// because the head may begin another one.
//
// A HeadRows belongs to one goroutine. The caller releases it.
type HeadRows struct {
	cache     *Cache
	hour      int64
	startMs   int64
	deletions uint64
	version   uint64
	series    []index.Series
	rows      []headRow // of each series
	fromMs    []int64
	growing   []growth
	pins      *Pins
	prefetch  prefetch
}

// headRow is an entry that was found; words is nil if there is none.
type headRow struct {
	layout layout
	place  uint32
	words  []uint64
	known  int // samples when the row was found
	// complete: the entry has all samples of the row in the range.
	complete bool
}

// growth is the samples that follow the row of a series.
type growth struct {
	series int
	since  column.Points
}

// HeadRows begins look-ups of an hour and takes its version. deletions is the current number of deletions. pins keep the memory
// of the rows that Find finds; the caller releases them.
func (c *Cache) HeadRows(hour int64, deletions uint64, pins *Pins) *HeadRows {
	h, ok := c.headRows.Get().(*HeadRows)
	if !ok {
		h = &HeadRows{cache: c}
	}
	h.hour, h.startMs, h.deletions, h.pins = hour, keyschema.HourStartMs(hour), deletions, pins
	h.version = h.now()
	return h
}

// now returns the current version of the hour. It includes the number of deletions, because a deletion takes effect between
// two changes of the hour's version.
func (h *HeadRows) now() uint64 {
	var versions [1]uint64
	return bits.RotateLeft64(h.cache.watch.hours.Append(versions[:0], h.hour, h.hour)[0], 24) ^ h.deletions
}

// Find looks up the rows of series, for samples from minMs on. It returns the time from which the caller has to read each row
// of the head, and the number of rows found. The last cached sample has this time. If there is no row, it is the start of the
// hour. The caller may change the times, which are valid until Release.
func (h *HeadRows) Find(series []index.Series, minMs int64) (fromMs []int64, found int) {
	t := h.cache.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	h.series = series
	h.rows, h.fromMs, h.growing = column.Cleared(h.rows, len(series)), h.fromMs[:0], h.growing[:0]
	for i := range series {
		if i%prefetchSeries == 0 {
			h.fetch(i, min(i+prefetchSeries, len(series)), minMs)
		}
		if row := &h.rows[i]; row.words != nil {
			found++
			h.fromMs = append(h.fromMs, row.lastMs(h.startMs))
			continue
		}
		h.fromMs = append(h.fromMs, h.startMs)
	}
	h.cache.count(found, len(series))
	return h.fromMs, found
}

// fetch looks up the rows of the series [first, end) and pins them. First it prefetches their slots, then the words that most
// queries need. The caller holds the table's mu.
func (h *HeadRows) fetch(first, end int, minMs int64) {
	t := h.cache.table
	for i := first; i < end; i++ {
		h.prefetch.add(t.slotOf(h.key(&h.series[i])))
	}
	h.prefetch.read()
	for i := first; i < end; i++ {
		e := t.get(h.key(&h.series[i]), h.version)
		if e == nil || h.series[i].Ref == 0 {
			continue
		}
		h.pins.add(e.place, 0)
		row := headRow{layout: e.layout, place: e.place, words: t.words(e.place, e.words()), known: e.len()}
		h.rows[i] = row
		from, _ := e.within(row.words, h.startMs, column.TimeRange{MinMs: minMs, MaxMs: math.MaxInt64})
		h.prefetch.add(&row.words[min(from, len(row.words)-1)])
		h.prefetch.add(&row.words[len(row.words)-1])
	}
	h.prefetch.read()
}

func (h *HeadRows) key(s *index.Series) uint64 {
	number, _ := activeNumber(s)
	return blockKey(number, h.hour, keyHeadHours)
}

// lastMs is the time of the last sample of a row that begins at startMs.
func (r *headRow) lastMs(startMs int64) int64 {
	last := r.layout.len() - 1
	if r.layout.stepMs == 0 {
		return startMs + int64(offsetsIn(r.words, r.layout.len())[last])
	}
	return startMs + int64(r.layout.firstMs) + int64(last)*int64(r.layout.stepMs)
}

// Unchanged reports whether the hour has not changed since HeadRows began. Otherwise the rows that Find returned do not
// match later reads of the head.
func (h *HeadRows) Unchanged() bool { return h.now() == h.version }

// Compare takes the samples of series i up to maxMs that the head has returned, beginning with the last sample of the row. It
// returns false if the head did not return the last sample of a found row.
func (h *HeadRows) Compare(i int, since column.Points, maxMs int64) bool {
	r := &h.rows[i]
	if r.words == nil {
		return true
	}
	lastMs := r.lastMs(h.startMs)
	if lastMs > maxMs {
		r.complete = true
		return true
	}
	if len(since.TsMs) == 0 || since.TsMs[0] != lastMs {
		return false
	}
	same := r.words[r.layout.len()-1] == math.Float64bits(since.Values[0])
	switch {
	case !same: // the newest sample was replaced
	case len(since.TsMs) == 1:
		r.complete = true
	case r.layout.stepMs > 0:
		h.growing = append(h.growing, growth{i, column.Points{TsMs: since.TsMs[1:], Values: since.Values[1:]}})
	}
	return true
}

// Extend adds the samples of Compare to the rows where possible.
func (h *HeadRows) Extend() {
	if len(h.growing) == 0 {
		return
	}
	t := h.cache.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range h.growing {
		h.rows[g.series].complete = h.extend(&h.rows[g.series], h.key(&h.series[g.series]), g.since)
	}
}

// extend adds samples to an entry in place. It returns false if they do not fit, or if another query has added others.
func (h *HeadRows) extend(r *headRow, key uint64, since column.Points) bool {
	t, n, step := h.cache.table, r.layout.len(), int64(r.layout.stepMs)
	s := t.get(key, h.version)
	if s == nil || s.place != r.place || n+len(since.TsMs) > s.room() {
		return false
	}
	nextMs := h.startMs + int64(r.layout.firstMs) + int64(n)*step
	for k, ts := range since.TsMs {
		if ts != nextMs+int64(k)*step {
			return false
		}
	}
	words := t.words(s.place, n+len(since.TsMs))
	known := min(s.len(), len(words)) // other queries may have added samples since Find
	for k, v := range since.Values[:known-n] {
		if words[n+k] != math.Float64bits(v) {
			return false
		}
	}
	for k := known; k < len(words); k++ {
		words[k] = math.Float64bits(since.Values[k-n])
	}
	if len(words) > known {
		p := column.PropertiesOf(column.Points{Values: valuesIn(words[known-1:], len(words)-known+1)})
		s.grow(len(words), p)
	}
	r.layout, r.words = s.layout.truncated(len(words)), words
	return true
}

// Pin returns the samples of series i that lie in a range, in the memory of the cache. It returns false if the row lacks
// some, or if they are not evenly spaced.
func (h *HeadRows) Pin(i int, within column.TimeRange) (s column.Samples, ok bool) {
	r := &h.rows[i]
	if !r.complete || r.layout.stepMs == 0 {
		return s, false
	}
	found := hit{layout: r.layout, startMs: h.startMs}
	if found.from, found.end = r.layout.within(r.words, h.startMs, within); found.from < found.end {
		s = found.pinned(r.words)
		h.pins.count += found.end - found.from
	}
	return s, true
}

// AppendTo appends the samples of the row of series i that lie in a range. It omits samples from the time of Find on, and
// returns the properties of the others.
func (h *HeadRows) AppendTo(b *column.Buffer, i int, within column.TimeRange) (p column.Properties) {
	if r := &h.rows[i]; r.words != nil {
		from, end := r.layout.within(r.words, h.startMs, within)
		end = max(from, min(end, r.known-1))
		r.layout.appendTo(b, r.words, h.startMs, from, end)
		p = r.layout.properties()
	}
	return p
}

// HeadRow is the samples of a row to put.
type HeadRow struct {
	Series int
	// Since are the samples of the head from the time of Find on.
	Since column.Points
}

// headRowSamples is the number of samples since the last Put from which WorthCaching accepts a row.
const headRowSamples = 36

// WorthCaching reports whether Put should get the row of series i.
func (h *HeadRows) WorthCaching(i int, since column.Points) bool {
	r := &h.rows[i]
	full := r.words != nil && r.layout.stepMs > 0 && r.layout.len()+len(since.TsMs)-1 > r.layout.room()
	return !r.complete && (full || len(since.TsMs) >= headRowSamples)
}

// Put caches rows that the caller has read since Find. It drops rows that are too long or empty.
func (h *HeadRows) Put(rows []HeadRow) {
	t := h.cache.table
	var all column.Buffer
	for i := range rows {
		row, s := &h.rows[rows[i].Series], &h.series[rows[i].Series]
		p := rows[i].Since
		if row.words != nil {
			all.Truncate(0)
			h.AppendTo(&all, rows[i].Series, column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64})
			all.Append(p.TsMs, p.Values)
			p = column.Points(all)
		}
		if s.Ref == 0 || len(p.TsMs) == 0 {
			continue
		}
		layout := layoutOf(h.startMs, p, column.PropertiesOf(p))
		layout.samples |= resetsMany << layoutResetsShift // look-ups of head rows use no resets
		words := layout.words()
		if layout.stepMs > 0 {
			words = layout.room()
		}
		if words <= t.entryWordsMax() {
			t.mu.Lock()
			t.put(h.key(s), h.version, layout, words, func(words []uint64) { layout.write(words, h.startMs, p) })
			t.mu.Unlock()
		}
	}
}

// Release ends the use of the rows.
func (h *HeadRows) Release() {
	h.pins, h.series = nil, nil
	if len(h.rows) <= pooledMax {
		h.cache.headRows.Put(h)
	}
}
