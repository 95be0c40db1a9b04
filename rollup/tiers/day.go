package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/storage"
	"halite/storage/tombstone"
)

// partSeries is the number of stale series whose rows are read together.
const partSeries = 1024

// dayPass computes the hours of one day.
type dayPass struct {
	batch
	day       int64
	qualifier []byte
	encoder   cell.Encoder
	decoder   cell.Decoder
	columns   rollup.Columns
	void      void
}

// newDayPass makes a pass that sees samples as of the view, and the context to read them with.
func (t *Tiers) newDayPass(ctx context.Context, day int64, view *tombstone.View) (*dayPass, context.Context) {
	p := &dayPass{
		batch: newBatch(t), day: day, qualifier: statesQualifier(dayOfMonth(day)), void: newVoid(view),
	}
	return p, reading(ctx, view)
}

// computeDay computes what the ledger says of a day.
func (t *Tiers) computeDay(ctx context.Context, day int64) (err error) {
	began := t.opts.Now()
	view, err := t.stable(ctx)
	if err != nil {
		return err
	}
	p, ctx := t.newDayPass(ctx, day, view)
	defer p.pace.rest(ctx) // from what comes after the last series, too: loads and syncs
	defer release(view)
	todo := t.ledger.begin(day)
	defer func() { err = errors.Join(err, t.ledger.finish(ctx, day, err == nil)) }()
	defer t.metrics.passSeries.Set(0)
	if todo == workWhole {
		err = p.whole(ctx)
	} else {
		err = p.part(ctx, everything())
	}
	if err != nil {
		return err
	}
	if err := p.flush(ctx); err != nil {
		return err
	}
	t.metrics.passes.WithLabelValues(string(todo)).Inc()
	t.opts.Logger.Info("rollups of a day computed", "day", dayText(day), "work", string(todo), "series", p.series,
		"samples", p.samples, "after", t.opts.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// everything is the range of all rows.
func everything() storage.RowSet { return storage.RowSet{Ranges: []storage.RowRange{{}}} }

// whole computes all series that have rows or states of the day.
func (p *dayPass) whole(ctx context.Context) (err error) {
	old := p.t.scanOld(ctx, p.day, everything())
	defer func() { err = errors.Join(err, old.close()) }()
	raw := p.t.scanRaw(ctx, p.day, everything().Ranges)
	defer func() { err = errors.Join(err, raw.close()) }()
	return p.merge(ctx, raw, old.it, old.next)
}

// part computes the series of a set that have marks, or states of deleted samples.
func (p *dayPass) part(ctx context.Context, set storage.RowSet) (err error) {
	old := p.t.scanOld(ctx, p.day, set)
	defer func() { err = errors.Join(err, old.close()) }()
	for more := true; more; {
		var stale []oldDay
		for len(stale) < partSeries {
			d := old.next()
			if more = d != nil; !more {
				break
			}
			if err := p.void.series(ctx, d.prefix); err != nil {
				return err
			}
			if d.stale|p.void.hours(p.day, d.asOf) != 0 {
				kept := *d
				kept.prefix, kept.states = bytes.Clone(d.prefix), bytes.Clone(d.states)
				stale = append(stale, kept)
			}
			if err := p.pace.pause(ctx); err != nil {
				return err
			}
		}
		if err := p.some(ctx, old.it, stale); err != nil {
			return err
		}
	}
	return nil
}

// some computes these series.
func (p *dayPass) some(ctx context.Context, old storage.RowIter, stale []oldDay) (err error) {
	if len(stale) == 0 {
		return nil
	}
	ranges := make([]storage.RowRange, len(stale))
	for i := range stale {
		ranges[i].Start, ranges[i].End = keyschema.SeriesRange(stale[i].prefix, p.day*keyschema.DayHours,
			p.day*keyschema.DayHours+keyschema.DayHours-1)
	}
	raw := p.t.scanRaw(ctx, p.day, ranges)
	defer func() { err = errors.Join(err, raw.close()) }()
	return p.merge(ctx, raw, old, func() *oldDay {
		if len(stale) == 0 {
			return nil
		}
		d := &stale[0]
		stale = stale[1:]
		return d
	})
}

// merge brings together what the rows say and what is stored, series by series. Both come in key order.
func (p *dayPass) merge(ctx context.Context, raw *rawScan, old storage.RowIter, nextOld func() *oldDay) error {
	r, o := raw.next(), nextOld()
	for r != nil || o != nil {
		if err := p.t.awake(&p.batch); err != nil {
			return err
		}
		// A read that broke off must not look like one that found nothing.
		if err := errors.Join(raw.it.Err(), old.Err()); err != nil {
			return err
		}
		order := 0
		switch {
		case r == nil:
			order = 1
		case o == nil:
			order = -1
		default:
			order = bytes.Compare(r.prefix, o.prefix)
		}
		var err error
		switch {
		case order < 0:
			err = p.add(ctx, r.prefix, r, nil)
		case order > 0:
			err = p.add(ctx, o.prefix, nil, o)
		default:
			err = p.add(ctx, r.prefix, r, o)
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			r = raw.next()
		}
		if order >= 0 {
			o = nextOld()
		}
		if err := p.pace.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add makes the mutation of one series.
func (p *dayPass) add(ctx context.Context, prefix []byte, raw *rawDay, old *oldDay) error {
	var states [keyschema.DayHours]rollup.State
	damaged, found := uint32(0), uint32(0)
	if raw != nil {
		states, damaged, found = raw.states, raw.damaged, raw.found
		p.samples += raw.samples
	}
	if err := p.void.series(ctx, prefix); err != nil {
		return err
	}
	key := p.cut(func(dst []byte) []byte { return appendKey(dst, prefix, MonthOfDay(p.day)) })
	if old == nil {
		old = &oldDay{}
	}
	if old.states != nil {
		p.keepRetired(&states, found, key, old)
	}
	empty := true
	for h := range states {
		if damaged>>h&1 != 0 {
			states[h] = rollup.State{}
		}
		empty = empty && states[h].Count == 0
	}
	asOf := p.void.last(p.day, p.day)
	if empty && damaged|old.gone == 0 && asOf > 0 {
		return p.remove(ctx, p.removal(key, old))
	}
	var err error
	value := p.cut(func(dst []byte) []byte {
		dst, err = p.encoder.Append(dst, key, p.qualifier, p.day*dayMs, keyschema.HourMs, rollup.FieldsAll, states[:])
		return dst
	})
	if err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	entries := []storage.Entry{p.entry(p.qualifier, value)}
	entries = p.t.tell(entries, p.entry(hoursAsOfQualifier(dayOfMonth(p.day)), asOfValue(asOf)), asOf, old.asOf)
	for h := range keyschema.DayHours {
		mark := byte(markDone)
		if damaged>>h&1 != 0 {
			mark = markLive
		} else if old.stale>>h&1 == 0 {
			continue
		}
		entries = append(entries, p.entry(markQualifier(int(p.qualifier[0]), h), []byte{mark}))
	}
	entries = p.unmark(entries, old.timed)
	return p.put(ctx, storage.RowMutation{Key: key, Entries: entries})
}

func (p *dayPass) entry(qualifier, value []byte) storage.Entry {
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: dayCellMs(p.day), Qualifier: qualifier, Value: value,
	}
}

// removal takes away all that is stored of a series and day.
func (p *dayPass) removal(key []byte, old *oldDay) storage.RowMutation {
	m := storage.RowMutation{Key: key}
	remove := func(qualifier []byte) {
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.DeleteCells, Family: storage.FamilyHours, Qualifier: qualifier,
			FromMs: p.day * dayMs, ToMs: (p.day + 1) * dayMs,
		})
	}
	if old.states != nil {
		remove(p.qualifier)
	}
	if old.asOf != 0 {
		remove(hoursAsOfQualifier(dayOfMonth(p.day)))
	}
	for marks := old.marks; marks != 0; marks &= marks - 1 {
		remove(markQualifier(int(p.qualifier[0]), bits.TrailingZeros32(marks)))
	}
	m.Entries = p.unmark(m.Entries, old.timed)
	return m
}

// allHours is the bitmap of a whole day.
const allHours = 1<<keyschema.DayHours - 1

// keepRetired keeps the stored states of hours whose rows retention has taken, unless some of their samples were deleted.
// Ages may have been shorter before than they are now, so they do not tell what was taken. But whoever else takes a row away
// either marks it as gone or is a deletion.
func (p *dayPass) keepRetired(states *[keyschema.DayHours]rollup.State, found uint32, key []byte, old *oldDay) {
	retired := allHours &^ found &^ old.gone
	if retired == 0 {
		return
	}
	p.columns.Reset(p.day*dayMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	if _, err := p.decoder.Decode(&p.columns, key, p.qualifier, old.states, p.day*dayMs, keyschema.DayHours); err != nil {
		p.t.noteCorrupt(key, err)
		return
	}
	for h := range states {
		if retired>>h&1 == 0 {
			continue
		}
		if former := p.columns.State(h); !p.void.reaches(&former, old.asOf) {
			states[h] = former
		}
	}
}

// noteCorrupt counts and logs a damaged cell.
func (t *Tiers) noteCorrupt(key []byte, err error) {
	t.metrics.corrupt.Inc()
	t.opts.Logger.Error("damaged rollup cell; raw samples take its place, tsdb rollup rebuild repairs it",
		"row", string(key), "err", err)
}

// batch gathers mutations in key order and loads them.
type batch struct {
	t               *Tiers
	muts            []storage.RowMutation
	gone            []storage.RowMutation // that delete cells
	pace            throttle
	dropped         bool // some were left out because of marks
	reads           bool // it writes nothing
	arena           []byte
	bytes           int
	series, samples int
	counted         int       // samples that the metric has
	begun, awake    time.Time // when the first of it was read, and when the pass was last seen at work
}

const arenaBytes = 1 << 20

func newBatch(t *Tiers) batch {
	return batch{t: t, pace: throttle{t: t, since: time.Now(), share: t.opts.Share}}
}

// cut lets write append to the arena and returns what it wrote.
func (b *batch) cut(write func(dst []byte) []byte) []byte {
	if cap(b.arena)-len(b.arena) < arenaBytes/16 {
		b.arena = make([]byte, 0, arenaBytes)
	}
	start := len(b.arena)
	b.arena = write(b.arena)
	b.bytes += len(b.arena) - start
	return b.arena[start:len(b.arena):len(b.arena)]
}

// put adds a series' mutation.
func (b *batch) put(ctx context.Context, m storage.RowMutation) error {
	b.muts = append(b.muts, m)
	return b.added(ctx)
}

// remove adds a mutation that deletes cells, if there are any.
func (b *batch) remove(ctx context.Context, m storage.RowMutation) error {
	if len(m.Entries) > 0 {
		b.gone = append(b.gone, m)
	}
	return b.added(ctx)
}

func (b *batch) added(ctx context.Context) error {
	b.series++
	if b.bytes < b.t.opts.BatchBytes && !b.t.ripe(b) {
		return nil
	}
	return b.flush(ctx)
}

// flush loads what was gathered, except series that were marked since the pass began.
func (b *batch) flush(ctx context.Context) error {
	t := b.t
	if len(b.muts)+len(b.gone) == 0 {
		return nil
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	muts, gone := b.untouched(b.muts), b.untouched(b.gone)
	if err := t.store(ctx, b, muts, gone); err != nil {
		return fmt.Errorf("write %d rows to table %s: %w", len(muts), storage.TableRollup, err)
	}
	t.metrics.bytes.Add(float64(b.bytes))
	t.metrics.series.Add(float64(len(b.muts)))
	t.metrics.samples.Add(float64(b.samples - b.counted))
	t.metrics.passSeries.Set(float64(b.series))
	clear(b.muts)
	clear(b.gone)
	b.muts, b.gone, b.arena, b.bytes, b.counted = b.muts[:0], b.gone[:0], nil, 0, b.samples
	b.begun = time.Time{}
	return nil
}

// untouched leaves out series that were marked since the pass began. The caller holds the ledger's mu.
func (b *batch) untouched(muts []storage.RowMutation) []storage.RowMutation {
	if len(b.t.ledger.touched) == 0 {
		return muts
	}
	return slices.DeleteFunc(muts, func(m storage.RowMutation) bool {
		prefix, _, _ := parseKey(m.Key)
		_, touched := b.t.ledger.touched[string(prefix)]
		b.dropped = b.dropped || touched
		return touched
	})
}
