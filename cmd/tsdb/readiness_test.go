package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/ingest"
)

// TestGateTellsReplayProgress: while the server replays its log, /-/ready answers 503 with the progress.
func TestGateTellsReplayProgress(t *testing.T) {
	g := newGate()
	get := func() (int, string) {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/-/ready", nil))
		return w.Code, w.Body.String()
	}
	code, body := get()
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "the server is starting: it replays its log\n", body)
	g.replaying(ingest.ReplayProgress{Bytes: 300 << 20, TotalBytes: 400 << 20, Series: 7, Samples: 8})
	code, body = get()
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "the server is starting: it has replayed 75 % of its log (300 of 400 MiB; 7 series, 8 samples)\n", body)
	g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	code, _ = get()
	require.Equal(t, http.StatusOK, code)
}
