package index

import (
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage/index/presence"
)

// openDays holds the hours touched on every day whose touches are not all folded into segments yet: usually today,
// for an hour after midnight yesterday too, and days for which late data came.
type openDays struct {
	mu   sync.RWMutex // held shared by Touch, so that no touch falls between a fold and the day's removal
	days map[int64]*openDay
	// sizeBytes is the memory of all days.
	sizeBytes atomic.Int64
}

// openDay has a word and a journal row for each ref, in pages by ref.
type openDay struct {
	day   int64
	mu    sync.Mutex // serialises the growth of pages
	pages atomic.Pointer[[]*dayPage]
	// dirty is set when a word may have touches that the journal does not hold.
	dirty atomic.Bool
	// sizeBytes is the memory of the day; total, if not nil, is the sum over all days. Guarded by mu.
	sizeBytes int64
	total     *atomic.Int64

	// The rest belongs to whoever holds Index.maint.
	journal journalState
	// parts are the keys of parts with a writer that are contained in the day, to be removed once it is folded.
	parts [][]byte
}

// dayPage: bits 0–23 of a word are the hours touched, wordDirty says that the journal lacks some of them, wordWriting
// that some are on their way there. wordUnsure says that some were read from a part of a day with a segment, that of
// another writer or an older one: if the segment was made to remove hours, such a part may be about to go, and they
// with it. rows holds the series' row in the day's journal plus one, 0 while it has none. dirty is set when one of the
// words may be.
type dayPage struct {
	words [refPageSize]atomic.Uint32
	rows  [refPageSize]uint32
	dirty atomic.Bool
}

const (
	wordDirty   = 1 << 31
	wordWriting = 1 << 30
	wordUnsure  = 1 << 29
)

func newOpenDay(day int64) *openDay {
	d := &openDay{day: day, sizeBytes: openDayBytes}
	d.pages.Store(&[]*dayPage{})
	return d
}

// touch marks an hour and reports whether it was new.
func (o *openDays) touch(ref Ref, hour int64) bool {
	day := presence.DayOf(hour)
	o.mu.RLock()
	d := o.days[day]
	if d == nil {
		o.mu.RUnlock()
		o.day(day)
		return o.touch(ref, hour) // it may be forgotten in between
	}
	defer o.mu.RUnlock()
	return d.touch(ref, presence.HourBit(hour))
}

// retell marks a series whose hours were touched as one that the journal lacks; not ok if the day is not open.
func (o *openDays) retell(ref Ref, hour int64) (ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	d := o.days[presence.DayOf(hour)]
	if d == nil {
		return false
	}
	page := d.page(ref)
	page.words[ref%refPageSize].Or(presence.HourBit(hour) | wordDirty)
	page.dirty.Store(true)
	d.dirty.Store(true)
	return true
}

func (d *openDay) touch(ref Ref, hours uint32) bool {
	page := d.page(ref)
	w := &page.words[ref%refPageSize]
	if w.Load()&(hours|wordUnsure) == hours {
		return false
	}
	w.Or(hours | wordDirty)
	page.dirty.Store(true)
	d.dirty.Store(true)
	return true
}

// stored reports whether the hours are touched and nothing of the series' day waits for being written, or should be once more.
func (d *openDay) stored(ref Ref, hours uint32) bool {
	n := int(ref >> refPageBits)
	if pages := *d.pages.Load(); n < len(pages) && pages[n] != nil {
		word := pages[n].words[ref%refPageSize].Load()
		return word&hours == hours && word&(wordDirty|wordWriting|wordUnsure) == 0
	}
	return false
}

// page returns the ref's page, making it if needed.
func (d *openDay) page(ref Ref) *dayPage {
	n := int(ref >> refPageBits)
	if pages := *d.pages.Load(); n < len(pages) && pages[n] != nil {
		return pages[n]
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	pages := *d.pages.Load()
	if n < len(pages) && pages[n] != nil {
		return pages[n]
	}
	var grown []*dayPage
	if n < len(pages) {
		grown = slices.Clone(pages)
	} else { // readers do not look behind the length that they know
		grown = append(pages, make([]*dayPage, n+1-len(pages))...)
	}
	grown[n] = &dayPage{}
	d.pages.Store(&grown)
	d.addBytes(dayPageBytes + pointerBytes*int64(len(grown)-len(pages)))
	return grown[n]
}

// hours returns the touched hours of a ref.
func (d *openDay) hours(ref Ref) uint32 {
	n := int(ref >> refPageBits)
	if pages := *d.pages.Load(); n < len(pages) && pages[n] != nil {
		return pages[n].words[ref%refPageSize].Load() & presence.HoursMask
	}
	return 0
}

// hoursOf fills in the touched hours of several refs. It does nothing else, so that the words, which lie anywhere, are
// fetched side by side.
func (d *openDay) hoursOf(refs []Ref, words []uint32) {
	pages := *d.pages.Load()
	for i, ref := range refs {
		words[i] = 0
		if n := int(ref >> refPageBits); n < len(pages) && pages[n] != nil {
			words[i] = pages[n].words[ref%refPageSize].Load() & presence.HoursMask
		}
	}
}

// each calls fn for every ref with touched hours, ascending.
func (d *openDay) each(fn func(ref Ref, word *atomic.Uint32, row *uint32)) {
	for n, p := range *d.pages.Load() {
		if p == nil {
			continue
		}
		for i := range p.words {
			if p.words[i].Load() != 0 {
				fn(Ref(n<<refPageBits|i), &p.words[i], &p.rows[i])
			}
		}
	}
}

// addBytes counts memory of the day. The caller holds mu.
func (d *openDay) addBytes(n int64) {
	d.sizeBytes += n
	if d.total != nil {
		d.total.Add(n)
	}
}

// between returns the open days in [from, to], ascending.
func (o *openDays) between(from, to int64) []*openDay {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var out []*openDay
	for day, d := range o.days {
		if day < from || day > to {
			continue
		}
		at := len(out)
		out = append(out, d)
		for ; at > 0 && out[at-1].day > day; at-- {
			out[at] = out[at-1]
		}
		out[at] = d
	}
	return out
}

func (o *openDays) all() []*openDay { return o.between(0, presence.DayMax) }

func (o *openDays) get(day int64) *openDay {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.days[day]
}

// snapshot copies the words; index by ref.
func (d *openDay) snapshot() maskPages {
	pages := *d.pages.Load()
	out := make(maskPages, len(pages))
	for n, p := range pages {
		if p == nil {
			continue
		}
		m := make([]uint32, refPageSize)
		for i := range p.words {
			m[i] = p.words[i].Load() & presence.HoursMask
		}
		out[n] = m
	}
	return out
}

// maskPages are the hours of each ref, in pages; missing pages are zero.
type maskPages [][]uint32

func (m maskPages) hours(ref Ref) uint32 {
	if n := int(ref >> refPageBits); n < len(m) && m[n] != nil {
		return m[n][ref%refPageSize]
	}
	return 0
}

// release clears the hours that a fold has stored and drops the day if nothing else is left.
// Every journal row number is void afterwards: the fold has taken the journal's place.
func (o *openDays) release(d *openDay, folded maskPages) {
	o.mu.Lock() // no Touch is under way
	defer o.mu.Unlock()
	left := false
	for n, p := range *d.pages.Load() {
		if p == nil {
			continue
		}
		p.rows = [refPageSize]uint32{}
		for i := range p.words {
			word := p.words[i].Load()
			if word == 0 {
				continue
			}
			rest := word & presence.HoursMask &^ folded.hours(Ref(n<<refPageBits|i))
			if rest != 0 {
				left = true
				rest |= wordDirty
				p.dirty.Store(true)
			}
			p.words[i].Store(rest)
		}
	}
	d.dirty.Store(left)
	d.journal, d.parts = journalState{}, nil // the next part goes behind what the new root contains
	if !left {
		o.drop(d.day)
	}
}

// put takes a day in. The caller holds mu, or is alone.
func (o *openDays) put(d *openDay) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = &o.sizeBytes
	o.sizeBytes.Add(d.sizeBytes)
	o.days[d.day] = d
}

// drop takes a day out. The caller holds mu.
func (o *openDays) drop(day int64) {
	d := o.days[day]
	if d == nil {
		return
	}
	delete(o.days, day)
	d.mu.Lock()
	defer d.mu.Unlock()
	o.sizeBytes.Add(-d.sizeBytes)
	d.total = nil
}

// day returns the open day, making it if needed.
func (o *openDays) day(day int64) *openDay {
	if d := o.get(day); d != nil {
		return d
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.days[day]
	if d == nil {
		d = newOpenDay(day)
		o.put(d)
	}
	return d
}

// keep lets go of the hours of a day that are in its segment by now: all but those of journal, which is what the parts
// say that are left, and those of series with hours that are not written yet.
func (o *openDays) keep(d, journal *openDay) {
	o.mu.Lock() // no Touch is under way
	defer o.mu.Unlock()
	left := false
	d.each(func(ref Ref, word *atomic.Uint32, _ *uint32) {
		if word.Load()&wordDirty == 0 {
			hours := journal.hours(ref)
			if hours != 0 {
				hours |= wordUnsure
			}
			word.Store(hours)
		}
		left = left || word.Load() != 0
	})
	if !left {
		o.drop(d.day)
	}
}

// forget drops a day altogether: its samples are beyond retention.
func (o *openDays) forget(day int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(day)
}
