package main_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heat returns the total of a heat map of the last six hours.
func (s *server) heat(metric string) (sum float64) {
	code, a := s.get("/api/v1/keyviz/heatmap", url.Values{"metric": {metric}})
	require.Equal(s.t, 200, code, a.Error)
	var data struct{ RowTotals []float64 }
	require.NoError(s.t, json.Unmarshal(a.Data, &data))
	for _, n := range data.RowTotals {
		sum += n
	}
	return sum
}

// TestKeyviz: the heat map counts accepted samples and flushed rows, and survives a restart.
func TestKeyviz(t *testing.T) {
	dir := t.TempDir()
	flags := []string{"--web.enable-admin-api", "--no-web.self-scrape"}
	s := startServer(t, dir, flags...)
	now := time.Now()
	points := wave("keyviz_metric", 20, now.Add(-3*time.Hour), now, time.Minute)
	s.write(points)
	samples := s.heat("write_cells")
	require.InDelta(t, 20*180, samples, 40)
	require.NoError(t, s.end(syscall.SIGTERM))
	s = startServer(t, dir, flags...)
	require.InEpsilon(t, samples, s.heat("write_cells"), 1e-6)
	require.GreaterOrEqual(t, s.heat("write_rows"), 60.0, "the stop has flushed the head")
	require.NoError(t, s.end(syscall.SIGTERM))

	s = startServer(t, dir, "--keyviz.max-memory=0")
	code, a := s.get("/api/v1/keyviz/heatmap", nil)
	require.Equal(t, 503, code)
	require.Contains(t, a.Error, "--keyviz.max-memory")
}

// TestKeyvizCompare compares the keys of a metric with its keys under other rules and under a layout.
func TestKeyvizCompare(t *testing.T) {
	dir := t.TempDir()
	s := startServer(t, dir, "--no-web.self-scrape")
	now := time.Now()
	s.write(wave("keyviz_metric", 60, now.Add(-30*time.Minute), now, time.Minute))
	file := filepath.Join(dir, "rules.yml")
	require.NoError(t, os.WriteFile(file, []byte("schema_rules:\n  - pattern: keyviz_*\n    salts: 1\n"), 0o600))
	out, err := tsdb(t, "keyviz", "compare", "--url", s.url, "--rules", file, "--name", "keyviz_metric")
	require.NoError(t, err, out)
	require.Contains(t, out, " sampled keys. Load of the hottest of 16 ranges")
	out, err = tsdb(t, "keyviz", "compare", "--url", s.url, "--layout", "static-key", "--output", "json")
	require.NoError(t, err, out)
	require.Contains(t, out, `"maxOverMean": 16`)
	out, err = tsdb(t, "keyviz", "compare", "--url", s.url)
	require.Error(t, err)
	require.Contains(t, out, "exactly one of --rules and --layout")
	require.NoError(t, s.end(syscall.SIGTERM))
}
