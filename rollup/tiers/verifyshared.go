package tiers

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"halite/keyschema"
	"halite/storage"
)

// verifyTriesMax bounds how often a series is read anew because it changes.
const verifyTriesMax = 4

// renew takes the deletions as they are now. Those of one process are waited for.
func (v *verifier) renew(ctx context.Context) (err error) {
	t := v.t
	release(v.view)
	v.view = nil
	switch {
	case t.opts.Shared == nil:
		v.view, err = t.stable(ctx)
	default:
		if err = errors.Join(t.opts.Shared.Fresh(ctx), t.Refresh(ctx)); err == nil && t.opts.Deletions != nil {
			v.view = t.opts.Deletions.View()
		}
	}
	v.void = newVoid(v.view)
	return err
}

// quietly runs what compares, and reports whether it found a difference instead of reporting that. Then it counts nothing.
func (v *verifier) quietly(compare func() error) (differ bool, err error) {
	report, out := v.report, v.out
	v.report = func(Difference) error {
		differ = true
		return nil
	}
	err = compare()
	v.report = report
	if differ {
		v.out = out
	}
	return differ, err
}

// compare is verifySeries. Where several processes write, samples and states that were read one after the other may differ
// because of what was written in between; then the series is looked at once more.
func (v *verifier) compare(ctx context.Context, day int64, raw *rawDay, old *oldDay) error {
	if v.t.opts.Shared == nil {
		return v.verifySeries(ctx, day, raw, old)
	}
	differ, err := v.quietly(func() error { return v.verifySeries(ctx, day, raw, old) })
	if err != nil || !differ {
		return err
	}
	return v.again(ctx, day, bytes.Clone(old.prefix))
}

// again compares the hours of one series with samples that were read between two looks at its states, which found the same:
// whoever changes samples has marked the states before.
func (v *verifier) again(ctx context.Context, day int64, prefix []byte) error {
	for range verifyTriesMax {
		before, err := v.oldOne(ctx, day, prefix)
		if err != nil {
			return err
		}
		if err := v.renew(ctx); err != nil {
			return err
		}
		raw, err := v.rawOne(reading(ctx, v.view), day, prefix)
		if err != nil {
			return err
		}
		after, err := v.oldOne(ctx, day, prefix)
		if err == nil {
			err = v.t.Refresh(ctx)
		}
		if err != nil {
			return err
		}
		if !v.t.ledger.view().hasHours(day) {
			break
		}
		if before.asOf == after.asOf && before.stale == after.stale && bytes.Equal(before.states, after.states) {
			return v.verifySeries(ctx, day, raw, after)
		}
	}
	v.out.Stale++ // readers take the samples
	return nil
}

// oldOne reads what is stored of one series and day.
func (v *verifier) oldOne(ctx context.Context, day int64, prefix []byte) (old *oldDay, err error) {
	scan := v.t.scanOld(ctx, day, storage.RowSet{Keys: [][]byte{appendKey(nil, prefix, MonthOfDay(day))}})
	defer func() { err = errors.Join(err, scan.close()) }()
	old = &oldDay{prefix: prefix}
	if found := scan.next(); found != nil {
		*old = *found
		old.prefix, old.states = prefix, bytes.Clone(found.states)
	}
	return old, nil
}

// rawOne computes the hours of one series and day.
func (v *verifier) rawOne(ctx context.Context, day int64, prefix []byte) (raw *rawDay, err error) {
	var r storage.RowRange
	r.Start, r.End = keyschema.SeriesRange(prefix, day*keyschema.DayHours, day*keyschema.DayHours+keyschema.DayHours-1)
	scan := v.t.scanRaw(ctx, day, []storage.RowRange{r})
	defer func() { err = errors.Join(err, scan.close()) }()
	raw = &rawDay{}
	if found := scan.next(); found != nil {
		*raw = *found
	}
	return raw, nil
}

// compareMonth compares a month's days with the hours, which are in one row. Rows that differ are looked at again: the ledger,
// which says whether the days are valid, may have been older.
func (v *verifier) compareMonth(ctx context.Context, month int64) error {
	var suspects [][]byte
	p := v.t.newMonthPass(month, v.view)
	p.reads = true
	err := p.run(ctx, everything(), func(row storage.Row) (bool, error) {
		differ, err := v.quietly(func() error { return v.verifyDays(p, row) })
		if differ {
			suspects = append(suspects, bytes.Clone(row.Key))
		}
		return false, err
	})
	if err != nil || len(suspects) == 0 {
		return err
	}
	for some := range slices.Chunk(suspects, partSeries) {
		if err := v.renew(ctx); err != nil {
			return err
		}
		if !v.t.ledger.view().hasMonth(month) {
			v.out.PendingMonths++
			return nil
		}
		var found []Difference
		report, out := v.report, v.out
		v.report = func(d Difference) error {
			found = append(found, d)
			return nil
		}
		err := errors.Join(v.verifyRows(ctx, month, storage.RowSet{Keys: some}), v.t.Refresh(ctx))
		v.report = report
		if err != nil {
			return err
		}
		if !v.t.ledger.view().hasMonth(month) {
			v.out = out
			v.out.PendingMonths++
			return nil
		}
		for _, d := range found {
			if err := report(d); err != nil {
				return err
			}
		}
	}
	return nil
}
