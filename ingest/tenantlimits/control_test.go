package tenantlimits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func testTenant() *Tenant {
	return New(Options{SlotsMax: 3, SharedMax: 1, BytesMax: 100, Now: time.Now}).Of("&acme&")
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
		one, ok = enter(10, true)
		require.True(t, ok)
		for _, slot := range []Slot{one, two, three} {
			slot.Leave()
		}
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
