package tiers

import (
	"context"
	"errors"

	"halite/storage"
)

// rebuildShared leaves notes of all days, as a writer of very many late samples does, and waits until they are computed, by this
// process or by another one.
func (t *Tiers) rebuildShared(ctx context.Context, first, last int64) error {
	days, err := daysWith(ctx, t.data, storage.FamilySamples, max(first, t.oldest()), last)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := t.ledger.shared.note(ctx, day, workWhole, t.opts.Now(), 0); err != nil {
			return err
		}
	}
	for {
		worked, err := t.Step(ctx)
		switch {
		case errors.Is(err, errOvertaken) || errors.Is(err, errSlow):
			t.opts.Logger.Info("computing rollups was cut off; it is repeated", "why", err)
		case err != nil:
			return err
		case worked:
			continue
		}
		if err := t.Refresh(ctx); err != nil {
			return err
		}
		left := t.ledger.view().left(days)
		if left == 0 {
			return nil
		}
		t.opts.Logger.Info("waiting for rollups to be computed", "days_and_months", left, "by_this_process", t.opts.Shared.Turn())
		if err := t.wait(ctx, t.opts.Interval); err != nil {
			return err
		}
	}
}

// left counts those of the days that have no valid state, and of their closed months.
func (r *record) left(days []int64) (left int) {
	months := map[int64]bool{}
	for _, day := range days {
		if day > r.Closed || r.Days[day] == workWhole {
			left++
		}
		months[MonthOfDay(day)] = true
	}
	for month := range months {
		if r.Months[month] && month <= r.ClosedMonth {
			left++
		}
	}
	return left
}

// reset replaces a ledger that may be damaged by one that says that no day is computed, but that there may be states: deletions
// are not forgotten before these are as of them. Whoever computes is overtaken.
func (s *sharedLedger) reset(ctx context.Context) error {
	stored, err := s.l.read(ctx, true)
	if err != nil {
		return err
	}
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.token, s.l.record = stored.token, record{}
	return s.l.save(ctx)
}
