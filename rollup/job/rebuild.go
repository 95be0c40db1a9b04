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
	days, err := j.plan(ctx, first, last)
	if err != nil {
		return err
	}
	total := j.store.Manifest.View().Pending(days)
	j.opts.Progress(0, total)
	for {
		worked, err := j.Step(ctx)
		if err != nil || !worked {
			return err
		}
		j.opts.Progress(total-j.store.Manifest.View().Pending(days), total)
	}
}

// plan is [store.Store.Plan] while no pass runs.
func (j *Job) plan(ctx context.Context, first, last int64) ([]int64, error) {
	j.pass.Lock()
	defer j.pass.Unlock()
	return j.store.Plan(ctx, first, last)
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
	total := j.store.Manifest.View().Pending(days)
	j.opts.Progress(0, total)
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
		j.opts.Progress(max(0, total-pending), total)
		if pending == 0 {
			return nil
		}
		j.opts.Logger.Info("waiting for rollups to be computed", "days_and_months", pending, "by_this_process", j.shared.HoldsLease())
		if err := j.sleep(ctx, j.opts.Interval); err != nil {
			return err
		}
	}
}
