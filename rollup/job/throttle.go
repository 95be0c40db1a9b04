package job

import (
	"context"
	"time"
)

// throttle keeps a pass within its share of a core.
type throttle struct {
	j     *Job
	since time.Time // of the work since the last sleep
	share float64
	calls int
}

const (
	throttleCalls = 16
	throttleBurst = 5 * time.Millisecond
)

// pace sleeps if the pass has worked for a while. It fails once the context has ended.
func (t *throttle) pace(ctx context.Context) error {
	if t.calls++; t.calls%throttleCalls != 0 {
		return nil
	}
	if time.Since(t.since) >= throttleBurst {
		t.sleep(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sleep sleeps in proportion to the work since the last sleep, or until the context ends.
func (t *throttle) sleep(ctx context.Context) {
	busy := time.Since(t.since)
	t.j.metrics.busySeconds.Add(busy.Seconds())
	if t.share < 1 {
		_ = t.j.sleep(ctx, time.Duration(float64(busy)*(1/t.share-1)))
	}
	t.since = time.Now()
}
