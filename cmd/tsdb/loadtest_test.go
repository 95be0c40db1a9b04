package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/loadtest/report"
)

// loadtestReport runs `tsdb loadtest` and reads the JSON it prints.
func loadtestReport(t *testing.T, into any, args ...string) {
	t.Helper()
	cmd := command(t, append([]string{"loadtest"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s\n%s", out, &stderr)
	require.NoError(t, json.Unmarshal(out, into), "%s", out)
}

// TestLoadtestFindsEverything loads a real server with every kind of disorder over a past range that spans closed
// hours. It kills the server and loads it once more. The second run reads everything back from a log and tables of both
// runs.
func TestLoadtestFindsEverything(t *testing.T) {
	t.Parallel()
	loadAndKill(t)
}

// TestBigtableLoadtest does the same on Bigtable.
func TestBigtableLoadtest(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	loadAndKill(t, bigtableFlags...)
}

// loadAndKill is TestLoadtestFindsEverything for a server with these flags.
func loadAndKill(t *testing.T, flags ...string) {
	dir := t.TempDir()
	flags = append([]string{"--no-web.self-scrape", "--web.enable-admin-api"}, flags...)
	s := startServer(t, dir, flags...)
	args := []string{
		"--url", s.url, "--output", "json", "--hosts", "4", "--hot-series", "150", "--zipf-series", "100", "--zipf-metrics", "10",
		"--from", "3h", "--to", "10m", "--interval", "1m",
		"--late", "10", "--rewritten", "10", "--out-of-order", "10", "--late-by", "70m",
		"--churn", "20", "--churn-steps", "50", "--shuffle", "--request-samples", "500", "--settle", "0s", "--query-rate", "50",
		"--pid", strconv.Itoa(s.cmd.Process.Pid), "--dir", dir, "--flush", s.url + "/api/v1/admin/flush",
	}
	var r report.Report
	loadtestReport(t, &r, args...)
	require.Equal(t, int64(650*170), r.Verification.Checked)
	require.Equal(t, "remote read", r.Verification.ReadBy)
	require.Zero(t, r.Verification.Missing+r.Verification.Different+r.Verification.Extra)
	require.Zero(t, r.Queries.All.Errors, "%v", r.Queries.ErrorExamples)
	require.Zero(t, r.Freshness.Unseen+r.Freshness.Failed)
	require.Empty(t, r.Distribution.TabletsError)
	require.Positive(t, r.Distribution.Tablets.RowsWritten.HottestShare, "the flush has written rows")
	require.Positive(t, r.Server.CPUSeconds)
	require.Positive(t, r.Disk.FlushedBytes)

	require.Error(t, s.end(syscall.SIGKILL))
	s = startServerAt(t, dir, s.url[len("http://"):], flags...)
	args[slices.Index(args, "--pid")+1] = strconv.Itoa(s.cmd.Process.Pid)
	// Another seed writes other values at the same timestamps.
	loadtestReport(t, &r, append(args, "--seed", "2")...)
	require.Zero(t, r.Verification.Missing+r.Verification.Different)
}

// TestLoadtestSignal: Ctrl-C ends a load with a report of the sent samples.
func TestLoadtestSignal(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	cmd := command(t, "loadtest", "--url", s.url,
		"--hosts", "5", "--rate", "2000", "--duration", "10m", "--output", "json")
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	require.NoError(t, cmd.Start())
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if len(s.series("up", time.Now(), "1m")) == 5 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "%s", &stderr)
	var r report.Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r), "%s", &out)
	require.True(t, r.Interrupted)
	require.Positive(t, r.Verification.Checked)
	require.True(t, r.Verification.Passed(), "%+v", r.Verification)
}

// TestLoadtestCompare: two servers of one make give equal responses.
func TestLoadtestCompare(t *testing.T) {
	args := []string{
		"compare", "--hosts", "10", "--from", "1h", "--slice-samples", "50000", "--query-repeats", "3", "--settle", "0s",
		"--output", "json",
	}
	for i := range 2 {
		dir := filepath.Join(t.TempDir(), "data")
		s := startServer(t, dir, "--no-web.self-scrape")
		args = append(args, "--target", fmt.Sprintf("name=s%d;write=%s/api/v1/write;query=%s;pid=%d;dir=%s", i, s.url, s.url,
			s.cmd.Process.Pid, dir))
	}
	var c report.Comparison
	loadtestReport(t, &c, args...)
	require.Len(t, c.Targets, 2)
	for _, r := range c.Targets {
		require.Equal(t, int64(1000*240), r.Verification.Checked)
		require.True(t, r.Verification.Passed(), "%+v", r.Verification)
	}
	points := 0
	for _, q := range c.Queries {
		require.Empty(t, q.Targets[1].Difference, q.Name)
		require.Zero(t, q.Targets[0].Errors+q.Targets[1].Errors)
		points += q.Targets[1].Points
	}
	require.Greater(t, points, 1000)
}

func TestLoadtestFaults(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--url", "http://127.0.0.1:1", "--duration", "1s"}, "does not answer"},
		{[]string{"--to", "1h"}, "--from"},
		{[]string{"--from", "yesterday"}, "yesterday"},
		{[]string{"--late", "120"}, "LatePercent"},
		{[]string{"compare", "--from", "1h", "--target", "name=x"}, "write URL"},
	} {
		out, err := command(t, append([]string{"loadtest"}, c.args...)...).CombinedOutput()
		require.Error(t, err, "%v", c.args)
		require.Contains(t, string(out), c.want, "%v", c.args)
	}
}
