package job

import (
	"context"
	"fmt"

	"halite/storage/tombstone"
)

// deletionView returns the deletions that the states of a pass will reflect; nil if nothing can be deleted. All of them
// are durable, so no state reflects a deletion that a crash can undo. Every running query sees them. The caller
// releases the view.
func (j *Job) deletionView(ctx context.Context) (*tombstone.View, error) {
	set := j.store.Options().Deletions
	if set == nil {
		return nil, nil
	}
	if j.shared != nil {
		return j.store.SettledDeletions(), nil
	}
	view, err := set.Stable(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for deletions: %w", err)
	}
	if last := view.LastID(); last > j.durableHorizon {
		// Their numbers must stay reserved even if the log, which also records them, is lost.
		if err = set.Save(ctx); err == nil {
			err = j.store.Options().Tables.Sync(ctx)
		}
		if err != nil {
			view.Release()
			return nil, fmt.Errorf("store deletions: %w", err)
		}
		j.durableHorizon = last
	}
	return view, nil
}

func release(view *tombstone.View) {
	if view != nil {
		view.Release()
	}
}
