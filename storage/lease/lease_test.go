package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/storagetest"
)

// TestOneHolds: of several processes that hold, release and die at random, never two hold a lease at a time, and somebody
// does once a TTL has passed.
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
			live[at] = start() // the former one died; what it held it holds until the end
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

func TestBadOptions(t *testing.T) {
	_, err := New(Options{Name: "x", Holder: "y"})
	require.Error(t, err)
}
