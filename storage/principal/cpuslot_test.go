package principal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCPUSlots: while another tenant is active, the requests of a tenant hold at most its share of CPU slots, in order
// of arrival. A request that ends while it waits acquires no slot, and a long request lets other requests go first.
func TestCPUSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		activity := NewActivity(time.Now, 2)
		request := func(tenant string) *Principal { return activity.For(&Principal{Tenants: []string{tenant}}) }
		alone, err := request("a").AcquireCPU(t.Context())
		require.NoError(t, err)
		require.Nil(t, alone)
		require.NoError(t, alone.Yield(t.Context()))
		alone.Release()
		request("b")

		var began []int
		begin := func(ctx context.Context, n int) *CPUSlot {
			slot, err := request("a").AcquireCPU(ctx)
			if err == nil {
				began = append(began, n)
			}
			return slot
		}
		one, two := begin(t.Context(), 1), begin(t.Context(), 2)
		gone, leave := context.WithCancel(t.Context())
		for n := 3; n < 7; n++ {
			ctx := t.Context()
			if n == 4 {
				ctx = gone
			}
			go begin(ctx, n)
			synctest.Wait()
		}
		require.Equal(t, []int{1, 2}, began)
		b, err := request("b").AcquireCPU(t.Context())
		require.NoError(t, err)
		require.NotNil(t, b, "the other tenant has slots of its own")
		leave()
		one.Release()
		one.Release() // has no effect
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, began)

		require.NoError(t, two.Yield(t.Context()))
		require.Equal(t, []int{1, 2, 3}, began, "it has just begun")
		time.Sleep(timeSlice)
		yielded := make(chan error, 1)
		go func() { yielded <- two.Yield(t.Context()) }()
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5}, began)
		require.Empty(t, yielded, "it waits for the next slot")
		for range 3 { // of 3 or 5, then 6
			activity.release("a")
		}
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5, 6}, began)
		require.NoError(t, <-yielded)
		two.Release()
		b.Release()
		require.Empty(t, activity.shares, "nothing is left")
	})
}
