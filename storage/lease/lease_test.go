package lease

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
)

// TestOneHolds runs processes that take, release and die at random. Two processes never hold a lease at a time, and
// after a TTL one must hold it.
func TestOneHolds(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	meta, err := storagetest.NewModel(clock).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	until := map[int]time.Time{}
	leases := map[int]*Lease{}
	fresh := 0
	start := func() int {
		fresh++
		l, err := New(Options{Meta: meta, Name: "work", Holder: fmt.Sprint("p", fresh), TTL: time.Minute, Now: clock})
		require.NoError(t, err)
		leases[fresh] = l
		return fresh
	}
	live := []int{start(), start(), start()}
	holds := 0
	for step := range 2000 {
		at := rng.IntN(len(live))
		n := live[at]
		switch rng.IntN(12) {
		case 0:
			require.NoError(t, leases[n].Release(t.Context()))
			delete(until, n)
		case 1:
			live[at] = start() // the previous process died; it holds its lease until the end
		case 2:
			now = now.Add(time.Duration(rng.IntN(90)) * time.Second)
		default:
			held, err := leases[n].Hold(t.Context())
			require.NoError(t, err)
			delete(until, n)
			if held {
				until[n] = now.Add(time.Minute)
				holds++
			}
		}
		holders := 0
		for _, end := range until {
			if end.After(now) {
				holders++
			}
		}
		require.LessOrEqual(t, holders, 1, "step %d", step)
	}
	require.Greater(t, holds, 200)
	now = now.Add(2 * time.Minute)
	held, err := leases[live[0]].Hold(t.Context())
	require.NoError(t, err)
	require.True(t, held)
}

// TestKeeper checks that one keeper holds the lease until it releases it or misses a renewal. An outage ends no lease.
func TestKeeper(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	meta, err := storagetest.NewModel(clock).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	keeper := func(holder string) *Keeper {
		k, err := NewKeeper(Options{Meta: meta, Name: "work", Holder: holder, TTL: time.Minute, Now: clock}, nil)
		require.NoError(t, err)
		return k
	}
	renew := func(k *Keeper, want bool) {
		t.Helper()
		held, err := k.Renew(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, held)
		require.Equal(t, want, k.Held())
	}
	a, b := keeper("a"), keeper("b")
	require.False(t, a.Held())
	renew(a, true)
	renew(b, false)
	now = now.Add(40 * time.Second)
	a.lease.opts.Meta = outage{meta}
	_, err = a.Renew(t.Context())
	require.ErrorIs(t, err, storage.ErrUnavailable)
	a.lease.opts.Meta = meta
	require.True(t, a.Held())
	now = now.Add(21 * time.Second)
	require.False(t, a.Held(), "its time is over")
	renew(b, true)
	renew(a, false)
	require.NoError(t, a.Close(t.Context()), "what is not ours is left alone")
	renew(b, true)
	require.NoError(t, b.Close(t.Context()))
	require.False(t, b.Held())
	renew(a, true)
	a.Start()
	require.NoError(t, a.Close(t.Context()))
	renew(b, true)
}

// TestClockSetBack: a lease that its dead holder took before the clock was set back does not last for hours.
func TestClockSetBack(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	meta, err := storagetest.NewModel(clock).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	keeper := func(holder string) *Keeper {
		k, err := NewKeeper(Options{Meta: meta, Name: "work", Holder: holder, TTL: time.Minute, Now: clock}, nil)
		require.NoError(t, err)
		return k
	}
	renew := func(k *Keeper) bool {
		t.Helper()
		held, err := k.Renew(t.Context())
		require.NoError(t, err)
		require.Equal(t, held, k.Held())
		return held
	}
	a, b := keeper("a"), keeper("b")
	require.True(t, renew(a))
	now = now.Add(-skewMax)
	require.False(t, renew(b), "the clock of the holder may be fast")
	now = now.Add(-time.Hour)
	require.False(t, a.Held())
	require.True(t, renew(b))
	require.False(t, renew(a))
}

// outage is a table whose writes fail.
type outage struct{ storage.Table }

func (outage) CheckAndApply(
	context.Context, []byte, storage.Filter, storage.RowMutation, storage.RowMutation,
) (bool, error) {
	return false, storage.ErrUnavailable
}

func TestBadOptions(t *testing.T) {
	_, err := New(Options{Name: "x", Holder: "y"})
	require.Error(t, err)
}
