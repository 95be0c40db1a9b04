package partition

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/storage/pebble/cellkey"
)

// TestViewWaits starts reads during a swap. Only a read of the same partition waits.
func TestViewWaits(t *testing.T) {
	db, err := pebble.Open("/data", &pebble.Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	var swaps SwapGate
	at, other := cellkey.NewHeader(1, 1, 7), cellkey.NewHeader(1, 1, 8)
	only := func(want cellkey.Header) func(cellkey.Header) bool {
		return func(h cellkey.Header) bool { return h == want }
	}
	var views int
	view := func(h cellkey.Header) {
		it, err := swaps.NewView(db, only(h))
		require.NoError(t, err)
		require.NoError(t, it.Close())
		views++
	}
	waiting := make(chan struct{})
	over := false
	failed := errors.New("as the tree says")
	err = swaps.Swap(at, func() error {
		view(other)
		go func() {
			defer close(waiting)
			it, err := swaps.NewView(db, only(at))
			if err == nil {
				err = it.Close()
			}
			if err != nil || !over {
				t.Errorf("over %t, error %v", over, err)
			}
		}()
		view(other)
		over = true // before the swap releases its lock, and so before the reader continues
		return failed
	})
	require.ErrorIs(t, err, failed)
	<-waiting
	view(at)
	require.Equal(t, 3, views)
}
