package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage/pace"
)

var errEnough = errors.New("enough")

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, pace.Sleep(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		require.ErrorIs(t, pace.Sleep(ctx, time.Hour), errEnough)
		require.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}

// TestRepeat: the first turn is at once, one that takes long delays the next but piles up none, and the end is at once.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var at []time.Duration
		pace.Repeat(ctx, 10*time.Second, func(ctx context.Context) {
			switch at = append(at, time.Since(start)); len(at) {
			case 2:
				require.NoError(t, pace.Sleep(ctx, 35*time.Second))
			case 4:
				time.AfterFunc(time.Second, cancel)
			}
		})
		want := []time.Duration{0, 10 * time.Second, 45 * time.Second, 50 * time.Second}
		require.Equal(t, want, at)
		require.Equal(t, 51*time.Second, time.Since(start))

		pace.Repeat(ctx, time.Second, func(context.Context) { t.Error("a turn after the end") })
	})
}
