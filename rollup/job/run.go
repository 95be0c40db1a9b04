package job

import (
	"context"
	"errors"
	"fmt"

	"halite/rollup/store"
	"halite/storage"
	"halite/storage/periodic"
)

// Start runs the job in the background until Close.
func (j *Job) Start() {
	ctx, stop := context.WithCancel(context.Background())
	j.stop = stop
	j.runs.Go(func() { periodic.Repeat(ctx, j.opts.Interval, j.drain) })
}

// drain calls Step until no work is left.
func (j *Job) drain(ctx context.Context) {
	for ctx.Err() == nil {
		worked, err := j.Step(ctx)
		if err != nil && ctx.Err() == nil {
			j.opts.Logger.Error("computing rollups failed; the next run repeats it", "err", err)
		}
		if err != nil || !worked {
			return
		}
	}
}

// Close stops the background job and waits for it. The next run continues.
func (j *Job) Close() {
	if j.stop != nil {
		j.stop()
		j.runs.Wait()
	}
}

// Step does one piece of work. It closes days that are over. Then it computes one day, one month, or states that
// deletions invalidated. It reports whether it found work.
func (j *Job) Step(ctx context.Context) (worked bool, err error) {
	j.pass.Lock()
	defer j.pass.Unlock()
	defer func() {
		if err != nil {
			j.metrics.failures.Inc()
		}
	}()
	if j.shared != nil {
		if mine, err := j.prepareShared(ctx); err != nil || !mine {
			return false, err
		}
	}
	s, m := j.store, j.store.Manifest
	if view, last := m.View(), s.LastClosed(); last > view.Closed {
		if _, err := s.Plan(ctx, view.Closed+1, last); err != nil {
			return false, err
		}
	}
	if err := m.CloseMonths(ctx); err != nil {
		return false, err
	}
	if day, ok := m.NextDay(j.now(), j.opts.Settle); ok {
		if err := j.computeDay(ctx, day); err != nil {
			if errors.Is(err, storage.ErrCorrupt) {
				m.PostponeDamaged(day, j.now())
			}
			return false, fmt.Errorf("compute the hours of %s: %w", store.DayText(day), err)
		}
		return true, nil
	}
	if j.deletionsDue() {
		return true, j.applyDeletions(ctx, j.opts.Share)
	}
	if month, ok := m.NextMonth(); ok {
		if err := j.computeMonth(ctx, month); err != nil {
			return false, fmt.Errorf("compute the days of %s: %w", store.MonthText(month), err)
		}
		return true, nil
	}
	return false, nil
}
