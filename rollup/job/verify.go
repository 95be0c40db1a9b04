package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// Difference is a bucket whose stored state differs from the state of its samples.
type Difference struct {
	// Prefix names the series: its row key without the hour.
	Prefix string
	// Unit and Bucket name the hour or day, since 1970.
	Unit   store.Unit
	Bucket int64
	// Stored is the state that queries use. Computed is the state of the samples of an hour, or of the hours of a day.
	Stored, Computed rollup.State
	// Err is set if the stored cell is damaged, so that queries use the samples, or if native histograms differ.
	Err error
}

// Verification is the result of Verify.
type Verification struct {
	// Hours and Days count the compared buckets. Different counts the different ones.
	Hours, Days, Different int
	// Orphans counts states of hours whose samples retention has dropped.
	Orphans int
	// Missing counts series and days that have samples but no cell. Stale counts hours that are dirty or lost samples
	// by a later deletion. Queries use the samples in both cases.
	Missing, Stale int
	// PendingDays and PendingMonths count days and months that were omitted because their computation is
	// pending.
	PendingDays, PendingMonths int
}

// Verify computes the states of the days from first to last again and compares them with the stored ones, bit by bit. It
// calls report for each difference and stops at an error of report. Samples must not change during the call, unless
// several processes write them.
func (j *Job) Verify(ctx context.Context, first, last int64, report func(Difference) error) (Verification, error) {
	j.pass.Lock()
	defer j.pass.Unlock()
	v := verifier{j: j, report: report}
	defer func() { release(v.view) }()
	if err := v.refresh(ctx); err != nil {
		return Verification{}, err
	}
	err := v.verify(ctx, first, last)
	return v.out, err
}

func (v *verifier) verify(ctx context.Context, first, last int64) error {
	s := v.j.store
	view := s.Manifest.View()
	last = min(last, view.Closed)
	days, err := v.daysWithCells(ctx, max(first, s.OldestSampled()), last)
	if err != nil {
		return err
	}
	lastMonth := min(store.MonthOfDay(last), view.ClosedMonth)
	sampled := map[int64]bool{} // the other months take no time
	for _, day := range days {
		if month := store.MonthOfDay(day); month <= lastMonth {
			sampled[month] = true
		}
	}
	done, total := 0, len(days)+len(sampled)
	v.j.opts.Progress(done, total)
	for _, day := range days {
		if !view.HasHours(day) {
			v.out.PendingDays++
		} else if err := v.verifyDay(ctx, day); err != nil {
			return fmt.Errorf("verify the hours of %s: %w", store.DayText(day), err)
		}
		done++
		v.j.opts.Progress(done, total)
	}
	if last < first {
		return nil
	}
	for month := store.MonthOfDay(max(first, 0)); month <= lastMonth; month++ {
		if !view.HasMonth(month) {
			v.out.PendingMonths++
		} else if err := v.verifyMonth(ctx, month); err != nil {
			return fmt.Errorf("verify the days of %s: %w", store.MonthText(month), err)
		}
		if sampled[month] {
			done++
			v.j.opts.Progress(done, total)
		}
	}
	return nil
}

// daysWithCells lists the days that have samples or states of hours.
func (v *verifier) daysWithCells(ctx context.Context, first, last int64) ([]int64, error) {
	s := v.j.store
	days, err := s.SampledDays(ctx, first, last)
	if err != nil {
		return nil, err
	}
	more, err := store.DaysWith(ctx, s.Table, storage.FamilyHours, first, last)
	days = append(days, more...)
	slices.Sort(days)
	return slices.Compact(days), err
}

type verifier struct {
	j           *Job
	report      func(Difference) error
	out         Verification
	view        *tombstone.View
	invalidated store.Invalidated
	decoder     cell.Decoder
	columns     rollup.Columns
	histograms  cell.HistogramDecoder
}

// verifyDay compares a day's hours with the samples.
func (v *verifier) verifyDay(ctx context.Context, day int64) (err error) {
	states := v.j.scanStored(ctx, day, allRows())
	defer func() { err = errors.Join(err, states.close()) }()
	samples := v.j.scanSamples(ctx, v.view, day, allRows().Ranges)
	defer func() { err = errors.Join(err, samples.close()) }()
	sampled, stored := samples.next(), states.next()
	for sampled != nil || stored != nil {
		if err := errors.Join(samples.it.Err(), states.it.Err(), ctx.Err()); err != nil {
			return err
		}
		switch {
		case stored == nil || sampled != nil && bytes.Compare(sampled.prefix, stored.prefix) < 0:
			v.out.Missing++
			sampled = samples.next()
		case sampled == nil || bytes.Compare(stored.prefix, sampled.prefix) < 0:
			if err := v.verifySeries(ctx, day, &sampledDay{}, stored); err != nil {
				return err
			}
			stored = states.next()
		default:
			if err := v.verifySeries(ctx, day, sampled, stored); err != nil {
				return err
			}
			sampled, stored = samples.next(), states.next()
		}
	}
	return nil
}

// compareHours compares the hours of one series.
func (v *verifier) compareHours(ctx context.Context, day int64, sampled *sampledDay, stored *storedDay) error {
	if stored.states == nil {
		v.out.Missing++
		return nil
	}
	if err := v.invalidated.Seek(ctx, stored.prefix); err != nil {
		return err
	}
	stale := stored.dirty | v.invalidated.Hours(day, stored.horizon)
	key := keyschema.AppendMonthKey(nil, stored.prefix, store.MonthOfDay(day))
	qualifier := store.StatesQualifier(store.DayOfMonth(day))
	v.columns.Reset(day*dayMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	difference := Difference{Prefix: string(stored.prefix), Unit: store.Hours, Bucket: day * keyschema.DayHours}
	_, difference.Err = v.decoder.Decode(&v.columns, key, qualifier, stored.states, day*dayMs, keyschema.DayHours)
	if difference.Err != nil {
		v.out.Different++
		return v.report(difference)
	}
	if stale == 0 {
		if err := v.compareHistograms(day, key, sampled, stored); err != nil {
			return err
		}
	}
	for h := range sampled.states {
		hour := day*keyschema.DayHours + int64(h)
		switch {
		case stale>>h&1 != 0:
			v.out.Stale++
			continue
		case sampled.found>>h&1 == 0 && v.columns.Count[h] > 0:
			v.out.Orphans++
			continue
		}
		v.out.Hours++
		if state := v.columns.State(h); !same(state, sampled.states[h]) {
			v.out.Different++
			difference.Bucket, difference.Stored, difference.Computed = hour, state, sampled.states[h]
			if err := v.report(difference); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyMonth compares a month's days with the hours.
func (v *verifier) verifyMonth(ctx context.Context, month int64) error {
	if v.j.shared != nil {
		return v.verifyMonthShared(ctx, month)
	}
	return v.compareRows(ctx, month, allRows())
}

// compareRows compares the days of some rows.
func (v *verifier) compareRows(ctx context.Context, month int64, set storage.RowSet) error {
	p := v.j.newMonthPass(month, v.view, v.j.opts.Share)
	p.readOnly = true
	return p.scan(ctx, set, func(row storage.Row) (bool, error) { return false, v.compareDays(p, row) })
}

// compareDays compares the days of one series whose hours still exist.
func (v *verifier) compareDays(p *monthPass, row storage.Row) error {
	prefix, _, _ := keyschema.CutMonth(row.Key)
	s := &p.current
	switch {
	case s.damaged != nil:
		v.out.Different++
		return v.report(Difference{Prefix: string(prefix), Unit: store.Days, Bucket: p.firstDay, Err: s.damaged})
	case !s.found:
		v.out.Missing++
		return nil
	}
	for i := range p.days {
		day := p.firstDay + int64(i)
		if (s.hasHours&^s.unknown&^s.outdated)>>i&1 == 0 || p.invalidated.Hours(day, s.horizon) != 0 {
			continue // damaged hours are reported with their day
		}
		v.out.Days++
		if state := p.stored.State(i); !same(state, s.states[i]) {
			v.out.Different++
			d := Difference{Prefix: string(prefix), Unit: store.Days, Bucket: day, Stored: state, Computed: s.states[i]}
			if err := v.report(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// same compares states bit by bit.
func same(a, b rollup.State) bool {
	for _, pair := range [][2]*float64{
		{&a.First, &b.First}, {&a.Last, &b.Last}, {&a.Correction, &b.Correction}, {&a.Sum, &b.Sum}, {&a.SumLow, &b.SumLow},
		{&a.Min, &b.Min}, {&a.Max, &b.Max}, {&a.Mean, &b.Mean}, {&a.M2, &b.M2},
	} {
		if math.Float64bits(*pair[0]) != math.Float64bits(*pair[1]) {
			return false
		}
		*pair[0], *pair[1] = 0, 0 // NaN does not equal itself
	}
	return a == b
}
