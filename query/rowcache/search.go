package rowcache

import (
	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// hit is an entry that a look-up found for a row or block. Its samples [from, end) lie in the range of the request.
type hit struct {
	layout    layout
	place     uint32
	series    int32
	row       int32
	startMs   int64
	from, end int
	hours     index.HourSpan // for which the entry was looked up
}

// prefetchSlots reads the slots where the rows of the series [first, end) probably are. The processor fetches these slots
// in parallel; look-ups would wait for each of them in sequence.
func (l *Lookup) prefetchSlots(first, end int) {
	for i := first; i < end; i++ {
		number, known := activeNumber(&l.Series[i])
		if !known {
			continue
		}
		for _, span := range l.hoursOf(i) {
			if l.prefetchMerged(number, span) {
				continue
			}
			l.prefetchDays(number, span)
		}
	}
	l.prefetch.read()
}

// prefetchDays is prefetchSlots for the days of a span, and for the rows of days that the span covers only partly.
func (l *Lookup) prefetchDays(number uint64, span index.HourSpan) {
	for hour := span.First; hour <= span.Last; {
		day := &l.days[hour/keyschema.DayHours-l.firstDay].day
		end := min(span.Last, day.lastHour())
		if day.usable && end-hour+1 >= blockHoursFew {
			l.prefetch.add(l.cache.table.slotOf(blockKey(number, day.firstHour, day.hours)))
		}
		for ; hour <= end && !(day.usable && day.whole); hour++ {
			l.prefetch.add(l.cache.table.slotOf(blockKey(number, hour, 1)))
		}
		hour = end + 1
	}
}

// findRows looks up the rows of a series. It returns the hours of the rows that it does not find.
func (l *Lookup) findRows(series int) (wanted []index.HourSpan) {
	l.series, l.wanted = series, nil
	l.number, l.known = l.keys.number(&l.Series[series])
	at := l.Rows.Bases[series]
	for _, span := range l.hoursOf(series) {
		taken := l.findMerged(span, at)
		span.First += taken
		l.findSpan(span, at+int(taken))
		at += int(taken + span.Last - span.First + 1)
	}
	return l.wanted
}

// chargeSamples is the number of samples that one call reserves in the budget.
const chargeSamples = 1 << 12

const (
	// lineWords is the number of words of a cache line.
	lineWords = 8
	// prefetchWordsMax is the number of words up to which all lines of a hit are prefetched. In longer hits the processor
	// predicts the next line by itself.
	prefetchWordsMax = 16 * lineWords
)

// prefetchHits prefetches the first and the last sample of each hit, and the others if the steps of the query need them.
func (l *Lookup) prefetchHits(hits []hit) {
	for i := range hits {
		if h := &hits[i]; h.from < h.end {
			words := l.cache.table.words(h.place, h.end)
			l.prefetch.add(&words[h.end-1])
			if !l.Latest && h.end-h.from > 1 {
				l.prefetch.add(&words[h.from])
			}
			if n := h.end - h.from; l.Steps > 1 && n <= prefetchWordsMax {
				for at := h.from + lineWords; at < h.end-1; at += lineWords {
					l.prefetch.add(&words[at])
				}
			}
		}
	}
	l.prefetch.read()
}

// readHits copies the samples of the hits, or pins them.
func (l *Lookup) readHits(part *column.Buffer) error {
	charged := part.Len()
	for i := 0; i < len(l.hits); {
		n := 1
		for i+n < len(l.hits) && l.hits[i+n].series == l.hits[i].series {
			n++
		}
		if i%prefetchSeries+n >= prefetchSeries || i == 0 {
			l.prefetchHits(l.hits[i:min(i+n+prefetchSeries, len(l.hits))])
		}
		if run := l.hits[i : i+n]; !l.pin(part, run) {
			l.copyHits(part, run)
			l.merge(run)
		}
		i += n
		if n := part.Len() - charged; n >= chargeSamples || i == len(l.hits) {
			if err := l.reserve(n); err != nil {
				part.Truncate(charged) // the rest is not reserved
				return err
			}
			charged = part.Len()
		}
	}
	return l.pins.Reserve(l.Budget)
}

// copyHits appends the samples of the hits of a series to a part.
func (l *Lookup) copyHits(part *column.Buffer, hits []hit) {
	for i := range hits {
		h := &hits[i]
		start := part.Len()
		h.layout.appendTo(part, l.words(h), h.startMs, h.from, h.end)
		l.Rows.All[h.row] = column.Row{
			Start: int32(start), N: int32(h.end - h.from), Found: true, Properties: h.layout.properties(),
		}
	}
}

// findSpan looks up the hours of a span. at is the number of its first row.
func (l *Lookup) findSpan(span index.HourSpan, at int) {
	for hour := span.First; hour <= span.Last; {
		end := min(span.Last, hour-hour%keyschema.DayHours+keyschema.DayHours-1)
		l.findDay(hour, end, at)
		at += int(end - hour + 1)
		hour = end + 1
	}
}

// findDay looks up the hours [first, last] of a day.
func (l *Lookup) findDay(first, last int64, at int) {
	n := int(first/keyschema.DayHours - l.firstDay)
	d, found := &l.days[n], &l.foundBlocks[l.series*len(l.days)+n]
	early := d.day.usable && (last-first+1 >= blockHoursFew || d.day.whole)
	if early && l.findBlock(&d.day, first, last, at) {
		*found |= dayFound
		return
	}
	for hour := first; hour <= last; {
		i := hour % keyschema.DayHours / quarterHours
		q := &d.quarters[i]
		end := min(last, q.lastHour())
		quarterEarly := q.usable && (end-hour+1 >= blockHoursFew || q.whole)
		if quarterEarly && l.findBlock(q, hour, end, at) {
			*found |= quarterFound << i
			at += int(end - hour + 1)
			hour = end + 1
			continue
		}
		for ; hour <= end; hour++ {
			switch {
			case l.findRow(hour, at):
			case !quarterEarly && q.usable && l.findBlock(q, hour, hour, at):
			case !early && d.day.usable && l.findBlock(&d.day, hour, hour, at):
			default:
				l.markMissing(hour)
			}
			at++
		}
	}
}

// findRow looks up one row.
func (l *Lookup) findRow(hour int64, at int) bool {
	l.rowsTried++
	if !l.findEntry(hour, 1, l.versions.at(hour), at, index.HourSpan{First: hour, Last: hour}) {
		return false
	}
	l.rowsFound++
	return true
}

// findBlock looks up the hours [first, last] of a block. at is the number of the first row.
func (l *Lookup) findBlock(b *block, first, last int64, at int) bool {
	if !l.findEntry(b.firstHour, b.hours, b.version, at, index.HourSpan{First: first, Last: last}) {
		return false
	}
	l.rowsFound += int(last - first + 1)
	l.rowsTried += int(last - first + 1)
	for i := at + 1; i <= at+int(last-first); i++ {
		l.Rows.All[i].Found = true
	}
	return true
}

// findEntry looks up the entry of some hours of the series. It records a hit for the hours of a span.
func (l *Lookup) findEntry(firstHour, hours int64, version uint64, at int, span index.HourSpan) bool {
	if !l.known {
		return false
	}
	e := l.cache.table.get(blockKey(l.number, firstHour, hours), version)
	if e == nil {
		return false
	}
	h := hit{
		layout: e.layout, place: e.place, series: int32(l.series), row: int32(at),
		startMs: keyschema.HourStartMs(firstHour), hours: span,
	}
	w := hoursRange(span)
	w = column.TimeRange{MinMs: max(w.MinMs, l.Range.MinMs), MaxMs: min(w.MaxMs, l.Range.MaxMs)}
	h.from, h.end = h.layout.within(l.cache.table.words(h.place, h.layout.words()), h.startMs, w)
	l.samples += h.end - h.from
	l.hits = append(l.hits, h)
	return true
}

// hoursRange is the time of a span of hours.
func hoursRange(s index.HourSpan) column.TimeRange {
	return column.TimeRange{MinMs: keyschema.HourStartMs(s.First), MaxMs: keyschema.HourStartMs(s.Last+1) - 1}
}

// markMissing records that an hour was not found.
func (l *Lookup) markMissing(hour int64) {
	if k := len(l.wanted); k > 0 && l.wanted[k-1].Last == hour-1 {
		l.wanted[k-1].Last = hour
		return
	}
	l.wanted = append(l.wanted, index.HourSpan{First: hour, Last: hour})
}
