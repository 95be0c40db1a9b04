package tiers

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
	"halite/storage"
	"halite/storage/tombstone"
)

// Difference is a bucket whose stored state is not that of its samples.
type Difference struct {
	// Prefix names the series: its row key without the hour.
	Prefix string
	// Unit and Bucket name the hour or day, since 1970.
	Unit   Unit
	Bucket int64
	// Stored is what readers get, Computed what the samples (of an hour) or the hours (of a day) say.
	Stored, Computed rollup.State
	// Err is set if the stored cell is damaged; readers take the samples then.
	Err error
}

// Verification is the outcome of Verify.
type Verification struct {
	// Hours and Days are the buckets compared, Different those that differ.
	Hours, Days, Different int
	// Alone are states of hours whose samples are gone: taken by retention, perhaps by a shorter age than that of now.
	Alone int
	// Missing series and days have samples but no cell; Stale hours have a mark, or samples that were deleted since. Readers
	// take the samples.
	Missing, Stale int
	// PendingDays and PendingMonths were left out, because they are yet to be computed.
	PendingDays, PendingMonths int
}

// Verify computes the states of the days from first to last once more and compares them with what is stored, bit by bit.
// Each bucket that differs is reported; an error of report ends it. Samples must not change meanwhile, unless several processes
// write them.
func (t *Tiers) Verify(ctx context.Context, first, last int64, report func(Difference) error) (Verification, error) {
	t.passing.Lock()
	defer t.passing.Unlock()
	v := verifier{t: t, report: report}
	defer func() { release(v.view) }()
	if err := v.renew(ctx); err != nil {
		return Verification{}, err
	}
	ctx = reading(ctx, v.view)
	view := t.ledger.view()
	last = min(last, view.Closed)
	days, err := t.daysToVerify(ctx, max(first, t.oldest()), last)
	if err != nil {
		return v.out, err
	}
	for _, day := range days {
		if !view.hasHours(day) {
			v.out.PendingDays++
			continue
		}
		if err := v.verifyDay(ctx, day); err != nil {
			return v.out, fmt.Errorf("verify the hours of %s: %w", dayText(day), err)
		}
	}
	if last < first {
		return v.out, nil
	}
	for month := MonthOfDay(max(first, 0)); month <= min(MonthOfDay(last), view.ClosedMonth); month++ {
		if !view.hasMonth(month) {
			v.out.PendingMonths++
			continue
		}
		if err := v.verifyMonth(ctx, month); err != nil {
			return v.out, fmt.Errorf("verify the days of %s: %w", dayText(MonthStart(month))[:7], err)
		}
	}
	return v.out, nil
}

// daysToVerify lists the days that have samples or states.
func (t *Tiers) daysToVerify(ctx context.Context, first, last int64) ([]int64, error) {
	days, err := daysWith(ctx, t.data, storage.FamilySamples, first, last)
	if err != nil {
		return nil, err
	}
	more, err := daysWith(ctx, t.table, storage.FamilyHours, first, last)
	days = append(days, more...)
	slices.Sort(days)
	return slices.Compact(days), err
}

type verifier struct {
	t       *Tiers
	report  func(Difference) error
	out     Verification
	view    *tombstone.View
	void    void
	decoder cell.Decoder
	columns rollup.Columns
}

// verifyDay compares a day's hours with the samples.
func (v *verifier) verifyDay(ctx context.Context, day int64) (err error) {
	old := v.t.scanOld(ctx, day, everything())
	defer func() { err = errors.Join(err, old.close()) }()
	raw := v.t.scanRaw(ctx, day, everything().Ranges)
	defer func() { err = errors.Join(err, raw.close()) }()
	var empty rawDay
	r, o := raw.next(), old.next()
	for r != nil || o != nil {
		if err := errors.Join(raw.it.Err(), old.it.Err(), ctx.Err()); err != nil {
			return err
		}
		switch {
		case o == nil || r != nil && bytes.Compare(r.prefix, o.prefix) < 0:
			v.out.Missing++
			r = raw.next()
		case r == nil || bytes.Compare(o.prefix, r.prefix) < 0:
			if err := v.compare(ctx, day, &empty, o); err != nil {
				return err
			}
			o = old.next()
		default:
			if err := v.compare(ctx, day, r, o); err != nil {
				return err
			}
			r, o = raw.next(), old.next()
		}
	}
	return nil
}

// verifySeries compares the hours of one series.
func (v *verifier) verifySeries(ctx context.Context, day int64, raw *rawDay, old *oldDay) error {
	if old.states == nil {
		v.out.Missing++
		return nil
	}
	if err := v.void.series(ctx, old.prefix); err != nil {
		return err
	}
	stale := old.stale | v.void.hours(day, old.asOf)
	key := appendKey(nil, old.prefix, MonthOfDay(day))
	qualifier := statesQualifier(dayOfMonth(day))
	v.columns.Reset(day*dayMs, keyschema.HourMs, keyschema.DayHours, rollup.FieldsAll)
	difference := Difference{Prefix: string(old.prefix), Unit: Hours, Bucket: day * keyschema.DayHours}
	_, difference.Err = v.decoder.Decode(&v.columns, key, qualifier, old.states, day*dayMs, keyschema.DayHours)
	if difference.Err != nil {
		v.out.Different++
		return v.report(difference)
	}
	for h := range raw.states {
		hour := day*keyschema.DayHours + int64(h)
		switch {
		case stale>>h&1 != 0:
			v.out.Stale++
			continue
		case raw.found>>h&1 == 0 && v.columns.Count[h] > 0:
			v.out.Alone++
			continue
		}
		v.out.Hours++
		if stored := v.columns.State(h); !same(stored, raw.states[h]) {
			v.out.Different++
			difference.Bucket, difference.Stored, difference.Computed = hour, stored, raw.states[h]
			if err := v.report(difference); err != nil {
				return err
			}
		}
	}
	return nil
}

// verifyMonth compares a month's days with the hours.
func (v *verifier) verifyMonth(ctx context.Context, month int64) error {
	if v.t.opts.Shared != nil {
		return v.compareMonth(ctx, month)
	}
	return v.verifyRows(ctx, month, everything())
}

// verifyRows compares the days of some rows.
func (v *verifier) verifyRows(ctx context.Context, month int64, set storage.RowSet) error {
	p := v.t.newMonthPass(month, v.view)
	p.reads = true
	return p.run(ctx, set, func(row storage.Row) (bool, error) { return false, v.verifyDays(p, row) })
}

// verifyDays compares the days of one series whose hours are still there.
func (v *verifier) verifyDays(p *monthPass, row storage.Row) error {
	prefix, _, _ := parseKey(row.Key)
	first, s := MonthStart(p.month), &p.stored
	switch {
	case s.damaged != nil:
		v.out.Different++
		return v.report(Difference{Prefix: string(prefix), Unit: Days, Bucket: first, Err: s.damaged})
	case !s.found:
		v.out.Missing++
		return nil
	}
	for i := range p.days {
		day := first + int64(i)
		if (s.have&^s.unknown&^s.behind)>>i&1 == 0 || p.void.hours(day, s.asOf) != 0 {
			continue // damaged ones are named with the hours
		}
		v.out.Days++
		if stored := p.former.State(i); !same(stored, s.states[i]) {
			v.out.Different++
			d := Difference{Prefix: string(prefix), Unit: Days, Bucket: day, Stored: stored, Computed: s.states[i]}
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
		*pair[0], *pair[1] = 0, 0 // NaN is not equal to itself
	}
	return a == b
}

// Rebuild computes the days from first to last that have samples once more, and the months they lie in. Until a day is
// done, readers take its samples.
//
// Of several processes one computes, perhaps another one: Rebuild returns when it has done so, which takes longer than
// Shared.Margin. If nobody else has the turn it has to be this process's.
func (t *Tiers) Rebuild(ctx context.Context, first, last int64) error {
	last = min(last, t.lastClosed())
	if t.opts.Shared != nil {
		return t.rebuildShared(ctx, first, last)
	}
	t.passing.Lock()
	err := t.plan(ctx, max(first, t.oldest()), last)
	t.passing.Unlock()
	if err != nil {
		return err
	}
	for {
		worked, err := t.Step(ctx)
		if err != nil || !worked {
			return err
		}
	}
}

// CheckCell verifies that a cell of TableRollup is one of its row. It passes marks, which hold no states.
func CheckCell(row []byte, stored *storage.Cell) error {
	_, month, ok := parseKey(row)
	if !ok {
		return fmt.Errorf("%w: table %s has row %q", storage.ErrCorrupt, storage.TableRollup, row)
	}
	q := stored.Qualifier
	if len(q) == 0 || q[len(q)-1] != kindStates {
		return nil
	}
	first, unitMs, n := MonthStart(month), int64(dayMs), int(MonthStart(month+1)-MonthStart(month))
	if stored.Family == storage.FamilyHours {
		first, unitMs, n = stored.TsMs/dayMs, keyschema.HourMs, keyschema.DayHours
	}
	var decoder cell.Decoder
	var c rollup.Columns
	c.Reset(first*dayMs, unitMs, n, rollup.FieldsAll)
	if _, err := decoder.Decode(&c, row, q, stored.Value, first*dayMs, n); err != nil {
		return fmt.Errorf("%w: table %s, row %q: %w", storage.ErrCorrupt, storage.TableRollup, row, err)
	}
	return nil
}
