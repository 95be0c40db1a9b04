package pebble

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

// TestCancelledFlushesDoNotRefuseWrites: the tree tells of a flush that gave way to an ingestion as of one that failed.
func TestCancelledFlushesDoNotRefuseWrites(t *testing.T) {
	h := newHealth(slog.New(slog.DiscardHandler), time.Now)
	listener := h.listener()
	ended := func(err error) {
		listener.FlushEnd(pebble.FlushInfo{Err: err, Done: true})
		listener.BackgroundError(err)
	}
	ended(fmt.Errorf("flush: %w", pebble.ErrCancelledCompaction))
	require.NoError(t, h.writable())
	require.Zero(t, h.flushFailures.Load())
	ended(errors.New("no space"))
	require.ErrorIs(t, h.writable(), storage.ErrUnavailable)
	listener.FlushEnd(pebble.FlushInfo{Done: true})
	require.NoError(t, h.writable())
}
