package periodic_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage/periodic"
)

var errEnough = errors.New("enough")

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, periodic.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		require.ErrorIs(t, periodic.Sleep(ctx, time.Hour), errEnough)
		require.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}

// TestRepeat checks that the first call is immediate, that a slow call delays the next but queues only one, and that the
// end of the context ends the loop at once.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var at []time.Duration
		periodic.Repeat(ctx, 10*time.Second, func(ctx context.Context) {
			switch at = append(at, time.Since(start)); len(at) {
			case 2:
				require.NoError(t, periodic.Sleep(ctx, 35*time.Second))
			case 4:
				time.AfterFunc(time.Second, cancel)
			}
		})
		want := []time.Duration{0, 10 * time.Second, 45 * time.Second, 50 * time.Second}
		require.Equal(t, want, at)
		require.Equal(t, 51*time.Second, time.Since(start))

		periodic.Repeat(ctx, time.Second, func(context.Context) { t.Error("a call after the end") })
	})
}

// TestJobs checks the first run, wake-ups, and that Wait returns after Stop.
func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var jobs periodic.Jobs
		wake := make(chan struct{}, 1)
		var later, now []time.Duration
		jobs.Add(10*time.Second, wake, func(context.Context) { later = append(later, time.Since(start)) })
		jobs.AddNow(15*time.Second, func(context.Context) { now = append(now, time.Since(start)) })
		time.Sleep(4 * time.Second)
		wake <- struct{}{}
		time.Sleep(18 * time.Second)
		jobs.Stop()
		jobs.Wait()
		require.Equal(t, []time.Duration{4 * time.Second, 10 * time.Second, 20 * time.Second}, later)
		require.Equal(t, []time.Duration{0, 15 * time.Second}, now)
		wake <- struct{}{}
		synctest.Wait()
		require.Len(t, later, 3, "no run after Stop")
		new(periodic.Jobs).Wait()
	})
}
