package job

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// dirtySeriesMax is the largest number of dirty series whose rows are read together.
const dirtySeriesMax = 1024

// dayPass computes the hours of one day.
type dayPass struct {
	batch
	day         int64
	view        *tombstone.View // deletions that the states reflect; nil if nothing can be deleted
	qualifier   []byte          // of the states
	encoder     cell.Encoder
	decoder     cell.Decoder
	columns     rollup.Columns
	invalidated store.Invalidated
	histograms  histogramPass
}

// newDayPass makes a pass whose states reflect the deletions of a view.
func (j *Job) newDayPass(day int64, view *tombstone.View, share float64) *dayPass {
	return &dayPass{
		batch: newBatch(j, share), day: day, view: view, qualifier: store.StatesQualifier(store.DayOfMonth(day)),
		invalidated: store.NewInvalidated(view),
		histograms:  histogramPass{qualifier: store.HistogramsQualifier(store.DayOfMonth(day))},
	}
}

// computeDay does the work of a day in the manifest.
func (j *Job) computeDay(ctx context.Context, day int64) error {
	began := j.now()
	view, err := j.deletionView(ctx)
	if err != nil {
		return err
	}
	p := j.newDayPass(day, view, j.opts.Share)
	defer p.throttle.sleep(ctx) // also for the writes and syncs after the last series
	defer release(view)
	manifest := j.store.Manifest
	work := manifest.BeginPass(day)
	defer j.metrics.passSeries.Set(0)
	if err := p.compute(ctx, work); err != nil {
		manifest.EndPass()
		return err
	}
	if err := manifest.FinishPass(ctx); err != nil {
		return err
	}
	j.metrics.passes.WithLabelValues(string(work)).Inc()
	j.opts.Logger.Info("computed the hourly rollups of a day", "day", store.DayText(day), "work", string(work),
		"series", p.series, "samples", p.samples, "duration", j.now().Sub(began).Round(time.Millisecond))
	return nil
}

// compute does the work of the day and writes the states.
func (p *dayPass) compute(ctx context.Context, work store.Work) (err error) {
	if work == store.WorkWhole {
		err = p.computeAll(ctx)
	} else {
		err = p.computeDirty(ctx, allRows())
	}
	if err != nil {
		return err
	}
	return p.flush(ctx)
}

// computeAll computes all series that have rows or states of the day.
func (p *dayPass) computeAll(ctx context.Context) (err error) {
	stored := p.j.scanStored(ctx, p.day, allRows())
	defer func() { err = errors.Join(err, stored.close()) }()
	samples := p.j.scanSamples(ctx, p.view, p.day, allRows().Ranges)
	defer func() { err = errors.Join(err, samples.close()) }()
	return p.merge(ctx, samples, stored.it, stored.next)
}

// computeDirty computes the series of a set whose states are dirty or invalidated by deletions.
func (p *dayPass) computeDirty(ctx context.Context, set storage.RowSet) (err error) {
	stored := p.j.scanStored(ctx, p.day, set)
	defer func() { err = errors.Join(err, stored.close()) }()
	for more := true; more; {
		var dirty []storedDay
		for len(dirty) < dirtySeriesMax {
			d := stored.next()
			if more = d != nil; !more {
				break
			}
			if err := p.invalidated.Seek(ctx, d.prefix); err != nil {
				return err
			}
			if d.dirty|p.invalidated.Hours(p.day, d.horizon) != 0 {
				clone := *d
				clone.prefix, clone.states, clone.histograms = bytes.Clone(d.prefix), bytes.Clone(d.states), bytes.Clone(d.histograms)
				dirty = append(dirty, clone)
			}
			if err := p.throttle.pace(ctx); err != nil {
				return err
			}
		}
		if err := p.computeSeries(ctx, stored.it, dirty); err != nil {
			return err
		}
	}
	return nil
}

// computeSeries computes the given series. it is the scan that yields them.
func (p *dayPass) computeSeries(ctx context.Context, it storage.RowIter, dirty []storedDay) (err error) {
	if len(dirty) == 0 {
		return nil
	}
	ranges := make([]storage.RowRange, len(dirty))
	for i := range dirty {
		ranges[i].Start, ranges[i].End = keyschema.SeriesRange(dirty[i].prefix, p.day*keyschema.DayHours,
			p.day*keyschema.DayHours+keyschema.DayHours-1)
	}
	samples := p.j.scanSamples(ctx, p.view, p.day, ranges)
	defer func() { err = errors.Join(err, samples.close()) }()
	return p.merge(ctx, samples, it, func() *storedDay {
		if len(dirty) == 0 {
			return nil
		}
		d := &dirty[0]
		dirty = dirty[1:]
		return d
	})
}

// merge joins samples and stored states by series. Both are in key order; it is the scan of the stored states.
func (p *dayPass) merge(
	ctx context.Context, samples *sampleScan, it storage.RowIter, nextStored func() *storedDay,
) error {
	sampled, stored := samples.next(), nextStored()
	for sampled != nil || stored != nil {
		if err := p.checkAwake(); err != nil {
			return err
		}
		// A failed read must not look like an empty one.
		if err := errors.Join(samples.it.Err(), it.Err()); err != nil {
			return err
		}
		order := 0
		switch {
		case sampled == nil:
			order = 1
		case stored == nil:
			order = -1
		default:
			order = bytes.Compare(sampled.prefix, stored.prefix)
		}
		var err error
		switch {
		case order < 0:
			err = p.addSeries(ctx, sampled.prefix, sampled, &storedDay{})
		case order > 0:
			err = p.addSeries(ctx, stored.prefix, &sampledDay{}, stored)
		default:
			err = p.addSeries(ctx, sampled.prefix, sampled, stored)
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			sampled = samples.next()
		}
		if order >= 0 {
			stored = nextStored()
		}
		if err := p.throttle.pace(ctx); err != nil {
			return err
		}
	}
	return nil
}

// addSeries makes the mutation of one series.
func (p *dayPass) addSeries(ctx context.Context, prefix []byte, sampled *sampledDay, stored *storedDay) error {
	states, damaged := sampled.states, sampled.damaged
	p.samples += sampled.samples
	if err := p.invalidated.Seek(ctx, prefix); err != nil {
		return err
	}
	key := p.alloc(func(dst []byte) []byte { return keyschema.AppendMonthKey(dst, prefix, store.MonthOfDay(p.day)) })
	if stored.states != nil {
		p.keepOrphans(&states, sampled.found, key, stored)
	}
	kept, err := p.histogramsOf(sampled, key, stored)
	if err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	empty := len(kept) == 0
	for h := range states {
		if damaged>>h&1 != 0 {
			states[h] = rollup.State{}
		}
		empty = empty && states[h].Count == 0
	}
	horizon := p.invalidated.LastDeletion(p.day, p.day)
	if empty && damaged|stored.gone == 0 && horizon > 0 {
		return p.remove(ctx, p.removal(key, stored))
	}
	value := p.alloc(func(dst []byte) []byte {
		dst, err = p.encoder.Append(dst, key, p.qualifier, p.day*dayMs, keyschema.HourMs, rollup.FieldsAll, states[:])
		return dst
	})
	if err != nil {
		return fmt.Errorf("row %s: %w", key, err)
	}
	entries, err := p.appendHistograms([]storage.Entry{p.setCell(p.qualifier, value)}, key, kept, stored)
	if err != nil {
		return err
	}
	horizonCell := p.setCell(store.HorizonQualifier(store.DayOfMonth(p.day)), store.HorizonValue(horizon))
	entries = p.j.store.AppendHorizon(entries, horizonCell, horizon, stored.horizon)
	for h := range keyschema.DayHours {
		mark := byte(store.MarkClean)
		if damaged>>h&1 != 0 {
			mark = store.MarkDirty
		} else if stored.dirty>>h&1 == 0 {
			continue
		}
		entries = append(entries, p.setCell(store.MarkQualifier(int(p.qualifier[0]), h), []byte{mark}))
	}
	entries = p.clearTimedMarks(entries, stored.timedMarks)
	return p.write(ctx, storage.RowMutation{Key: key, Entries: entries})
}

func (p *dayPass) setCell(qualifier, value []byte) storage.Entry {
	return storage.Entry{
		Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: store.DayCellMs(p.day), Qualifier: qualifier, Value: value,
	}
}

// removal removes all stored cells of a series and day.
func (p *dayPass) removal(key []byte, stored *storedDay) storage.RowMutation {
	m := storage.RowMutation{Key: key}
	remove := func(qualifier []byte) {
		m.Entries = append(m.Entries, storage.Entry{
			Kind: storage.DeleteCells, Family: storage.FamilyHours, Qualifier: qualifier,
			FromMs: p.day * dayMs, ToMs: (p.day + 1) * dayMs,
		})
	}
	if stored.states != nil {
		remove(p.qualifier)
	}
	if stored.histograms != nil {
		remove(p.histograms.qualifier)
	}
	if stored.horizon != 0 {
		remove(store.HorizonQualifier(store.DayOfMonth(p.day)))
	}
	for marks := stored.marks; marks != 0; marks &= marks - 1 {
		remove(store.MarkQualifier(int(p.qualifier[0]), bits.TrailingZeros32(marks)))
	}
	m.Entries = p.clearTimedMarks(m.Entries, stored.timedMarks)
	return m
}

// clearTimedMarks clears marks of several processes that are old enough.
func (p *dayPass) clearTimedMarks(entries []storage.Entry, marks [][]byte) []storage.Entry {
	cutoffMs, shared := p.j.store.Manifest.CutoffMs()
	for _, q := range marks {
		switch {
		case !shared:
			entries = append(entries, p.setCell(q, []byte{store.MarkClean}))
		case int64(binary.BigEndian.Uint64(q[store.MarkBytes:])) <= cutoffMs:
			entries = append(entries, storage.Entry{Kind: storage.DeleteCells, Family: storage.FamilyHours, Qualifier: q})
		}
	}
	return entries
}

// keepOrphans keeps the stored states of hours whose rows retention has dropped, unless they contain deleted samples. The
// current retention does not show which rows were dropped, because an earlier one may have been shorter. But every other
// removal of a row either marks it as gone or is a deletion.
func (p *dayPass) keepOrphans(states *[keyschema.DayHours]rollup.State, found uint32, key []byte, stored *storedDay) {
	dropped := store.AllHours &^ found &^ stored.gone
	if dropped == 0 {
		return
	}
	p.columns.Reset(p.day*dayMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	_, err := p.decoder.Decode(&p.columns, key, p.qualifier, stored.states, p.day*dayMs, keyschema.DayHours)
	if err != nil {
		p.j.store.ReportCorrupt(key, err)
		return
	}
	for h := range states {
		if dropped>>h&1 == 0 {
			continue
		}
		if orphan := p.columns.State(h); !p.invalidated.Covers(&orphan, stored.horizon) {
			states[h] = orphan
		}
	}
}
