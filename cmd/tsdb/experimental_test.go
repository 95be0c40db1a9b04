package main_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestExperimental: features that Prometheus has behind flags are behind one flag here, and look-ups of features say
// so.
func TestExperimental(t *testing.T) {
	params := url.Values{"query": {`limitk(1, label_replace(vector(1), "a", "b", "", ""))`}, "time": {"1700000000"}}
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	status, a := s.get("/api/v1/query", params)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, a.Error, "limitk() is experimental")
	s = startServer(t, t.TempDir(), "--no-web.self-scrape", "--query.experimental")
	status, a = s.get("/api/v1/query", params)
	require.Equal(t, http.StatusOK, status, a.Error)
	for _, expr := range []string{"info(vector(1))", "vector(1) + fill(0) vector(2)", "rate(up[5m] anchored)", "up smoothed"} {
		status, a = s.get("/api/v1/query", url.Values{"query": {expr}})
		require.Equal(t, http.StatusOK, status, "%s: %s", expr, a.Error)
	}
}
