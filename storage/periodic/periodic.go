package periodic

import (
	"context"
	"sync"
	"time"
)

// Sleep waits for d. It returns the cause of ctx if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Repeat calls do at once and then once per interval, until ctx ends. If do takes longer than the interval, Repeat makes
// one call for all missed ones. interval must be above 0.
func Repeat(ctx context.Context, interval time.Duration, do func(ctx context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Jobs are goroutines that run functions periodically. The zero value has none.
type Jobs struct {
	once    sync.Once
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Add runs do in a goroutine after each interval and each value from wake, until Stop. wake may be nil. interval must be
// above 0. The caller does not call Add after Stop.
func (j *Jobs) Add(interval time.Duration, wake <-chan struct{}, do func(ctx context.Context)) {
	j.init()
	j.running.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-j.ctx.Done():
				return
			case <-ticker.C:
			case <-wake:
			}
			if j.ctx.Err() != nil {
				return
			}
			do(j.ctx)
		}
	})
}

// AddNow is Add without wake. The first run is at once.
func (j *Jobs) AddNow(interval time.Duration, do func(ctx context.Context)) {
	j.init()
	j.running.Go(func() { Repeat(j.ctx, interval, do) })
}

// Stop ends the context of all jobs.
func (j *Jobs) Stop() {
	j.init()
	j.cancel()
}

// Wait waits until all jobs have returned after Stop.
func (j *Jobs) Wait() { j.running.Wait() }

func (j *Jobs) init() {
	j.once.Do(func() { j.ctx, j.cancel = context.WithCancel(context.Background()) })
}
