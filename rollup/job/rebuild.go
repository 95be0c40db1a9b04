package job

import (
	"context"
	"errors"

	"halite/rollup/store"
)

// Rebuild computes the days from first to last that have samples again, and their months. Queries use the samples of a
// day until the day is computed.
//
// If several processes share the tables, the process with the lease computes. Rebuild returns when that process is done, after
// more than Shared.Margin. Some process must hold the lease.
func (j *Job) Rebuild(ctx context.Context, first, last int64) error {
	last = min(last, j.store.LastClosed())
	if j.shared != nil {
		return j.rebuildShared(ctx, first, last)
	}
	j.pass.Lock()
	err := j.store.Plan(ctx, max(first, j.store.OldestSampled()), last)
	j.pass.Unlock()
	if err != nil {
		return err
	}
	for {
		worked, err := j.Step(ctx)
		if err != nil || !worked {
			return err
		}
	}
}

// rebuildShared records all days as dirty, as a writer of many late samples does, and waits until a process has computed
// them.
func (j *Job) rebuildShared(ctx context.Context, first, last int64) error {
	days, err := j.store.SampledDays(ctx, max(first, j.store.OldestSampled()), last)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := j.store.Manifest.RecordDirty(ctx, day, store.WorkWhole, j.now()); err != nil {
			return err
		}
	}
	for {
		worked, err := j.Step(ctx)
		switch {
		case errors.Is(err, store.ErrOvertaken) || errors.Is(err, errSlow):
			j.opts.Logger.Info("computing rollups was interrupted; the next run repeats it", "reason", err)
		case err != nil:
			return err
		case worked:
			continue
		}
		if err := j.store.Refresh(ctx); err != nil {
			return err
		}
		pending := j.store.Manifest.View().Pending(days)
		if pending == 0 {
			return nil
		}
		j.opts.Logger.Info("waiting for rollups to be computed", "days_and_months", pending, "by_this_process", j.shared.HoldsLease())
		if err := j.sleep(ctx, j.opts.Interval); err != nil {
			return err
		}
	}
}
