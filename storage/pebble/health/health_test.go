package health

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

// TestCancelledFlushesDoNotRefuseWrites: for the tree, a flush that an ingestion cancels is a failed flush. It must not stop
// writes.
func TestCancelledFlushesDoNotRefuseWrites(t *testing.T) {
	h := New(slog.New(slog.DiscardHandler), time.Now)
	listener := h.Listener()
	ended := func(err error) {
		listener.FlushEnd(pebble.FlushInfo{Err: err, Done: true})
		listener.BackgroundError(err)
	}
	ended(fmt.Errorf("flush: %w", pebble.ErrCancelledCompaction))
	require.NoError(t, h.Writable())
	require.Zero(t, h.FlushFailures.Load())
	ended(errors.New("no space"))
	require.ErrorIs(t, h.Writable(), storage.ErrUnavailable)
	listener.FlushEnd(pebble.FlushInfo{Done: true})
	require.NoError(t, h.Writable())
}
