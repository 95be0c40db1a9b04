package index

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Removal takes hours from series, because their samples were deleted. Persist, Maintain and Rebuild wait until it is
// closed; Add, Touch and reads go on: what is touched in memory after it was cleared there stays.
//
// Samples leave in two steps. What open days know in memory is cleared first, at the moment at which the samples go; then
// Fold writes the days anew whose journals or segments know the hours. A crash in between leaves the hours: remove them
// once more.
type Removal struct {
	x *Index
	// journal says that what memory knows of a day was read from the tables and goes together with the segment.
	journal bool
}

// ErrShared: what several processes write to, one of them does not take hours out of by a Removal.
var ErrShared = errors.New("index: hours are removed by RemoveShared from a catalogue that several processes share")

// StartRemoval begins a removal, or fails with ErrShared. Close it when done.
func (x *Index) StartRemoval() (*Removal, error) {
	if x.shared() {
		return nil, ErrShared
	}
	x.maint.Lock()
	return &Removal{x: x}, nil
}

// Close ends the removal.
func (r *Removal) Close() { r.x.maint.Unlock() }

// Clear forgets in memory that series were touched in the hours from first to last, both inclusive. The caller sees to it
// that nobody touches these hours of the series meanwhile.
func (r *Removal) Clear(refs []Ref, first, last int64) {
	for _, d := range r.x.open.between(dayOf(first), dayOf(last)) {
		mask := hoursWithin(d.day, first, last)
		if mask == 0 {
			continue
		}
		for _, ref := range refs {
			r.clear(d, ref, mask)
		}
	}
}

func (r *Removal) clear(d *openDay, ref Ref, mask uint32) {
	n := int(ref >> refPageBits)
	pages := *d.pages.Load()
	if n >= len(pages) || pages[n] == nil {
		return
	}
	old := pages[n].words[ref%refPageSize].And(^mask)
	if old&mask != 0 && pages[n].rows[ref%refPageSize] != 0 {
		r.x.cleared[d.day] = true
	}
}

// Touched appends to spans the hours from first to last that memory knows of a series.
func (r *Removal) Touched(spans []HourSpan, ref Ref, first, last int64) []HourSpan {
	for _, d := range r.x.open.between(dayOf(first), dayOf(last)) {
		spans = appendSpans(spans, d.day, d.hours(ref)&hoursWithin(d.day, first, last))
	}
	return spans
}

// Gone says of a series which of the hours that are asked for have no samples any more. It is asked about hours that
// segments know, of one day at a time.
type Gone func(ctx context.Context, series []Series) (hours [][]HourSpan, err error)

// Fold takes hours from first to last away from what is stored: those that were cleared in memory, and of segments those
// that gone names. It is durable when it returns.
func (r *Removal) Fold(ctx context.Context, first, last int64, matchers [][]*labels.Matcher, gone Gone) error {
	var days []int64
	for _, d := range r.x.open.between(dayOf(first), dayOf(last)) {
		days = append(days, d.day)
	}
	for _, c := range r.x.closed.between(dayOf(first), dayOf(last)) {
		days = append(days, c.of.firstDay())
	}
	slices.Sort(days)
	for _, day := range slices.Compact(days) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.foldDay(ctx, day, max(first, firstHour(day)), min(last, lastHour(day)), matchers, gone); err != nil {
			return fmt.Errorf("index: remove hours of day %d: %w", day, err)
		}
	}
	return nil
}

// foldDay makes a day's segment anew if it knows hours that are gone, or if its journal does.
func (r *Removal) foldDay(
	ctx context.Context, day, first, last int64, matchers [][]*labels.Matcher, gone Gone,
) error {
	x := r.x
	open, closed := x.open.get(day), x.closed.get(day)
	lost := map[string]uint32{} // hours by labels
	if closed != nil {
		if err := r.findGone(ctx, day, first, last, matchers, gone, lost); err != nil {
			return err
		}
	}
	if len(lost) == 0 && !x.cleared[day] {
		return nil
	}
	var sources []source
	var seq uint32
	var hours maskPages
	var parts [][]byte
	if open != nil {
		if err := x.placeJournal(ctx, open); err != nil {
			return err
		}
		hours, seq, parts = open.snapshot(), open.journal.seq+1, open.parts // see foldOpen
		sources = append(sources, newActiveSource(x.cat, hours))
	} else {
		var err error
		if seq, err = x.journalEnd(ctx, day); err != nil {
			return err
		}
	}
	if closed != nil {
		rest, err := r.restOf(ctx, day, lost)
		if err != nil {
			return err
		}
		sources = append(sources, rest)
	}
	if err := x.forgetInMonth(ctx, dayPeriod(day)); err != nil {
		return err
	}
	err := x.foldInto(ctx, dayPeriod(day), sources, contents{journalSeq: seq}, func() {
		if open != nil {
			x.open.release(open, hours)
		}
	})
	if err != nil {
		return err
	}
	delete(x.cleared, day)
	return x.deleteParts(ctx, parts)
}

// stored returns what the segment of a day knows of series, whatever memory knows besides, or with journal what both know.
func (r *Removal) stored(ctx context.Context, day, first, last int64, matchers []*labels.Matcher) ([]Series, error) {
	if r.journal {
		return r.everythingOf(ctx, first, last, matchers)
	}
	q, ok := r.x.newQuery(ctx, keyschema.HourStartMs(first), keyschema.HourCellMs(last), matchers)
	if !ok {
		return nil, ctx.Err()
	}
	q.open, q.months = nil, byDays
	q.findClosed()
	c := collector{q: q, builder: labels.NewScratchBuilder(16), merging: true}
	defer c.close()
	if err := q.eachClosed(false, c.segment); err != nil {
		return nil, err
	}
	return c.finish()
}

// findGone asks which hours of the day's segment have no samples any more.
func (r *Removal) findGone(
	ctx context.Context, day, first, last int64, matchers [][]*labels.Matcher, gone Gone, lost map[string]uint32,
) error {
	var key []byte
	for _, ms := range matchers {
		known, err := r.stored(ctx, day, first, last, ms)
		if err != nil {
			return err
		}
		hours, err := gone(ctx, known)
		if err != nil {
			return err
		}
		for i := range known {
			mask := uint32(0)
			for _, span := range hours[i] {
				mask |= hoursWithin(day, span.First, span.Last)
			}
			if mask != 0 {
				key = known[i].Labels.Bytes(key[:0])
				lost[string(key)] |= mask
			}
		}
	}
	return nil
}

// restOf reads the day's segment without the hours that are lost.
func (r *Removal) restOf(ctx context.Context, day int64, lost map[string]uint32) (source, error) {
	known, err := r.stored(ctx, day, firstHour(day), lastHour(day), nil)
	if err != nil {
		return nil, err
	}
	cat, left := newCatalogue(), newOpenDay(day)
	var key []byte
	for i := range known {
		key = known[i].Labels.Bytes(key[:0])
		mask := uint32(0)
		for _, span := range known[i].Hours {
			mask |= hoursWithin(day, span.First, span.Last)
		}
		if mask &^= lost[string(key)]; mask == 0 {
			continue
		}
		ref, _, err := cat.add(known[i].Labels, 0)
		if err != nil {
			return nil, err
		}
		left.touch(ref, mask)
	}
	return newActiveSource(cat, left.snapshot()), nil
}
