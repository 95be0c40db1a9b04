package pace

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends first it returns the cause.
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

// Repeat calls do at once and then every so often, until ctx ends. Turns that come while do works are left out but for one.
// every is above 0.
func Repeat(ctx context.Context, every time.Duration, do func(ctx context.Context)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}
