package loadtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func postTo(t *testing.T, h http.HandlerFunc, retryFor time.Duration) (outcome, Writes) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	o := Options{RetryFor: retryFor}
	o.setDefaults()
	p := newPoster(&Target{WriteURL: server.URL}, &o)
	got := p.send(t.Context(), &request{body: []byte("x"), marks: make([]mark, 7)}, o.Now())
	return got, p.tally.report(2 * time.Second)
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
	require.Equal(t, acknowledged, got)
	require.GreaterOrEqual(t, time.Since(began), time.Second, "Retry-After was not honoured")
	require.Equal(t, map[string]int64{"503": 1, "429": 1, "204": 1}, w.Statuses)
	require.Equal(t, map[string]int64{"503": 1, "429": 1}, w.Retries)
	require.Equal(t, int64(7), w.Samples)
	require.Equal(t, 3.5, w.SamplesPerSec)
	require.Equal(t, uint64(1), w.Acknowledgement.Count)
	require.GreaterOrEqual(t, w.Acknowledgement.P50Ms, 1000.0, "the latency is that from the first try on")
	require.Equal(t, []string{"503: busy", "429: "}, w.Errors)
	require.NotNil(t, w.Lag)
}

func TestRejectedForGood(t *testing.T) {
	got, w := postTo(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", http.StatusBadRequest) }, time.Minute)
	require.Equal(t, doubtful, got)
	require.Equal(t, int64(7), w.Rejected)
	require.Empty(t, w.Retries)
	require.Zero(t, w.Samples)
}

func TestGivenUp(t *testing.T) {
	got, w := postTo(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		100*time.Millisecond)
	require.Equal(t, doubtful, got)
	require.Equal(t, int64(7), w.Abandoned)
	require.Positive(t, w.Retries["500"])
}

func TestBrokenConnection(t *testing.T) {
	got, w := postTo(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 60*time.Millisecond)
	require.Equal(t, doubtful, got)
	require.Equal(t, int64(7), w.Abandoned)
	require.Positive(t, w.Statuses["no answer"])
}

// TestInterruptedSend: the end of the context stops trying again, and a try under way is finished first.
func TestInterruptedSend(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	o := Options{}
	o.setDefaults()
	p := newPoster(&Target{WriteURL: server.URL}, &o)
	require.Equal(t, doubtful, p.send(ctx, &request{marks: make([]mark, 1)}, time.Time{}))
	require.Equal(t, map[string]int64{"503": 1}, p.tally.report(0).Statuses)
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

func TestParseTarget(t *testing.T) {
	got, err := ParseTarget("name=a b; write=http://h:1/w;query=http://h:1/;pid=12;dir=/d;flush=http://h:1/f;params=nocache=1&x=2")
	require.NoError(t, err)
	require.Equal(t, "a b", got.Name)
	require.Equal(t, "http://h:1", got.QueryURL)
	require.Equal(t, 12, got.PID)
	require.Equal(t, "1", got.Params.Get("nocache"))
	for _, bad := range []string{"", "write=http://h/w", "write=ftp://h;query=http://h", "write=http://h;query=http://h;colour=red",
		"write=http://h;query=http://h;pid=x", "write=http://h;query=http://h;pid=-1"} {
		_, err := ParseTarget(bad)
		require.ErrorIs(t, err, ErrTarget, bad)
	}
}

func TestProgressTexts(t *testing.T) {
	bar := drawBar("load", 25, 100, 10*time.Second, "x")
	require.Contains(t, bar, " 25% ETA 30s  x")
	require.Equal(t, barCells/4, strings.Count(bar, "█"))
	require.Equal(t, "load 25% after 10s, ETA 30s: x", tellLine("load", 25, 100, 10*time.Second, "x"))
	require.Equal(t, "load after 10s: x", tellLine("load", 0, 100, 10*time.Second, "x"))
	require.Equal(t, "1,234,567", grouped(1234567))
	require.Equal(t, "-123", grouped(-123))
	require.Equal(t, "12", grouped(12))
}
