package tiers

import (
	"context"
	"fmt"
	"math"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/tombstone"
)

// stable takes the deletions that a pass computes states as of; nil if nothing can be deleted. All of them are durable, so
// that no state is as of one that never was, and no reader is left who would have to see samples as of before. Release it.
func (t *Tiers) stable(ctx context.Context) (*tombstone.View, error) {
	set := t.opts.Deletions
	if set == nil {
		return nil, nil
	}
	if t.opts.Shared != nil {
		return t.settled(), nil
	}
	view, err := set.Stable(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for deletions: %w", err)
	}
	if last := view.LastID(); last > t.noted {
		// Their numbers must be taken even if the log, which has them, is given up.
		if err = set.Save(ctx); err == nil {
			err = t.opts.Store.Sync(ctx)
		}
		if err != nil {
			view.Release()
			return nil, fmt.Errorf("note deletions: %w", err)
		}
		t.noted = last
	}
	return view, nil
}

func release(view *tombstone.View) {
	if view != nil {
		view.Release()
	}
}

// reading makes reads of samples see them as of a view.
func reading(ctx context.Context, view *tombstone.View) context.Context {
	if view == nil {
		return ctx
	}
	return view.Context(ctx)
}

// waiting lists the deletions that states may not be as of yet.
func (t *Tiers) waiting() []*tombstone.Tombstone {
	if t.opts.Deletions == nil {
		return nil
	}
	view := t.opts.Deletions.View()
	defer view.Release()
	return after(view.List(), t.ledger.view().Deleted)
}

// after leaves out those with ids up to one.
func after(list []*tombstone.Tombstone, id uint64) []*tombstone.Tombstone {
	for len(list) > 0 && list[0].ID <= id {
		list = list[1:]
	}
	return list
}

// deletionsDue tells whether there are deletions to compute states as of, and no more have come for a while.
func (t *Tiers) deletionsDue() bool {
	if t.opts.Shared != nil {
		return t.settledDue()
	}
	list := t.waiting()
	if len(list) == 0 {
		return false
	}
	now := t.opts.Now()
	since := func(d *tombstone.Tombstone) time.Duration { return now.Sub(time.UnixMilli(d.MadeMs)) }
	return since(list[len(list)-1]) >= t.opts.Settle || since(list[0]) >= 12*t.opts.Settle
}

// ApplyDeletions computes the states of deleted samples anew, or removes them where no samples are left: of all deletions
// before the call, durably. They need not be remembered for the sake of states any more. One of several processes does what it
// may; see Applied.
func (t *Tiers) ApplyDeletions(ctx context.Context) error {
	t.passing.Lock()
	defer t.passing.Unlock()
	if t.opts.Shared != nil {
		if mine, err := t.begin(ctx); err != nil || !mine || !t.settledDue() {
			return err
		}
	} else if len(t.waiting()) == 0 {
		return nil
	}
	return t.computeDeleted(ctx, 1)
}

// computeDeleted computes all states of samples that were deleted.
func (t *Tiers) computeDeleted(ctx context.Context, share float64) error {
	began := t.opts.Now()
	view, err := t.stable(ctx)
	if err != nil {
		return err
	}
	defer release(view)
	list := after(view.List(), t.ledger.applied())
	if len(list) == 0 {
		return nil
	}
	defer t.metrics.passSeries.Set(0)
	p := deletionPass{t: t, view: view, share: share, rows: rowsOf(list)}
	p.first, p.last = math.MaxInt64, 0
	for _, d := range list {
		p.first, p.last = min(p.first, floorDay(d.FromMs)), max(p.last, floorDay(d.ToMs))
	}
	if err := p.run(ctx); err != nil {
		return err
	}
	if err := t.ledger.deleted(ctx, view.LastID()); err != nil {
		return err
	}
	t.metrics.passes.WithLabelValues(passDeletions).Inc()
	t.opts.Logger.Info("rollups of deleted samples computed", "deletions", len(list), "series", p.series,
		"after", t.opts.Now().Sub(began).Round(time.Millisecond))
	return nil
}

// rowsOf are the ranges of rows that deletions may concern, in the table of states as in that of samples.
func rowsOf(list []*tombstone.Tombstone) storage.RowSet {
	var set storage.RowSet
	seen := map[string]bool{}
	for _, d := range list {
		metrics, ok := tombstone.Metrics(d.Selectors)
		if !ok {
			return everything()
		}
		for _, metric := range metrics {
			if seen[metric] {
				continue
			}
			seen[metric] = true
			var r storage.RowRange
			r.Start, r.End = keyschema.MetricRows(metric)
			set.Ranges = append(set.Ranges, r)
		}
	}
	return set
}

// deletionPass computes states as of a view.
type deletionPass struct {
	t           *Tiers
	view        *tombstone.View
	share       float64
	rows        storage.RowSet
	first, last int64 // days
	series      int
}

func (p *deletionPass) run(ctx context.Context) error {
	t := p.t
	days, err := daysWith(ctx, t.table, storage.FamilyHours, max(p.first, t.oldestKept()), min(p.last, t.ledger.view().Closed))
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := p.day(ctx, day); err != nil {
			return fmt.Errorf("compute the hours of %s as of deletions: %w", dayText(day), err)
		}
	}
	// Days of a month rest at its end.
	first, end := MonthStart(MonthOfDay(p.first)), MonthStart(MonthOfDay(p.last)+1)
	if days, err = daysWith(ctx, t.table, storage.FamilyDays, first, end-1); err != nil {
		return err
	}
	for _, day := range days {
		if err := p.month(ctx, MonthOfDay(day)); err != nil {
			return fmt.Errorf("compute the days of %s as of deletions: %w", dayText(day)[:7], err)
		}
	}
	return nil
}

// day computes the hours of a day, until none was left out because samples came meanwhile.
func (p *deletionPass) day(ctx context.Context, day int64) error {
	for {
		l := p.t.ledger
		l.start(day)
		d, ctx := p.t.newDayPass(ctx, day, p.view)
		d.pace.share = p.share
		err := d.part(ctx, p.rows)
		if err == nil {
			err = d.flush(ctx)
		}
		l.end()
		p.series += d.series
		if err != nil || !d.dropped {
			return err
		}
	}
}

// month computes the days of a month.
func (p *deletionPass) month(ctx context.Context, month int64) error {
	m := p.t.newMonthPass(month, p.view)
	m.pace.share = p.share
	first := MonthStart(month)
	err := m.run(reading(ctx, p.view), p.rows, func(storage.Row) (bool, error) {
		return m.stored.found && m.void.last(first, first+int64(m.days)-1) > m.stored.asOf, nil
	})
	p.series += m.series
	return err
}

// oldestKept is the first day that can have states of hours.
func (t *Tiers) oldestKept() int64 {
	if t.opts.Hours == 0 {
		return 0
	}
	return max(0, floorDay(t.opts.Now().Add(-t.opts.Hours).UnixMilli()))
}
