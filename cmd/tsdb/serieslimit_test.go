package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bomb makes n series of a metric that nobody has sent, with the given number first.
func bomb(metric string, from, n int, tsMs int64) []point {
	points := make([]point, 0, n)
	for i := from; i < from+n; i++ {
		points = append(points, point{metric, fmt.Sprintf("bomb-%d", i), tsMs, 1})
	}
	return points
}

func (s *server) seriesLimits() (status struct {
	Series, MemoryBytes struct{ Used, Warn, Max int64 }
	Metrics, Refused    []struct {
		Metric string
		Max    int64
	}
}) {
	s.t.Helper()
	code, a := s.get("/api/v1/status/limits", nil)
	require.Equal(s.t, http.StatusOK, code)
	require.NoError(s.t, json.Unmarshal(a.Data, &status))
	return status
}

// TestCardinalityBomb sends ten times as many new series as the limit allows: they are refused with 400 and the reason, while
// old series of the same requests are stored, before and after a kill.
func TestCardinalityBomb(t *testing.T) {
	t.Parallel()
	const limit, batch, known = 20_000, 4_000, 100
	dir, now := t.TempDir(), time.Now()
	flags := []string{"--no-web.self-scrape", "--ingest.max-series", fmt.Sprint(limit), "--log.level=warn"}
	s := startServer(t, dir, flags...)
	s.write(wave("known", known, now, now.Add(time.Millisecond), time.Second))
	stored, refused := 0, 0
	send := func(n int) {
		at := now.Add(time.Duration(n) * time.Millisecond)
		points := bomb("bomb", n*batch, batch, at.UnixMilli())
		points = append(points, wave("known", known, at, at.Add(time.Millisecond), time.Second)...)
		code, text, _ := s.post("/api/v1/write", encodeWrite(points))
		taken := len(points)
		if code != http.StatusNoContent {
			rejected := 0
			_, err := fmt.Sscan(text, &rejected)
			require.NoError(t, err, text)
			taken -= rejected
		}
		require.GreaterOrEqual(t, taken, known)
		stored, refused = stored+taken-known, refused+len(points)-taken
		if taken == len(points) {
			require.Equal(t, http.StatusNoContent, code, text)
			return
		}
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, text, "series_limit: the limit of 20000 active series is reached")
		require.Contains(t, text, "first: series bomb{")
	}
	for n := range 50 {
		send(n + 1)
	}
	require.Equal(t, limit-known, stored)
	require.Equal(t, 50*batch-stored, refused)

	require.Error(t, s.end(syscall.SIGKILL))
	s = startServer(t, dir, flags...)
	require.Equal(t, int64(limit), s.seriesLimits().Series.Used, "as many series are active after the replay")
	send(60)
	require.Equal(t, limit-known, stored)
	got := s.series("known", now.Add(time.Second), "1h")
	require.Len(t, got, known)
	require.Len(t, got["host-7"], 52)
	_, a := s.get("/api/v1/query", url.Values{"query": {"count({__name__=~'known|bomb'})"}})
	require.Contains(t, string(a.Data), `"20000"`)
	status := s.seriesLimits()
	require.Equal(t, "bomb", status.Refused[0].Metric)
	require.LessOrEqual(t, strings.Count(s.log.String(), "refusing new series"), 2)
}

// TestSeriesLimitsOfRules limits one metric by a rule.
func TestSeriesLimitsOfRules(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(rules, []byte(`limits: {series_per_metric: [{pattern: pod_*, max: 50, warn: 0.5}]}`), 0o600))
	dir, now := t.TempDir(), time.Now().UnixMilli()
	s := startServer(t, dir, "--no-web.self-scrape", "--config.file", rules, "--web.enable-lifecycle")
	code, text, _ := s.post("/api/v1/write", encodeWrite(append(bomb("pod_info", 0, 80, now), bomb("other", 0, 80, now)...)))
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, `metric pod_info has reached its limit of 50 active series, set by the rule with the pattern "pod_*"`)
	status := s.seriesLimits()
	require.Equal(t, "pod_info", status.Metrics[0].Metric)
	require.Equal(t, int64(50), status.Metrics[0].Max)

	later := []byte(`limits: {series_per_metric: [{pattern: pod_*, max: 80, enforce: false}]}`)
	require.NoError(t, os.WriteFile(rules, later, 0o600))
	code, text, _ = s.post("/-/reload", nil)
	require.Equal(t, http.StatusOK, code, text)
	s.write(bomb("pod_info", 0, 100, now))
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	for _, want := range []string{
		`tsdb_ingest_rejected_total{reason="metric_series_limit"} 30`,
		`tsdb_ingest_series_limit_dry_run_total{limit="metric"} 20`,
		`tsdb_ingest_series_limit_warnings{limit="metric"} 1`,
	} {
		require.Contains(t, string(metrics), want)
	}
	require.NotContains(t, string(metrics), "pod_info", "metrics of the server do not grow with names that senders choose")
	require.NoError(t, s.end(syscall.SIGTERM))
}

// TestLabelLimitFlags: the server refuses to start with limits that the store cannot hold.
func TestLabelLimitFlags(t *testing.T) {
	out, err := command(t, "serve", "--storage.path", t.TempDir(), "--ingest.max-metric-name-bytes=1025",
		"--ingest.max-label-set-bytes=0").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--ingest.max-metric-name-bytes is 1025: the store holds at most 1024")
	require.Contains(t, string(out), "--ingest.max-label-set-bytes must be above 0")
}
