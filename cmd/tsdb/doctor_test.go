package main_test

import (
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/api/doctor"
)

// TestDoctor: the exit code of `tsdb doctor` follows the worst verdict, and its text has evidence and the line that
// fixes it.
func TestDoctor(t *testing.T) {
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--ingest.max-series=100")
	exitOf := func(args ...string) (code int, out string) {
		text, err := tsdb(t, append([]string{"doctor"}, args...)...)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		return code, text
	}
	verdict := func(id string) doctor.Verdict {
		code, a := s.get("/api/v1/status/doctor", nil)
		require.Equal(t, 200, code, a.Error)
		var report doctor.Report
		require.NoError(t, json.Unmarshal(a.Data, &report))
		require.True(t, report.Ready)
		require.InDelta(t, time.Now().UnixMilli(), report.CheckedMs, 60_000)
		for _, v := range report.Verdicts {
			if v.ID == id {
				return v
			}
		}
		t.Fatalf("no verdict %s", id)
		return doctor.Verdict{}
	}
	require.Equal(t, doctor.OK, verdict("limits").Level)
	require.Contains(t, verdict("disk").Evidence, "are free")
	require.Contains(t, verdict("compaction-lag").Evidence, "sorted runs")

	now := time.Now()
	s.write(wave("crowd", 99, now.Add(-time.Minute), now, 30*time.Second))
	v := verdict("limits")
	require.Equal(t, doctor.Critical, v.Level)
	require.Equal(t, "99 of 100 are in use (99 %).", v.Evidence)
	code, out := exitOf("--url", s.url)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "critical  limits: active series\n          99 of 100 are in use (99 %).")
	require.Contains(t, out, "              --ingest.max-series=0\n")
	require.NotContains(t, out, "ok        damage")
	code, out = exitOf("--url", s.url, "--all")
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "ok        damage")
	code, out = exitOf("--url", s.url, "--output", "json")
	require.Equal(t, 2, code, out)
	var report doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Equal(t, doctor.Critical, report.Worst())

	s.write([]point{{"crowd", "host-0", now.Add(5 * time.Minute).UnixMilli(), 1}})
	require.Equal(t, doctor.Warn, verdict("clock-skew").Level)
	require.Contains(t, verdict("clock-skew").Evidence, " min in the future")

	code, out = exitOf("--url", "http://127.0.0.1:1")
	require.Equal(t, 3, code, out)
	require.Contains(t, out, "is a server running there?")
	require.NoError(t, s.end(15))
}
