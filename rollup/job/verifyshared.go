package job

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"halite/keyschema"
	"halite/rollup/store"
	"halite/storage"
)

// verifyTriesMax bounds how often Verify reads a series that changes.
const verifyTriesMax = 4

// refresh takes a new snapshot of the deletions. A single process waits until older snapshots are released.
func (v *verifier) refresh(ctx context.Context) (err error) {
	j := v.j
	release(v.view)
	v.view = nil
	if j.shared == nil {
		v.view, err = j.deletionView(ctx)
	} else if err = errors.Join(j.shared.Fresh(ctx), j.store.Refresh(ctx)); err == nil && j.store.Options().Deletions != nil {
		v.view = j.store.Options().Deletions.View()
	}
	v.invalidated = store.NewInvalidated(v.view)
	return err
}

// differs runs a comparison and returns whether it found a difference. It does not report or count the difference.
func (v *verifier) differs(compare func() error) (differs bool, err error) {
	report, out := v.report, v.out
	v.report = func(Difference) error {
		differs = true
		return nil
	}
	err = compare()
	v.report = report
	if differs {
		v.out = out
	}
	return differs, err
}

// verifySeries compares the hours of one series. If several processes write, a write between the reads of samples and states
// may make them differ. Then it compares the series again.
func (v *verifier) verifySeries(ctx context.Context, day int64, sampled *sampledDay, stored *storedDay) error {
	if v.j.shared == nil {
		return v.compareHours(ctx, day, sampled, stored)
	}
	differs, err := v.differs(func() error { return v.compareHours(ctx, day, sampled, stored) })
	if err != nil || !differs {
		return err
	}
	return v.compareAgain(ctx, day, bytes.Clone(stored.prefix))
}

// compareAgain compares the hours of one series with samples that it reads between two equal reads of the states. A
// writer marks states before it changes their samples.
func (v *verifier) compareAgain(ctx context.Context, day int64, prefix []byte) error {
	for range verifyTriesMax {
		before, err := v.readStored(ctx, day, prefix)
		if err != nil {
			return err
		}
		if err := v.refresh(ctx); err != nil {
			return err
		}
		sampled, err := v.readSampled(ctx, day, prefix)
		if err != nil {
			return err
		}
		after, err := v.readStored(ctx, day, prefix)
		if err == nil {
			err = v.j.store.Refresh(ctx)
		}
		if err != nil {
			return err
		}
		if !v.j.store.Manifest.View().HasHours(day) {
			break
		}
		if before.horizon == after.horizon && before.dirty == after.dirty && bytes.Equal(before.states, after.states) &&
			bytes.Equal(before.histograms, after.histograms) {
			return v.compareHours(ctx, day, sampled, after)
		}
	}
	v.out.Stale++ // queries use the samples
	return nil
}

// readStored reads the stored states of one series and day.
func (v *verifier) readStored(ctx context.Context, day int64, prefix []byte) (stored *storedDay, err error) {
	scan := v.j.scanStored(ctx, day, storage.RowSet{Keys: [][]byte{keyschema.AppendMonthKey(nil, prefix, store.MonthOfDay(day))}})
	defer func() { err = errors.Join(err, scan.close()) }()
	stored = &storedDay{prefix: prefix}
	if found := scan.next(); found != nil {
		*stored = *found
		stored.prefix, stored.states, stored.histograms = prefix, bytes.Clone(found.states), bytes.Clone(found.histograms)
	}
	return stored, nil
}

// readSampled computes the hours of one series and day.
func (v *verifier) readSampled(ctx context.Context, day int64, prefix []byte) (sampled *sampledDay, err error) {
	var r storage.RowRange
	r.Start, r.End = keyschema.SeriesRange(prefix, day*keyschema.DayHours, day*keyschema.DayHours+keyschema.DayHours-1)
	scan := v.j.scanSamples(ctx, v.view, day, []storage.RowRange{r})
	defer func() { err = errors.Join(err, scan.close()) }()
	sampled = &sampledDay{}
	if found := scan.next(); found != nil {
		*sampled = *found
	}
	return sampled, nil
}

// verifyMonthShared compares a month's days with the hours, which are in one row. If rows differ, it compares them again.
// Its copy of the manifest shows which days are valid, and the copy may have been older than the rows.
func (v *verifier) verifyMonthShared(ctx context.Context, month int64) error {
	var suspects [][]byte
	p := v.j.newMonthPass(month, v.view, v.j.opts.Share)
	p.readOnly = true
	err := p.scan(ctx, allRows(), func(row storage.Row) (bool, error) {
		differs, err := v.differs(func() error { return v.compareDays(p, row) })
		if differs {
			suspects = append(suspects, bytes.Clone(row.Key))
		}
		return false, err
	})
	if err != nil || len(suspects) == 0 {
		return err
	}
	for keys := range slices.Chunk(suspects, dirtySeriesMax) {
		pending, err := v.compareRowsAgain(ctx, month, keys)
		if err != nil {
			return err
		}
		if pending {
			v.out.PendingMonths++
			return nil
		}
	}
	return nil
}

// compareRowsAgain compares the days of some rows. It reports whether the computation of the month has become pending.
// Then it ignores the differences.
func (v *verifier) compareRowsAgain(ctx context.Context, month int64, keys [][]byte) (pending bool, err error) {
	if err := v.refresh(ctx); err != nil {
		return false, err
	}
	manifest := v.j.store.Manifest
	if !manifest.View().HasMonth(month) {
		return true, nil
	}
	var found []Difference
	report, out := v.report, v.out
	v.report = func(d Difference) error {
		found = append(found, d)
		return nil
	}
	err = errors.Join(v.compareRows(ctx, month, storage.RowSet{Keys: keys}), v.j.store.Refresh(ctx))
	v.report = report
	if err != nil {
		return false, err
	}
	if !manifest.View().HasMonth(month) {
		v.out = out
		return true, nil
	}
	for _, d := range found {
		if err := report(d); err != nil {
			return false, err
		}
	}
	return false, nil
}
