package main_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited is a server with a configuration file that changes.
type limited struct {
	*server
	file string
}

func (s *limited) put(text string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.file, []byte(text), 0o600))
	code, response, _ := s.post("/-/reload", nil)
	require.Equal(s.t, http.StatusOK, code, response)
}

func (s *limited) status(path string, data any) {
	s.t.Helper()
	code, a := s.get("/api/v1/status/"+path, nil)
	require.Equal(s.t, http.StatusOK, code)
	require.NoError(s.t, json.Unmarshal(a.Data, data))
}

func startLimited(t *testing.T) *limited {
	file := filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	return &limited{startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-lifecycle", "--config.file", file), file}
}

// TestLimitsOfWrites: a limit of samples per second refuses with 503 and Retry-After, or counts by metric in a dry run. A limit
// of series in the file replaces the flag.
func TestLimitsOfWrites(t *testing.T) {
	t.Parallel()
	s, now := startLimited(t), time.Now().UnixMilli()
	s.put("limits: {samples_per_second: {max: 10}}")
	s.write(bomb("first", 0, 500, now)) // a large request passes, and the next one waits
	code, text, header := s.post("/api/v1/write", encodeWrite(bomb("second", 0, 500, now)))
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "the limit of samples per second is reached")
	wait, err := strconv.Atoi(header.Get("Retry-After"))
	require.NoError(t, err)
	require.Greater(t, wait, 30, "500 samples take 50 s")
	require.Equal(t, 1.0, s.metric(`tsdb_ingest_overload_total{resource="samples_per_second"}`))

	s.put("limits: {samples_per_second: {max: 10, enforce: false}, series: {max: 500, enforce: false}}")
	s.write(bomb("second", 0, 7, now))
	var status struct {
		Series           struct{ Max int64 }
		SamplesPerSecond struct {
			Max    int64
			DryRun bool
		}
		DryRun []struct {
			Metric  string
			Samples int
		}
	}
	s.status("limits", &status)
	require.Equal(t, int64(500), status.Series.Max)
	require.Equal(t, int64(10), status.SamplesPerSecond.Max)
	require.True(t, status.SamplesPerSecond.DryRun)
	require.Len(t, status.DryRun, 1)
	require.Equal(t, "second", status.DryRun[0].Metric)
	require.Equal(t, 14, status.DryRun[0].Samples, "seven samples beyond each of two limits")
	require.Equal(t, 7.0, s.metric("tsdb_ingest_rate_limit_dry_run_samples_total"))

	s.put("limits: {series: {max: 507}}")
	code, text, _ = s.post("/api/v1/write", encodeWrite(bomb("third", 0, 1, now)))
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "the limit of 507 active series is reached")
	s.put("")
	s.write(bomb("third", 0, 1, now))
}

// TestQueryRules: rules refuse queries by text, expression and fingerprint, with id and reason; limits end queries.
func TestQueryRules(t *testing.T) {
	t.Parallel()
	s, now := startLimited(t), time.Now()
	s.write(wave("known", 3, now.Add(-time.Minute), now, 15*time.Second))
	query := func(expr string) (int, string) {
		t.Helper()
		code, a := s.get("/api/v1/query", url.Values{"query": {expr}})
		return code, a.Error
	}
	code, _ := query("count(known)")
	require.Equal(t, http.StatusOK, code)
	s.put(`
query_rules:
  - {id: text, query: count(known), action: refuse, reason: ask something else}
  - {id: expression, regexp: 'max\(.*', action: slow_lane, reason: it is heavy}
limits: {query_bytes: {max: 100}, query_time: {max: 1m, warn: 0.0000001}}
`)
	code, text := query("count(known)")
	require.Equal(t, http.StatusUnprocessableEntity, code)
	require.Equal(t, `the query is refused by the query rule "text": ask something else`, text)
	code, text = query("max(known)")
	require.Equal(t, http.StatusUnprocessableEntity, code)
	require.Contains(t, text, "more than 100 bytes in memory")
	s.put("query_rules: [{id: expression, regexp: 'max\\(.*', action: slow_lane, reason: it is heavy}]")
	code, text = query("max(known)")
	require.Equal(t, http.StatusOK, code, text)
	var rules struct {
		Rules []struct {
			ID      string
			Matches int
		}
	}
	s.status("query_rules", &rules)
	require.Len(t, rules.Rules, 1)
	require.Equal(t, "expression", rules.Rules[0].ID)
	require.Equal(t, 2, rules.Rules[0].Matches)
	require.Equal(t, 2.0, s.metric(`tsdb_query_rule_matches_total{rule="expression"}`))
	require.Equal(t, 1.0, s.metric(`tsdb_query_limit_refused_total{limit="bytes"}`))
	require.Equal(t, 1.0, s.metric(`tsdb_query_limit_warnings_total{limit="bytes"}`))
}
