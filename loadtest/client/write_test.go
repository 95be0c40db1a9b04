package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func postTo(t *testing.T, h http.HandlerFunc, retryFor time.Duration) (bool, Writes) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	w := NewWriter(&Target{WriteURL: server.URL}, WriteOptions{RetryFor: retryFor, Timeout: time.Minute, Now: time.Now})
	acknowledged := w.Send(t.Context(), []byte("x"), 7, time.Now())
	return acknowledged, w.Report(2 * time.Second)
}

func TestRetries(t *testing.T) {
	n := 0
	began := time.Now()
	got, w := postTo(t, func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "snappy", r.Header.Get("Content-Encoding"))
		require.Equal(t, "0.1.0", r.Header.Get("X-Prometheus-Remote-Write-Version"))
		switch n++; n {
		case 1:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}, time.Minute)
	require.True(t, got)
	require.GreaterOrEqual(t, time.Since(began), time.Second, "Retry-After was not honoured")
	require.Equal(t, map[string]int64{"503": 1, "429": 1, "204": 1}, w.Statuses)
	require.Equal(t, map[string]int64{"503": 1, "429": 1}, w.Retries)
	require.Equal(t, int64(7), w.Samples)
	require.Equal(t, 3.5, w.SamplesPerSec)
	require.Equal(t, uint64(1), w.Latency.Count)
	require.GreaterOrEqual(t, w.Latency.P50Ms, 1000.0, "the latency begins at the first attempt")
	require.Equal(t, []string{"503: busy", "429: "}, w.Errors)
	require.NotNil(t, w.Lag)
}

func TestRejectedForGood(t *testing.T) {
	got, w := postTo(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", http.StatusBadRequest) }, time.Minute)
	require.False(t, got)
	require.Equal(t, int64(7), w.Rejected)
	require.Empty(t, w.Retries)
	require.Zero(t, w.Samples)
}

func TestAbandoned(t *testing.T) {
	got, w := postTo(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		100*time.Millisecond)
	require.False(t, got)
	require.Equal(t, int64(7), w.Abandoned)
	require.Positive(t, w.Retries["500"])
}

func TestBrokenConnection(t *testing.T) {
	got, w := postTo(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 60*time.Millisecond)
	require.False(t, got)
	require.Equal(t, int64(7), w.Abandoned)
	require.Positive(t, w.Statuses["no response"])
}

// TestInterruptedSend checks that the end of the context stops retries, after the current attempt has finished.
func TestInterruptedSend(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	w := NewWriter(&Target{WriteURL: server.URL}, WriteOptions{RetryFor: time.Minute, Timeout: time.Minute, Now: time.Now})
	require.False(t, w.Send(ctx, nil, 1, time.Time{}))
	require.Equal(t, map[string]int64{"503": 1}, w.Report(0).Statuses)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "-1": 0, "x": 0, "Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0, "999999999": 24 * time.Hour,
	} {
		require.Equal(t, want, retryAfter(text, now), text)
	}
}
