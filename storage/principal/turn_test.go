package principal

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTurns: while another tenant is active, the requests of a tenant hold as many turns as it may have, in their order. One that
// ends meanwhile takes none, and a long one lets the others go first.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		activity := NewActivity(time.Now, 2)
		ask := func(tenant string) *Principal { return activity.Of(&Principal{Tenants: []string{tenant}}) }
		alone, err := ask("a").BeginTurn(t.Context())
		require.NoError(t, err)
		require.Nil(t, alone)
		require.NoError(t, alone.Yield(t.Context()))
		alone.Pause()
		ask("b")

		var began []int
		begin := func(ctx context.Context, n int) *Turn {
			turn, err := ask("a").BeginTurn(ctx)
			if err == nil {
				began = append(began, n)
			}
			return turn
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
		b, err := ask("b").BeginTurn(t.Context())
		require.NoError(t, err)
		require.NotNil(t, b, "the other tenant has turns of its own")
		leave()
		one.Pause()
		one.Pause() // has no effect
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3}, began)

		require.NoError(t, two.Yield(t.Context()))
		require.Equal(t, []int{1, 2, 3}, began, "it has just begun")
		time.Sleep(turnTime)
		yielded := make(chan error, 1)
		go func() { yielded <- two.Yield(t.Context()) }()
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5}, began)
		require.Empty(t, yielded, "it waits for the next turn")
		for range 3 { // of 3 or 5, then 6
			activity.leave("a")
		}
		synctest.Wait()
		require.Equal(t, []int{1, 2, 3, 5, 6}, began)
		require.NoError(t, <-yielded)
		two.Pause()
		b.Pause()
		require.Empty(t, activity.shares, "nothing is left")
	})
}
