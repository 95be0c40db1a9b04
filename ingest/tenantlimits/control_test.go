package tenantlimits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func testTenant() *Tenant {
	return New(Options{SlotsMax: 3, SharedMax: 1, BytesMax: 100, SharedLogBytesMax: 20, Now: time.Now}).ForPrefix("&acme&")
}

// TestShare: a tenant takes at most its slots and its memory, and one slot while others are active.
func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testTenant()
		enter := func(sizeBytes int, shares bool) (Slot, bool) {
			return a.Enter(t.Context(), sizeBytes, time.Second, shares)
		}
		one, ok := enter(10, true)
		require.True(t, ok)
		_, ok = enter(10, true)
		require.False(t, ok, "others are active")
		two, ok := enter(10, false)
		require.True(t, ok)
		_, ok = enter(90, false)
		require.False(t, ok, "too much memory")
		three, ok := enter(80, false)
		require.True(t, ok)
		_, ok = enter(0, false)
		require.False(t, ok, "no slot is left")
		one.Leave()
		one.Done()
		one, ok = enter(10, true)
		require.True(t, ok)
		for _, slot := range []Slot{one, two, three} {
			slot.Leave()
			slot.Done()
		}
		require.Zero(t, a.bytes.Load())
		require.Empty(t, a.slots)
		require.Empty(t, a.shared)
	})
}

// TestShareOfLog: while others are active, a request waits until enough of the tenant's earlier requests are durable.
func TestShareOfLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testTenant()
		enter := func(sizeBytes int, shares bool) (Slot, bool) {
			slot, ok := a.Enter(t.Context(), sizeBytes, time.Second, shares)
			slot.Leave()
			return slot, ok
		}
		first, ok := enter(15, true)
		require.True(t, ok)
		_, ok = enter(6, true)
		require.False(t, ok, "15 of 20 bytes are not durable")
		second, ok := enter(5, true)
		require.True(t, ok)
		_, ok = enter(90, false)
		require.True(t, ok, "no other tenant is active")
		time.AfterFunc(time.Second/2, func() { first.Done(); second.Done() })
		began := time.Now()
		large, ok := enter(90, true)
		require.True(t, ok, "a large request waits for the others")
		require.Equal(t, time.Second/2, time.Since(began))
		_, ok = enter(1, true)
		require.False(t, ok, "a large request is alone")
		large.Done()
		require.True(t, a.undurable.TryAcquire(20))
		require.Zero(t, a.bytes.Load())
		require.Empty(t, a.slots)
		require.Empty(t, a.shared)
	})
}

// TestClose waits for running requests and refuses others.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testTenant()
		slot, ok := a.Enter(t.Context(), 1, time.Second, false)
		require.True(t, ok)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, a.Close(ctx), context.DeadlineExceeded)
		_, ok = a.Enter(t.Context(), 1, time.Second, false)
		require.False(t, ok)
		time.AfterFunc(time.Minute, slot.Leave)
		began := time.Now()
		require.NoError(t, a.Close(t.Context()))
		require.Equal(t, time.Minute, time.Since(began))

		var none *Tenant
		slot, ok = none.Enter(t.Context(), 1, time.Second, true)
		require.True(t, ok)
		slot.Leave()
	})
}
