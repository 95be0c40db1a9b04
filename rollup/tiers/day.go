package tiers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/storage"
)

// partSeries is the number of stale series whose rows are read together.
const partSeries = 1024

// dayPass computes the hours of one day.
type dayPass struct {
	batch
	day       int64
	qualifier []byte
	encoder   rollup.Encoder
	decoder   rollup.Decoder
	columns   rollup.Columns
	raw       *kept // rows whose cells are older may be gone
}

// computeDay computes what the ledger says of a day.
func (t *Tiers) computeDay(ctx context.Context, day int64) (err error) {
	began := t.opts.Now()
	p := &dayPass{batch: newBatch(t), day: day, qualifier: statesQualifier(int(day-MonthStart(MonthOfDay(day))) + 1)}
	defer p.pace.rest(ctx) // from what comes after the last series, too: loads and syncs
	todo := t.ledger.begin(day)
	defer func() { err = errors.Join(err, t.ledger.finish(ctx, day, err == nil)) }()
	defer t.metrics.passSeries.Set(0)
	if todo == workWhole {
		err = p.whole(ctx)
	} else {
		err = p.part(ctx)
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

// part computes the series that have marks.
func (p *dayPass) part(ctx context.Context) (err error) {
	old := p.t.scanOld(ctx, p.day, everything())
	defer func() { err = errors.Join(err, old.close()) }()
	for more := true; more; {
		var stale []oldDay
		for len(stale) < partSeries {
			d := old.next()
			if more = d != nil; !more {
				break
			}
			if d.stale != 0 {
				stale = append(stale, oldDay{bytes.Clone(d.prefix), bytes.Clone(d.states), d.stale})
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
	p.raw = p.t.keptOf(keyschema.Raw)
	r, o := raw.next(), nextOld()
	for r != nil || o != nil {
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
		p.pace.pause(ctx)
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
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
	month := MonthOfDay(p.day)
	key := p.cut(func(dst []byte) []byte { return appendKey(dst, prefix, month) })
	if old != nil && old.states != nil {
		p.keepExpired(&states, found, key, old)
	}
	for h := range states {
		if damaged>>h&1 != 0 {
			states[h] = rollup.State{}
		}
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
	stale := uint32(0)
	if old != nil {
		stale = old.stale
	}
	for h := range keyschema.DayHours {
		mark := byte(markDone)
		if damaged>>h&1 != 0 {
			mark = markLive
		} else if stale>>h&1 == 0 {
			continue
		}
		entries = append(entries, p.entry(markQualifier(int(p.qualifier[0]), h), []byte{mark}))
	}
	return p.put(ctx, storage.RowMutation{Key: key, Entries: entries})
}

func (p *dayPass) entry(qualifier, value []byte) storage.Entry {
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: dayCellMs(p.day), Qualifier: qualifier, Value: value,
	}
}

// keepExpired keeps the stored states of hours whose rows retention has taken.
func (p *dayPass) keepExpired(states *[keyschema.DayHours]rollup.State, found uint32, key []byte, old *oldDay) {
	keptMs := p.raw.sinceMs(key)
	if p.day*dayMs >= keptMs {
		return
	}
	p.columns.Reset(p.day*dayMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	if _, err := p.decoder.Decode(&p.columns, key, p.qualifier, old.states, p.day*dayMs, keyschema.DayHours); err != nil {
		p.t.noteCorrupt(key, err)
		return
	}
	for h := range states {
		if found>>h&1 == 0 && keyschema.HourCellMs(p.day*keyschema.DayHours+int64(h)) < keptMs {
			states[h] = p.columns.State(h)
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
	pace            throttle
	muts            []storage.RowMutation
	arena           []byte
	bytes           int
	series, samples int
	counted         int // samples that the metric has
}

const arenaBytes = 1 << 20

func newBatch(t *Tiers) batch { return batch{t: t, pace: throttle{t: t, since: time.Now()}} }

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
	b.series++
	if b.bytes < b.t.opts.BatchBytes {
		return nil
	}
	return b.flush(ctx)
}

// flush loads what was gathered, except series that were marked since the pass began.
func (b *batch) flush(ctx context.Context) error {
	t := b.t
	if len(b.muts) == 0 {
		return nil
	}
	t.ledger.mu.Lock()
	defer t.ledger.mu.Unlock()
	muts := b.muts
	if len(t.ledger.touched) > 0 {
		muts = slices.DeleteFunc(muts, func(m storage.RowMutation) bool {
			prefix, _, _ := parseKey(m.Key)
			_, touched := t.ledger.touched[string(prefix)]
			return touched
		})
	}
	if err := t.table.Load(ctx, muts); err != nil {
		return fmt.Errorf("write %d rows to table %s: %w", len(muts), storage.TableRollup, err)
	}
	t.metrics.bytes.Add(float64(b.bytes))
	t.metrics.series.Add(float64(len(b.muts)))
	t.metrics.samples.Add(float64(b.samples - b.counted))
	t.metrics.passSeries.Set(float64(b.series))
	clear(b.muts)
	b.muts, b.arena, b.bytes, b.counted = b.muts[:0], nil, 0, b.samples
	return nil
}
