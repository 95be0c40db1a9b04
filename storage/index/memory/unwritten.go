package memory

import (
	"sync/atomic"

	"halite/storage/index/presence"
)

// Unwritten is a series of a day whose hours the journal lacks.
type Unwritten struct {
	Ref   Ref
	Row   uint32 // journal row plus one, 0 if it has none
	Hours uint32
}

// Due are series with hours that the journal lacks. The journal has the Known series, but not the Fresh ones.
type Due struct{ Fresh, Known []Unwritten }

func (s *Due) Len() int { return len(s.Fresh) + len(s.Known) }
func (s *Due) reset()   { s.Fresh, s.Known = s.Fresh[:0], s.Known[:0] }

// IsDirty reports whether a series may have hours that the journal lacks.
func (d *OpenDay) IsDirty() bool { return d.dirty.Load() }

// EachUnwritten calls write with the series whose hours the journal lacks. Each call except the last gets at least seriesMin
// series. After an error the day stays dirty. write calls EndWrite or FailWrite for its series.
func (d *OpenDay) EachUnwritten(seriesMin int, write func(due Due) error) (err error) {
	d.dirty.Store(false) // cleared before the words are read, because MarkActive may set it again
	defer func() {
		if err != nil {
			d.dirty.Store(true)
		}
	}()
	var due Due
	pages := *d.pages.Load()
	for n := range pages {
		d.collectDirty(&due, n, pages[n])
		if n == len(pages)-1 || due.Len() >= seriesMin {
			if err := write(due); err != nil {
				return err
			}
			due.reset()
		}
	}
	return nil
}

// collectDirty lists the series of the n-th page with hours that the journal lacks, ascending. It sets wordWriting in their
// words.
func (d *OpenDay) collectDirty(due *Due, n int, p *dayPage) {
	if p == nil || !p.dirty.Swap(false) { // cleared before its words are read
		return
	}
	for i := range p.words {
		w := &p.words[i]
		for old := w.Load(); old&wordDirty != 0; old = w.Load() {
			if !w.CompareAndSwap(old, old&^(wordDirty|wordUnsure)|wordWriting) {
				continue
			}
			series := Unwritten{Ref: Ref(n<<refPageBits | i), Row: p.rows[i], Hours: old & presence.HoursMask}
			switch {
			case series.Hours == 0: // the hours were removed before a record had them
				d.EndWrite([]Unwritten{series})
			case series.Row == 0:
				due.Fresh = append(due.Fresh, series)
			default:
				due.Known = append(due.Known, series)
			}
			break
		}
	}
}

// EndWrite ends a successful write of series.
func (d *OpenDay) EndWrite(series []Unwritten) {
	for _, u := range series {
		d.page(u.Ref).words[u.Ref%refPageSize].And(^uint32(wordWriting))
	}
}

// FailWrite ends a failed write of series and marks them as unwritten, so that the next write includes them.
func (d *OpenDay) FailWrite(series []Unwritten) {
	for _, u := range series {
		p := d.page(u.Ref)
		w := &p.words[u.Ref%refPageSize]
		w.Or(wordDirty)
		w.And(^uint32(wordWriting))
		p.dirty.Store(true)
	}
	if len(series) > 0 {
		d.dirty.Store(true)
	}
}

// MarkUnwritten marks all series of the day as unwritten, for a new journal.
func (d *OpenDay) MarkUnwritten() {
	for _, p := range *d.pages.Load() {
		if p != nil {
			p.dirty.Store(true)
		}
	}
	d.forEach(func(_ Ref, word *atomic.Uint32, row *uint32) {
		word.Or(wordDirty)
		*row = 0
	})
	d.dirty.Store(true)
}

// Restore adds hours of a series from a stored journal. row is the row in the journal plus one, or 0.
func (d *OpenDay) Restore(ref Ref, row, hours uint32, unsure bool) {
	page := d.page(ref)
	if unsure {
		hours |= wordUnsure
	}
	page.words[ref%refPageSize].Or(hours)
	if row != 0 {
		page.rows[ref%refPageSize] = row
	}
}

// ClearHours removes hours of a series. It reports whether the series had any of these hours.
func (d *OpenDay) ClearHours(ref Ref, hours uint32) bool {
	n := int(ref >> refPageBits)
	pages := *d.pages.Load()
	return n < len(pages) && pages[n] != nil && pages[n].words[ref%refPageSize].And(^hours)&hours != 0
}

// SetRow records the journal row of a series, plus one.
func (d *OpenDay) SetRow(ref Ref, row uint32) { d.page(ref).rows[ref%refPageSize] = row }
