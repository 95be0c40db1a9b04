package main_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTabletMetrics: every table has its figures, and rows that reach the tables show in them.
func TestTabletMetrics(t *testing.T) {
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-admin-api")
	metrics := func() string {
		resp, err := http.Get(s.url + "/metrics")
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	before := metrics()
	require.Contains(t, before, "\ntsdb_table_list_failures_total 0\n")
	for _, table := range []string{"data", "series", "labels", "meta"} {
		require.Contains(t, before, "\ntsdb_table_tablets{table=\""+table+"\"} 1\n")
	}
	require.Contains(t, before, "\ntsdb_table_hottest_tablet_share{table=\"data\"} 0\n")
	now := time.Now()
	s.write(wave("tablet_metric", 20, now.Add(-3*time.Hour), now.Add(-2*time.Hour), time.Minute))
	s.flush()
	require.Eventually(t, func() bool {
		text := metrics()
		return strings.Contains(text, "\ntsdb_table_hottest_tablet_share{table=\"data\"} 1\n") &&
			!strings.Contains(text, "\ntsdb_table_size_bytes{table=\"data\"} 0\n")
	}, time.Minute, 50*time.Millisecond)
}
