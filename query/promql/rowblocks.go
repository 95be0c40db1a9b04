package promql

import (
	"math"
	"slices"

	"halite/keyschema"
	"halite/storage/index"
)

// Blocks of hours, days and their quarters, are kept as one entry once all their rows have been read: one look-up then
// does for all of them.

const (
	quarterHours = 6
	dayQuarters  = keyschema.DayHours / quarterHours
	// blockHoursFew is the number of hours of a block below which they are looked for one by one first: a block is copied
	// as a whole.
	blockHoursFew = 3

	quarterFound uint8 = 1                // shifted by the number of the quarter
	dayFound           = 1 << dayQuarters // of a series and day
)

// block is some hours of a day.
type block struct {
	firstHour, hours int64
	epoch            uint64 // the latest of its hours'
	// usable is set if the block is over and no row of it was written since the series were selected: then the series
	// have all hours that an entry may have.
	usable bool
	// whole is set if all of its hours are read, so that it can be kept.
	whole bool
}

func (b *block) lastHour() int64 { return b.firstHour + b.hours - 1 }

// keeps reports whether the rows of the block are to be kept together.
func (b *block) keeps() bool { return b.usable && b.whole }

// dayBlocks are a day and its quarters.
type dayBlocks struct {
	day      block
	quarters [dayQuarters]block
}

// dayBlocksOf lists the days from that of one hour to that of another.
func (p *piece) dayBlocksOf(first, last int64) []dayBlocks {
	nowHour := keyschema.HourOf(p.opts.Now().UnixMilli())
	make1 := func(firstHour, hours int64) block {
		b := block{firstHour: firstHour, hours: hours}
		for hour := firstHour; hour < firstHour+hours; hour++ {
			b.epoch = max(b.epoch, p.epochs.of(hour))
		}
		b.usable = b.epoch <= p.epoch && b.lastHour() < nowHour
		b.whole = p.needed == nil && keyschema.HourStartMs(firstHour) >= p.window.mintMs &&
			keyschema.HourStartMs(firstHour+hours) <= p.window.maxtMs+1
		return b
	}
	var out []dayBlocks
	for day := first / keyschema.DayHours; day <= last/keyschema.DayHours; day++ {
		d := dayBlocks{day: make1(day*keyschema.DayHours, keyschema.DayHours)}
		for i := range d.quarters {
			d.quarters[i] = make1(d.day.firstHour+int64(i)*quarterHours, quarterHours)
		}
		out = append(out, d)
	}
	return out
}

// keptTogether reports whether the row of an hour is kept with others, when all have been read.
func (p *piece) keptTogether(hour int64) bool {
	d := &p.days[hour/keyschema.DayHours-p.firstDay]
	return d.day.keeps() || d.quarters[hour%keyschema.DayHours/quarterHours].keeps()
}

// search looks for the rows of one series after another among those that are kept. What it has found is copied when all
// was looked for: so the memory can work on many look-ups at once.
type search struct {
	p      *piece
	u      *rowCacheUser
	series int
	number uint64           // the beginning of the series' keys
	known  bool             // it has one
	wanted []index.HourSpan // hours that were not found
	hits   []hit
	// samples is the number of those that all hits have in their windows.
	samples int
	lends   bool // columns may lie in the cache
	merging merging
	ahead   ahead
}

// hit is an entry that was found, for a slot, and which of its samples lie in the window.
type hit struct {
	shape     rowShape
	place     uint32
	series    int32
	slot      int32
	startMs   int64
	from, end int
	hours     index.HourSpan // that it was looked for
}

// searchAhead is the number of series whose slots are touched before the first of them is looked for.
const searchAhead = 64

// touch reads the slots where some series' rows probably are, one right after the other: so that the processor fetches them
// side by side, where a look-up would wait for each.
func (s *search) touch(first, end int) {
	for i := first; i < end; i++ {
		number, known := s.u.activeNumber(&s.p.series[i])
		if !known {
			continue
		}
		for _, span := range s.p.hoursOf(i) {
			if s.touchTogether(number, span) {
				continue
			}
			s.touchDays(number, span)
		}
	}
	s.ahead.read()
}

// touchDays is touch for a span: for its days, and for the rows of the first, or last, of which only a part is wanted.
func (s *search) touchDays(number uint64, span index.HourSpan) {
	for hour := span.First; hour <= span.Last; {
		day := &s.p.days[hour/keyschema.DayHours-s.p.firstDay].day
		end := min(span.Last, day.lastHour())
		if day.usable && end-hour+1 >= blockHoursFew {
			s.ahead.add(s.u.table.probably(blockKey(number, day.firstHour, day.hours)))
		}
		for ; hour <= end && !(day.usable && day.whole); hour++ {
			s.ahead.add(s.u.table.probably(blockKey(number, hour, 1)))
		}
		hour = end + 1
	}
}

// rows looks for the rows of a series; it returns the hours of those that were not found.
func (s *search) rows(series int) (wanted []index.HourSpan) {
	s.series, s.wanted = series, nil
	s.number, s.known = s.u.number(&s.p.series[series])
	at := s.p.bases[series]
	for _, span := range s.p.hoursOf(series) {
		taken := s.together(span, at)
		span.First += taken
		s.span(span, at+int(taken))
		at += int(taken + span.Last - span.First + 1)
	}
	return s.wanted
}

// chargeSamples is the number of samples that are charged at once.
const chargeSamples = 1 << 12

const (
	// lineWords is the number of words of a cache line.
	lineWords = 8
	// touchedWordsMax is the number of words up to which all lines of a hit are touched: in longer ones the processor sees
	// by itself what comes next.
	touchedWordsMax = 16 * lineWords
)

// touchHits is touch for what take copies: the ends of a hit, and what lies between them if there are steps to look at it.
func (s *search) touchHits(hits []hit) {
	for i := range hits {
		if h := &hits[i]; h.from < h.end {
			words := s.u.table.words(h.place, h.end)
			s.ahead.add(&words[h.end-1])
			if !s.p.latest && h.end-h.from > 1 {
				s.ahead.add(&words[h.from])
			}
			if n := h.end - h.from; s.p.steps > 1 && n <= touchedWordsMax {
				for at := h.from + lineWords; at < h.end-1; at += lineWords {
					s.ahead.add(&words[at])
				}
			}
		}
	}
	s.ahead.read()
}

// take copies the samples of the hits, or lends them.
func (s *search) take(part *buffer) error {
	charged := part.len()
	for i := 0; i < len(s.hits); {
		n := 1
		for i+n < len(s.hits) && s.hits[i+n].series == s.hits[i].series {
			n++
		}
		if i%searchAhead+n >= searchAhead || i == 0 {
			s.touchHits(s.hits[i:min(i+n+searchAhead, len(s.hits))])
		}
		if of := s.hits[i : i+n]; !s.lend(part, of) {
			s.copy(part, of)
			s.merge(of)
		}
		i += n
		if n := part.len() - charged; n >= chargeSamples || i == len(s.hits) {
			if err := s.p.charge(n); err != nil {
				part.truncate(charged) // the rest is not charged
				return err
			}
			charged = part.len()
		}
	}
	return s.p.loan.charge(s.p.budget)
}

// copy appends the samples of the hits of a series to a part.
func (s *search) copy(part *buffer, hits []hit) {
	for i := range hits {
		h := &hits[i]
		start := part.len()
		part.appendEntry(h.shape, s.words(h), h.startMs, h.from, h.end)
		s.p.slots[h.slot] = slot{part: 0, start: int32(start), n: int32(h.end - h.from), known: true, traits: h.shape.traits()}
	}
}

// span looks for the hours of a span, the first of which has slot at.
func (s *search) span(span index.HourSpan, at int) {
	for hour := span.First; hour <= span.Last; {
		end := min(span.Last, hour-hour%keyschema.DayHours+keyschema.DayHours-1)
		s.day(hour, end, at)
		at += int(end - hour + 1)
		hour = end + 1
	}
}

// day looks for some hours of a day.
func (s *search) day(first, last int64, at int) {
	n := int(first/keyschema.DayHours - s.p.firstDay)
	d, found := &s.p.days[n], &s.p.found[s.series*len(s.p.days)+n]
	early := d.day.usable && (last-first+1 >= blockHoursFew || d.day.whole)
	if early && s.block(&d.day, first, last, at) {
		*found |= dayFound
		return
	}
	for hour := first; hour <= last; {
		i := hour % keyschema.DayHours / quarterHours
		q := &d.quarters[i]
		end := min(last, q.lastHour())
		quarterEarly := q.usable && (end-hour+1 >= blockHoursFew || q.whole)
		if quarterEarly && s.block(q, hour, end, at) {
			*found |= quarterFound << i
			at += int(end - hour + 1)
			hour = end + 1
			continue
		}
		for ; hour <= end; hour++ {
			switch {
			case s.row(hour, at):
			case !quarterEarly && q.usable && s.block(q, hour, hour, at):
			case !early && d.day.usable && s.block(&d.day, hour, hour, at):
			default:
				s.want(hour)
			}
			at++
		}
	}
}

// row looks for one row.
func (s *search) row(hour int64, at int) bool {
	s.u.tried++
	if !s.find(hour, 1, s.p.epochs.of(hour), at, index.HourSpan{First: hour, Last: hour}) {
		return false
	}
	s.u.found++
	return true
}

// block takes some hours of a block; the first has slot at.
func (s *search) block(b *block, first, last int64, at int) bool {
	if !s.find(b.firstHour, b.hours, b.epoch, at, index.HourSpan{First: first, Last: last}) {
		return false
	}
	s.u.found += int(last - first + 1)
	s.u.tried += int(last - first + 1)
	for i := at + 1; i <= at+int(last-first); i++ {
		s.p.slots[i].known = true
	}
	return true
}

// find notes the entry of some hours of the series as a hit for those of a span.
func (s *search) find(firstHour, hours int64, epoch uint64, at int, of index.HourSpan) bool {
	if !s.known {
		return false
	}
	e := s.u.table.get(blockKey(s.number, firstHour, hours), epoch)
	if e == nil {
		return false
	}
	h := hit{
		shape: e.rowShape, place: e.place, series: int32(s.series), slot: int32(at),
		startMs: keyschema.HourStartMs(firstHour), hours: of,
	}
	w := hoursWindow(of)
	w = window{max(w.mintMs, s.p.window.mintMs), min(w.maxtMs, s.p.window.maxtMs)}
	h.from, h.end = h.shape.within(s.u.table.words(h.place, h.shape.words()), h.startMs, w)
	s.samples += h.end - h.from
	s.hits = append(s.hits, h)
	return true
}

// hoursWindow is the time of the hours of a span.
func hoursWindow(s index.HourSpan) window {
	return window{keyschema.HourStartMs(s.First), keyschema.HourStartMs(s.Last+1) - 1}
}

func (s *search) want(hour int64) {
	if k := len(s.wanted); k > 0 && s.wanted[k-1].Last == hour-1 {
		s.wanted[k-1].Last = hour
		return
	}
	s.wanted = append(s.wanted, index.HourSpan{First: hour, Last: hour})
}

// keepBlocks remembers the blocks of a series that were read as a whole, given its samples of the table.
func (p *piece) keepBlocks(u *rowCacheUser, series int, c columns, head columns) {
	spans := p.hoursOf(series)
	kept := p.keptHour(series)
	for n := range p.days {
		d, found := &p.days[n], p.found[series*len(p.days)+n]
		if at := searchSpan(spans, d.day.firstHour); at == len(spans) || spans[at].First > d.day.lastHour() {
			continue
		}
		if found&dayFound != 0 {
			continue // its quarters are in it
		}
		if d.day.firstHour >= kept && d.day.keeps() && u.putBlock(&p.series[series], &d.day, c, head) {
			continue
		}
		for i := range d.quarters {
			if q := &d.quarters[i]; q.firstHour >= kept && q.keeps() && found&(quarterFound<<i) == 0 {
				p.keepQuarter(u, series, q, c, head)
			}
		}
	}
}

// nothingToKeep reports whether keepBlocks would keep nothing of a series.
func (p *piece) nothingToKeep(series int) bool {
	spans := p.hoursOf(series)
	for n := range p.days {
		d, found := &p.days[n], p.found[series*len(p.days)+n]
		if at := searchSpan(spans, d.day.firstHour); found&dayFound != 0 || at == len(spans) || spans[at].First > d.day.lastHour() {
			continue
		}
		if d.day.keeps() {
			return false
		}
		for i := range d.quarters {
			if d.quarters[i].keeps() && found&(quarterFound<<i) == 0 {
				return false
			}
		}
	}
	return true
}

// keepQuarter keeps a block, or row by row if it is too large.
func (p *piece) keepQuarter(u *rowCacheUser, series int, q *block, c columns, head columns) {
	if u.putBlock(&p.series[series], q, c, head) {
		return
	}
	for hour := q.firstHour; hour <= q.lastHour(); hour++ {
		one := block{firstHour: hour, hours: 1}
		if row, ok := one.of(c, head); ok {
			u.put(&p.series[series], hour, 1, p.epochs.of(hour), row, traitsOf(row))
		}
	}
}

// of is the part of a column that lies in the block; not ok if the head had some of it.
func (b *block) of(c, head columns) (_ columns, ok bool) {
	w := hoursWindow(index.HourSpan{First: b.firstHour, Last: b.lastHour()})
	if len(w.clip(head).tsMs) > 0 {
		return columns{}, false
	}
	return w.clip(c), true
}

// putBlock keeps a block of a series' column; not ok if it is too large. It does nothing if the head had some of it.
func (u *rowCacheUser) putBlock(s *index.Series, b *block, c, head columns) (ok bool) {
	rows, ok := b.of(c, head)
	return !ok || u.put(s, b.firstHour, b.hours, b.epoch, rows, traitsOf(rows))
}

// hoursHull is the first and the last hour of the series of a piece; last is below 0 if there are none.
func (p *piece) hoursHull() (first, last int64) {
	first, last = math.MaxInt64, -1
	for i := range p.series {
		if hours := p.hoursOf(i); len(hours) > 0 {
			first, last = min(first, hours[0].First), max(last, hours[len(hours)-1].Last)
		}
	}
	return first, last
}

// keepAllBlocks remembers the blocks of all series that were read as a whole.
func (p *piece) keepAllBlocks(b *Batch) {
	if !slices.ContainsFunc(p.days, func(d dayBlocks) bool {
		return slices.ContainsFunc(d.quarters[:], func(q block) bool { return q.keeps() })
	}) {
		return
	}
	u := rowCacheUser{rowCache: p.cache}
	for i := range b.Columns {
		if c := &b.Columns[i]; len(c.More) == 0 && (c.TsMs != nil || c.Len() == 0) { // what is lent is kept already
			p.keepBlocks(&u, i, columns{c.TsMs, c.Values}, p.headOf(i))
		}
	}
}
