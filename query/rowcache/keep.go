package rowcache

import (
	"slices"

	"halite/keyschema"
	"halite/query/column"
	"halite/query/hours"
	"halite/storage/index"
)

// Writer puts rows into the cache. It belongs to one goroutine.
type Writer struct {
	lookup *Lookup
	keys   keyMaker
}

// Writer returns a writer of rows that the look-up has not found.
func (l *Lookup) Writer() *Writer { return &Writer{lookup: l, keys: keyMaker{cache: l.cache}} }

// Put caches a row as a whole, unless its hour is cached in a block with others.
func (w *Writer) Put(series int, hour int64, row column.Points, p column.Properties) {
	l := w.lookup
	if l.cachedInBlock(hour) {
		return
	}
	startMs := keyschema.HourStartMs(hour)
	if n := len(row.TsMs); n == 0 || row.TsMs[0] >= startMs && row.TsMs[n-1] < startMs+keyschema.HourMs {
		w.keys.put(&l.Series[series], hour, 1, l.versions.of(hour), row, p)
	}
}

// PutMissing caches that the missing rows which were not read either do not exist.
func (l *Lookup) PutMissing() {
	w := l.Writer()
	none := column.PropertiesOf(column.Points{})
	for i := range l.missing {
		for _, span := range l.missing[i] {
			for hour := span.First; hour <= span.Last; hour++ {
				if !l.Rows.All[l.Rows.At(i, l.hoursOf(i), hour)].Found {
					w.Put(i, hour, column.Points{}, none)
				}
			}
		}
	}
}

// PutBlocks caches the blocks of hours that were read as a whole, given the columns of all series.
func (l *Lookup) PutBlocks(columns []column.Column) {
	if !slices.ContainsFunc(l.days, func(d dayBlocks) bool {
		return slices.ContainsFunc(d.quarters[:], func(q block) bool { return q.cacheable() })
	}) {
		return
	}
	for i := range columns {
		if c := &columns[i]; len(c.Segments) == 0 && (c.TsMs != nil || c.Len() == 0) { // pinned samples are cached already
			l.putBlocksOf(i, column.Points{TsMs: c.TsMs, Values: c.Values}, l.Head(i))
		}
	}
}

// putBlocksOf caches the blocks of a series, given its samples.
func (l *Lookup) putBlocksOf(series int, c, head column.Points) {
	oldest := l.OldestHour(series)
	l.eachNewBlock(series, func(d *dayBlocks, found uint8) bool {
		if d.day.firstHour >= oldest && d.day.cacheable() && l.putBlock(series, &d.day, c, head) {
			return true
		}
		for i := range d.quarters {
			if q := &d.quarters[i]; q.firstHour >= oldest && q.cacheable() && found&(quarterFound<<i) == 0 {
				l.putQuarter(series, q, c, head)
			}
		}
		return true
	})
}

// eachNewBlock visits the days of a series that were not found as a whole, until visit returns false.
func (l *Lookup) eachNewBlock(series int, visit func(d *dayBlocks, found uint8) bool) {
	spans := l.hoursOf(series)
	for n := range l.days {
		d, found := &l.days[n], l.foundBlocks[series*len(l.days)+n]
		if at := hours.Search(spans, d.day.firstHour); at == len(spans) || spans[at].First > d.day.lastHour() {
			continue
		}
		if found&dayFound == 0 && !visit(d, found) {
			return
		}
	}
}

// anyToPut reports whether PutBlocks would cache a block of a series.
func (l *Lookup) anyToPut(series int) (any bool) {
	l.eachNewBlock(series, func(d *dayBlocks, found uint8) bool {
		any = d.day.cacheable()
		for i := range d.quarters {
			any = any || d.quarters[i].cacheable() && found&(quarterFound<<i) == 0
		}
		return !any
	})
	return any
}

// putBlock caches a block of a series, unless the head had some of it. It returns false if the block is too large.
func (l *Lookup) putBlock(series int, b *block, c, head column.Points) (ok bool) {
	rows, ok := b.of(c, head)
	return !ok || l.keys.put(&l.Series[series], b.firstHour, b.hours, b.version, rows, column.PropertiesOf(rows))
}

// putQuarter caches a block, or its rows one by one if it is too large.
func (l *Lookup) putQuarter(series int, q *block, c, head column.Points) {
	if l.putBlock(series, q, c, head) {
		return
	}
	for hour := q.firstHour; hour <= q.lastHour(); hour++ {
		one := block{firstHour: hour, hours: 1, version: l.versions.of(hour)}
		l.putBlock(series, &one, c, head)
	}
}

// of returns the part of a column that lies in the block, and false if the head had some of it.
func (b *block) of(c, head column.Points) (_ column.Points, ok bool) {
	r := hoursRange(index.HourSpan{First: b.firstHour, Last: b.lastHour()})
	if len(r.Clip(head).TsMs) > 0 {
		return column.Points{}, false
	}
	return r.Clip(c), true
}
