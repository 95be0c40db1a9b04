package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"halite/storage/index/presence"
)

// OpenDays holds the active hours of every day that has hours outside its segment. Such days are today, yesterday until an
// hour after midnight, and days with late data.
type OpenDays struct {
	mu   sync.RWMutex // MarkActive holds it for reading, so that no hour is marked in a day that Release removes
	days map[int64]*OpenDay
	// bytes is the memory of all days.
	bytes atomic.Int64
}

// OpenDay has a word and a journal row for each ref, in pages by ref.
type OpenDay struct {
	Day   int64
	mu    sync.Mutex // serialises the growth of pages
	pages atomic.Pointer[[]*dayPage]
	// dirty is set when a word may have hours that the journal lacks.
	dirty atomic.Bool
	// sizeBytes is the memory of the day. total, if not nil, is the sum over all days. mu guards both.
	sizeBytes int64
	total     *atomic.Int64

	// The lock that serialises the changes of tables guards the following fields.
	Journal JournalState
	// Records are the keys of the records with a writer that the day contains. A compaction deletes them.
	Records [][]byte
}

// JournalState is the position of the next record.
type JournalState struct {
	Known bool   // Seq is above the records that the manifest contains
	First uint32 // number of the first record since the last compaction
	Seq   uint32 // number of the next record
	Rows  uint32 // series in the records since First
	Stale bool   // the journal still has hours that were removed from memory
}

// dayPage has a word for each series. Bits 0–23 are the active hours. wordDirty means that the journal lacks some of them.
// wordWriting means that a record with some of them is being written. wordUnsure means that the day has a segment and that
// some hours come from an old record or another writer's record. If a removal of hours wrote that segment, a compaction may
// soon delete the record and these hours. rows holds the row of the series in the day's journal plus one, or 0. dirty means
// that some word may be dirty.
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

// NewOpenDays returns an empty set of days.
func NewOpenDays() *OpenDays { return &OpenDays{days: map[int64]*OpenDay{}} }

// Reset removes all days.
func (o *OpenDays) Reset() { o.days = map[int64]*OpenDay{} }

func NewOpenDay(day int64) *OpenDay {
	d := &OpenDay{Day: day, sizeBytes: openDayBytes}
	d.pages.Store(&[]*dayPage{})
	return d
}

// MarkActive marks an hour and reports whether it was new.
func (o *OpenDays) MarkActive(ref Ref, hour int64) bool {
	day := presence.DayOf(hour)
	o.mu.RLock()
	d := o.days[day]
	if d == nil {
		o.mu.RUnlock()
		o.Day(day)
		return o.MarkActive(ref, hour) // again, because Release may remove the new day first
	}
	defer o.mu.RUnlock()
	return d.MarkActive(ref, presence.HourBit(hour))
}

// MarkDirty marks an active hour of a series as missing in the journal. It returns false if the day is not open.
func (o *OpenDays) MarkDirty(ref Ref, hour int64) (ok bool) {
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

func (d *OpenDay) MarkActive(ref Ref, hours uint32) bool {
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

// IsPersisted reports whether the hours are active and the journal has all hours of the series and day.
func (d *OpenDay) IsPersisted(ref Ref, hours uint32) bool {
	n := int(ref >> refPageBits)
	if pages := *d.pages.Load(); n < len(pages) && pages[n] != nil {
		word := pages[n].words[ref%refPageSize].Load()
		return word&hours == hours && word&(wordDirty|wordWriting|wordUnsure) == 0
	}
	return false
}

// page returns the page of a ref, and creates it if needed.
func (d *OpenDay) page(ref Ref) *dayPage {
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
	} else { // readers stay within the length that they loaded
		grown = append(pages, make([]*dayPage, n+1-len(pages))...)
	}
	grown[n] = &dayPage{}
	d.pages.Store(&grown)
	d.addBytes(dayPageBytes + pointerBytes*int64(len(grown)-len(pages)))
	return grown[n]
}

// Hours returns the active hours of a ref.
func (d *OpenDay) Hours(ref Ref) uint32 {
	n := int(ref >> refPageBits)
	if pages := *d.pages.Load(); n < len(pages) && pages[n] != nil {
		return pages[n].words[ref%refPageSize].Load() & presence.HoursMask
	}
	return 0
}

// HoursOfRefs fills in the active hours of several refs. The loop does nothing else, so the CPU can fetch the scattered
// words in parallel.
func (d *OpenDay) HoursOfRefs(refs []Ref, words []uint32) {
	pages := *d.pages.Load()
	for i, ref := range refs {
		words[i] = 0
		if n := int(ref >> refPageBits); n < len(pages) && pages[n] != nil {
			words[i] = pages[n].words[ref%refPageSize].Load() & presence.HoursMask
		}
	}
}

// forEach calls fn for every ref with active hours, ascending.
func (d *OpenDay) forEach(fn func(ref Ref, word *atomic.Uint32, row *uint32)) {
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
func (d *OpenDay) addBytes(n int64) {
	d.sizeBytes += n
	if d.total != nil {
		d.total.Add(n)
	}
}

// Between returns the open days in [from, to], ascending.
func (o *OpenDays) Between(from, to int64) []*OpenDay {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var out []*OpenDay
	for day, d := range o.days {
		if day < from || day > to {
			continue
		}
		at := len(out)
		out = append(out, d)
		for ; at > 0 && out[at-1].Day > day; at-- {
			out[at] = out[at-1]
		}
		out[at] = d
	}
	return out
}

func (o *OpenDays) All() []*OpenDay { return o.Between(0, presence.DayMax) }

func (o *OpenDays) Get(day int64) *OpenDay {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.days[day]
}

// Snapshot copies the words. The result is indexed by ref.
func (d *OpenDay) Snapshot() HoursByRef {
	pages := *d.pages.Load()
	out := make(HoursByRef, len(pages))
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

// HoursByRef are the hours of each ref, in pages; missing pages are zero.
type HoursByRef [][]uint32

func (m HoursByRef) Hours(ref Ref) uint32 {
	if n := int(ref >> refPageBits); n < len(m) && m[n] != nil {
		return m[n][ref%refPageSize]
	}
	return 0
}

// Release clears the hours that a compaction has stored, and removes the day if no hours remain. Row numbers of the journal
// become invalid, because the segment replaces the journal.
func (o *OpenDays) Release(d *OpenDay, compacted HoursByRef) {
	o.mu.Lock() // no MarkActive is running
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
			rest := word & presence.HoursMask &^ compacted.Hours(Ref(n<<refPageBits|i))
			if rest != 0 {
				left = true
				rest |= wordDirty
				p.dirty.Store(true)
			}
			p.words[i].Store(rest)
		}
	}
	d.dirty.Store(left)
	d.Journal, d.Records = JournalState{}, nil // the next record follows the records in the new manifest
	if !left {
		o.drop(d.Day)
	}
}

// Put adds a day before the first use of the days.
func (o *OpenDays) Put(d *OpenDay) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.putLocked(d)
}

// putLocked adds a day. The caller holds mu.
func (o *OpenDays) putLocked(d *OpenDay) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.total = &o.bytes
	o.bytes.Add(d.sizeBytes)
	o.days[d.Day] = d
}

// drop removes a day. The caller holds mu.
func (o *OpenDays) drop(day int64) {
	d := o.days[day]
	if d == nil {
		return
	}
	delete(o.days, day)
	d.mu.Lock()
	defer d.mu.Unlock()
	o.bytes.Add(-d.sizeBytes)
	d.total = nil
}

// Day returns the open day, and creates it if needed.
func (o *OpenDays) Day(day int64) *OpenDay {
	if d := o.Get(day); d != nil {
		return d
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.days[day]
	if d == nil {
		d = NewOpenDay(day)
		o.putLocked(d)
	}
	return d
}

// KeepJournal removes the hours of a day that its segment now has. It keeps the hours of journal, which come from the
// remaining records, and all hours of series with unwritten hours.
func (o *OpenDays) KeepJournal(d, journal *OpenDay) {
	o.mu.Lock() // no MarkActive is running
	defer o.mu.Unlock()
	left := false
	d.forEach(func(ref Ref, word *atomic.Uint32, _ *uint32) {
		if word.Load()&wordDirty == 0 {
			hours := journal.Hours(ref)
			if hours != 0 {
				hours |= wordUnsure
			}
			word.Store(hours)
		}
		left = left || word.Load() != 0
	})
	if !left {
		o.drop(d.Day)
	}
}

// Remove removes a day.
func (o *OpenDays) Remove(day int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drop(day)
}
