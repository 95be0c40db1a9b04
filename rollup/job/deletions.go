package job

import (
	"context"
	"fmt"
	"math"
	"time"

	"halite/keyschema"
	"halite/rollup/store"
	"halite/storage"
	"halite/storage/tombstone"
)

// deletionsDue reports whether to apply the pending deletions now. It waits until the last one is older than Settle, at
// most twelve times as long after the first one.
func (j *Job) deletionsDue() bool {
	if j.shared != nil {
		return j.settledDeletionsDue()
	}
	list := j.store.PendingDeletions()
	if len(list) == 0 {
		return false
	}
	now := j.now()
	age := func(d *tombstone.Tombstone) time.Duration { return now.Sub(time.UnixMilli(d.MadeMs)) }
	return age(list[len(list)-1]) >= j.opts.Settle || age(list[0]) >= 12*j.opts.Settle
}

// ApplyDeletions computes again the states that deletions invalidated, or removes them where no samples are left. When it
// returns, stored states durably reflect all deletions made before the call, so the caller may drop these deletions. If
// several processes share the tables, see [store.Store.DeletionHorizon].
func (j *Job) ApplyDeletions(ctx context.Context) error {
	j.pass.Lock()
	defer j.pass.Unlock()
	if j.shared != nil {
		if mine, err := j.prepareShared(ctx); err != nil || !mine || !j.settledDeletionsDue() {
			return err
		}
	} else if len(j.store.PendingDeletions()) == 0 {
		return nil
	}
	return j.applyDeletions(ctx, 1)
}

// applyDeletions makes all states reflect the pending deletions.
func (j *Job) applyDeletions(ctx context.Context, share float64) error {
	began := j.now()
	view, err := j.deletionView(ctx)
	if err != nil {
		return err
	}
	defer release(view)
	list := store.DeletionsAfter(view.List(), j.store.Manifest.DeletionHorizon())
	if len(list) == 0 {
		return nil
	}
	defer j.metrics.passSeries.Set(0)
	p := deletionPass{j: j, view: view, share: share, rows: rowsOf(list)}
	p.first, p.last = math.MaxInt64, 0
	for _, d := range list {
		p.first, p.last = min(p.first, store.DayOf(d.FromMs)), max(p.last, store.DayOf(d.ToMs))
	}
	if err := p.compute(ctx); err != nil {
		return err
	}
	if err := j.store.Manifest.SetDeletionHorizon(ctx, view.LastID()); err != nil {
		return err
	}
	j.metrics.passes.WithLabelValues(passDeletions).Inc()
	j.opts.Logger.Info("applied deletions to rollups", "deletions", len(list), "series", p.series,
		"duration", j.now().Sub(began).Round(time.Millisecond))
	return nil
}

// rowsOf returns the ranges of rows that deletions may touch. They are the same in the tables of states and samples.
func rowsOf(list []*tombstone.Tombstone) storage.RowSet {
	var set storage.RowSet
	seen := map[string]bool{}
	for _, d := range list {
		metrics, tenants, ok := tombstone.Names(d.Selectors)
		if !ok {
			return allRows()
		}
		add := func(start, end []byte) {
			if !seen[string(start)] {
				seen[string(start)] = true
				set.Ranges = append(set.Ranges, storage.RowRange{Start: start, End: end})
			}
		}
		for _, metric := range metrics {
			add(keyschema.MetricRows(metric))
		}
		for _, tenant := range tenants {
			add(keyschema.TenantRows(tenant))
		}
	}
	return set
}

// deletionPass makes states reflect the deletions of a view.
type deletionPass struct {
	j           *Job
	view        *tombstone.View
	share       float64
	rows        storage.RowSet
	first, last int64 // first and last day
	series      int
}

func (p *deletionPass) compute(ctx context.Context) error {
	s := p.j.store
	days, err := store.DaysWith(ctx, s.Table, storage.FamilyHours, max(p.first, s.OldestHourly()),
		min(p.last, s.Manifest.View().Closed))
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := p.computeDay(ctx, day); err != nil {
			return fmt.Errorf("apply deletions to the hours of %s: %w", store.DayText(day), err)
		}
	}
	// The cell of a month's days has the time of the month's end.
	first, end := store.MonthStart(store.MonthOfDay(p.first)), store.MonthStart(store.MonthOfDay(p.last)+1)
	if days, err = store.DaysWith(ctx, s.Table, storage.FamilyDays, first, end-1); err != nil {
		return err
	}
	for _, day := range days {
		month := store.MonthOfDay(day)
		if err := p.computeMonth(ctx, month); err != nil {
			return fmt.Errorf("apply deletions to the days of %s: %w", store.MonthText(month), err)
		}
	}
	return nil
}

// computeDay computes the hours of a day. It repeats the computation until it omits no series because
// of new samples.
func (p *deletionPass) computeDay(ctx context.Context, day int64) error {
	for {
		manifest := p.j.store.Manifest
		manifest.BeginDeletionPass(day)
		d := p.j.newDayPass(day, p.view, p.share)
		err := d.computeDirty(ctx, p.rows)
		if err == nil {
			err = d.flush(ctx)
		}
		manifest.EndPass()
		p.series += d.series
		if err != nil || !d.dropped {
			return err
		}
	}
}

// computeMonth computes the days of a month.
func (p *deletionPass) computeMonth(ctx context.Context, month int64) error {
	m := p.j.newMonthPass(month, p.view, p.share)
	err := m.scan(ctx, p.rows, func(storage.Row) (bool, error) {
		last := m.invalidated.LastDeletion(m.firstDay, m.firstDay+int64(m.days)-1)
		return m.current.found && last > m.current.horizon, nil
	})
	p.series += m.series
	return err
}
