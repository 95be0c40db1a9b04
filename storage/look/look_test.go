package look

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestJoin: whoever joins gets what was true when it called, or later; many at once cost few looks.
func TestJoin(t *testing.T) {
	var truth, seen, looks atomic.Int64
	l := Looks{Timeout: time.Minute, Do: func(context.Context) error {
		looks.Add(1)
		now := truth.Load()
		time.Sleep(time.Millisecond)
		seen.Store(now)
		return nil
	}}
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			for range 20 {
				mine := truth.Add(1)
				if err := l.Join(t.Context()); err != nil || seen.Load() < mine {
					t.Errorf("saw %d, want %d: %v", seen.Load(), mine, err)
				}
			}
		})
	}
	work.Wait()
	require.Less(t, looks.Load(), int64(16*20/4))
}

func TestJoinFails(t *testing.T) {
	broken := errors.New("broken")
	l := Looks{Timeout: time.Minute, Do: func(context.Context) error { return broken }}
	require.ErrorIs(t, l.Join(t.Context()), broken)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	block := make(chan struct{})
	stuck := Looks{Timeout: time.Minute, Do: func(context.Context) error { <-block; return nil }}
	require.ErrorIs(t, stuck.Join(gone), context.Canceled)
	close(block)
}
