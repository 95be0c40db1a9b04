package job

import (
	"context"

	"halite/rollup/store"
)

// prepareShared prepares one of several processes for a piece of work. It reports whether this process holds the lease.
func (j *Job) prepareShared(ctx context.Context) (mine bool, err error) {
	if !j.shared.HoldsLease() {
		return false, nil
	}
	m := j.store.Manifest
	if err := m.Reload(ctx, j.now().Add(-j.shared.Margin).UnixMilli()); err != nil {
		return false, err
	}
	if err := m.TakeOver(ctx, j.tick); err != nil {
		return false, err
	}
	return true, j.shared.Fresh(ctx)
}

// settledDeletionsDue reports whether states must reflect more settled deletions, and no other process writes states
// any more.
func (j *Job) settledDeletionsDue() bool {
	m := j.store.Manifest
	if j.store.Options().Deletions == nil || j.tick().Sub(m.TookOver()) < 2*j.shared.Limit() {
		return false
	}
	view := j.store.SettledDeletions()
	defer view.Release()
	return len(store.DeletionsAfter(view.List(), m.DeletionHorizon())) > 0
}
