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

// HeadRows finds and puts rows of the head, decoded, of one hour. While nothing of the hour is written to the data table or
// deleted, a row of the head only grows. So an entry stays valid if no sample came late, which the head knows. It lacks the
// samples that came since. A row that is about to be flushed must not be put: another one may follow it.
//
// It belongs to one goroutine. Release it.
type HeadRows struct {
	cache     *Cache
	hour      int64
	deletions uint64
	version   uint64
	rows      []headRow // of each series
	nextMs    []int64
	pins      *Pins
	prefetch  prefetch
}

// headRow is an entry that was found; words is nil if there is none.
type headRow struct {
	layout layout
	words  []uint64
}

// HeadRows takes the version of an hour. deletions is the number of deletions so far.
func (c *Cache) HeadRows(hour int64, deletions uint64) *HeadRows {
	h, ok := c.headRows.Get().(*HeadRows)
	if !ok {
		h = &HeadRows{cache: c}
	}
	h.hour, h.deletions, h.pins = hour, deletions, c.newPins()
	h.version = h.now()
	return h
}

// now is the present version of the hour. A deletion takes effect between two changes of the hour's version, so its number is
// part of this one.
func (h *HeadRows) now() uint64 {
	var versions [1]uint64
	return bits.RotateLeft64(h.cache.watch.hours.Append(versions[:0], h.hour, h.hour)[0], 24) ^ h.deletions
}

// Find looks up the rows of series. It returns the time after the last sample of each row, the start of the hour if it has not
// found the row, and the number of rows found. The caller may change the times. They are valid until Release.
func (h *HeadRows) Find(series []index.Series) (nextMs []int64, found int) {
	t, startMs := h.cache.table, keyschema.HourStartMs(h.hour)
	t.mu.RLock()
	defer t.mu.RUnlock()
	h.rows, h.nextMs = column.Cleared(h.rows, len(series)), h.nextMs[:0]
	for i := range series {
		if i%prefetchSeries == 0 {
			for j := i; j < min(i+prefetchSeries, len(series)); j++ {
				h.prefetch.add(t.slotOf(h.key(&series[j])))
			}
			h.prefetch.read()
		}
		e := t.get(h.key(&series[i]), h.version)
		if e == nil || series[i].Ref == 0 {
			h.nextMs = append(h.nextMs, startMs)
			continue
		}
		h.pins.add(e.place, 0) // the copy is in the budget
		row := headRow{layout: e.layout, words: t.words(e.place, e.words())}
		h.rows[i] = row
		found++
		h.nextMs = append(h.nextMs, row.lastMs(startMs)+1)
	}
	h.cache.count(found, len(series))
	return h.nextMs, found
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

// Unchanged reports whether rows that the head has returned since Find go with the rows that Find has found.
func (h *HeadRows) Unchanged() bool { return h.now() == h.version }

// AppendTo appends the samples of the row of series i that lie in a range. It returns their properties.
func (h *HeadRows) AppendTo(b *column.Buffer, i int, within column.TimeRange) (p column.Properties) {
	if r := &h.rows[i]; r.words != nil {
		startMs := keyschema.HourStartMs(h.hour)
		from, end := r.layout.within(r.words, startMs, within)
		r.layout.appendTo(b, r.words, startMs, from, end)
		p = r.layout.properties()
	}
	return p
}

// Extended returns the row of series i, with the samples that came since. It leaves the newest sample out, because another
// value for its time may still replace it.
func (h *HeadRows) Extended(i int, since column.Points) column.Points {
	n := len(since.TsMs) - 1
	since = column.Points{TsMs: since.TsMs[:n], Values: since.Values[:n]}
	if h.rows[i].words == nil {
		return since
	}
	var b column.Buffer
	h.AppendTo(&b, i, column.TimeRange{MinMs: 0, MaxMs: math.MaxInt64})
	b.Append(since.TsMs, since.Values)
	return column.Points(b)
}

// HeadRow is a row to put.
type HeadRow struct {
	Series *index.Series
	Points column.Points
}

// Put caches rows whose samples were all read since Find. It drops rows that are too long or empty.
func (h *HeadRows) Put(rows []HeadRow) {
	t := h.cache.table
	startMs := keyschema.HourStartMs(h.hour)
	for i := range rows {
		s, p := rows[i].Series, rows[i].Points
		layout := layoutOf(startMs, p, column.PropertiesOf(p))
		layout.samples |= resetsMany << layoutResetsShift // nobody asks for resets
		if words := layout.words(); s.Ref != 0 && len(p.TsMs) > 0 && words <= t.entryWordsMax() {
			t.mu.Lock()
			t.put(h.key(s), h.version, layout, words, func(words []uint64) { layout.write(words, startMs, p) })
			t.mu.Unlock()
		}
	}
}

// Release ends the use of the rows.
func (h *HeadRows) Release() {
	h.pins.Release(nil)
	h.pins = nil
	if len(h.rows) <= pooledMax {
		h.cache.headRows.Put(h)
	}
}
