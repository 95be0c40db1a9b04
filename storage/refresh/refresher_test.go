package refresh

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRefresh checks that each caller sees the state of its call or newer, and that many callers share few reads.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var truth, seen, reads atomic.Int64
		r := Refresher{Timeout: time.Minute, Do: func(context.Context) error {
			reads.Add(1)
			now := truth.Load()
			time.Sleep(time.Millisecond) // until all callers wait
			seen.Store(now)
			return nil
		}}
		var work sync.WaitGroup
		for range 16 {
			work.Go(func() {
				for range 20 {
					mine := truth.Add(1)
					if err := r.Refresh(t.Context()); err != nil || seen.Load() < mine {
						t.Errorf("saw %d, want %d: %v", seen.Load(), mine, err)
					}
				}
			})
		}
		work.Wait()
		require.Less(t, reads.Load(), int64(16*20/4))
	})
}

func TestRefreshFails(t *testing.T) {
	broken := errors.New("broken")
	r := Refresher{Timeout: time.Minute, Do: func(context.Context) error { return broken }}
	require.ErrorIs(t, r.Refresh(t.Context()), broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	block := make(chan struct{})
	stuck := Refresher{Timeout: time.Minute, Do: func(context.Context) error { <-block; return nil }}
	require.ErrorIs(t, stuck.Refresh(ctx), context.Canceled)
	close(block)
}
