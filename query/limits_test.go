package query

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
)

// TestLimitsAreNamed: a message names the limit, its value and the remedy.
func TestLimitsAreNamed(t *testing.T) {
	store := promqltest.LoadedStorage(t, load)
	e := newEngine(t, store, func(o *Options) { o.SamplesMax = 3 })
	_, err := e.Range(t.Context(), RangeRequest{Query: "m", Start: time.Unix(0, 0), End: time.Unix(600, 0), Step: time.Minute})
	requireType(t, err, ErrorExecution)
	require.ErrorContains(t, err, "too many samples")
	require.ErrorContains(t, err, "it may hold 3 (query.max-samples): select fewer series")

	e = newEngine(t, newWaiting(), func(o *Options) { o.Timeout = time.Millisecond })
	_, err = e.Instant(t.Context(), InstantRequest{Query: "m"})
	requireType(t, err, ErrorTimeout)
	require.ErrorContains(t, err, "1ms (query.timeout")
	require.Regexp(t, "^query timed out in ", err.Error())

	w := newWaiting()
	e = newEngine(t, w, func(o *Options) { o.ConcurrencyMax, o.QueueWait, o.QueueMax = 1, time.Millisecond, 1 })
	first := make(chan error)
	go func() {
		_, err := e.Instant(t.Context(), InstantRequest{Query: "m"})
		first <- err
	}()
	<-w.entered
	_, err = e.Instant(t.Context(), InstantRequest{Query: "m"})
	requireType(t, err, ErrorUnavailable)
	require.ErrorContains(t, err, "none of 1 slots for cheap queries (query.max-concurrency) became free within 1ms "+
		"(query.queue-wait)")
	waiting, err := e.slots.enqueue(cheap, nil)
	require.NoError(t, err)
	_, err = e.Instant(t.Context(), InstantRequest{Query: "m"})
	requireType(t, err, ErrorUnavailable)
	require.ErrorContains(t, err, "(query.max-queue)")
	require.True(t, e.slots.dequeue(waiting))
	close(w.open)
	require.NoError(t, <-first)
}

// TestTimeoutsReadAlike: each timeout has a message that begins with Prometheus's words. A limit that was reached
// before the timeout is reported as such.
func TestTimeoutsReadAlike(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	e := classify(ctx, fmt.Errorf("read rows: %w", context.DeadlineExceeded))
	require.Equal(t, ErrorTimeout, e.Type)
	require.Equal(t, "query timed out in expression evaluation: read rows: context deadline exceeded", e.Error())
	require.ErrorIs(t, e, context.DeadlineExceeded)
	require.Equal(t, "query timed out in here", classify(ctx, promql.ErrQueryTimeout("here")).Error())
	require.Equal(t, ErrorExecution, classify(ctx, promql.ErrTooManySamples("here")).Type)
}
