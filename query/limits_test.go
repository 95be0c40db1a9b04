package query

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/require"
)

// TestLimitsAreNamed: a message says which limit it was, its value and what to do.
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
	require.ErrorContains(t, err, "none of 1 places (query.max-concurrency) became free within 1ms (query.queue-wait)")
	e.gate.queued.Add(1)
	_, err = e.Instant(t.Context(), InstantRequest{Query: "m"})
	requireType(t, err, ErrorUnavailable)
	require.ErrorContains(t, err, "(query.max-queue)")
	e.gate.queued.Add(-1)
	close(w.open)
	require.NoError(t, <-first)
}
