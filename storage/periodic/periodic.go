package periodic

import (
	"context"
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

// Repeat calls do at once and then once per interval, until ctx ends. If do takes longer than the interval, Repeat skips
// the missed calls but one. interval must be above 0.
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
