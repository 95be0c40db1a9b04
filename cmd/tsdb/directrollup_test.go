package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// day queries a function of the samples of a day twice: from rollups if possible, and only from samples. It demands
// that both results are equal.
func (s *server) day(t *testing.T, end time.Time) string {
	t.Helper()
	var responses [2]string
	for n, use := range []string{"auto", "raw"} {
		const query = `sum by (instance) (count_over_time(rolled[1d]) + last_over_time(rolled[1d]))`
		code, a := s.get("/api/v1/query", url.Values{"query": {query}, "time": {fmt.Sprint(end.Unix())}, "tiers": {use}})
		require.Equal(t, http.StatusOK, code, a.Error)
		responses[n] = string(a.Data)
	}
	require.Equal(t, responses[1], responses[0], "rollups and samples")
	return responses[0]
}

// TestDirectRollups: one of two servers computes rollups. Each sees late samples and deletions on the other at once,
// also in responses from rollups. When the first one is killed, the other one computes.
func TestDirectRollups(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	flags := direct("--storage.rollups", "--web.enable-admin-api", "--bigtable.pack-delay=3s", "--bigtable.pack-interval=50ms",
		"--bigtable.lease=1s")
	a, b := startServer(t, nowhere(t), flags...), startServer(t, nowhere(t), flags...)
	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	end := day.Add(24*time.Hour - time.Millisecond)
	a.write(wave("rolled", 8, day.Add(5*time.Hour), day.Add(9*time.Hour), time.Minute))
	computed := func(s *server) bool {
		text := s.metrics()
		return (strings.Contains(text, `tsdb_rollup_passes_total{kind="whole"} `) &&
			!strings.Contains(text, `tsdb_rollup_passes_total{kind="whole"} 0`)) ||
			!strings.Contains(text, `tsdb_rollup_passes_total{kind="part"} 0`)
	}
	require.Eventually(t, func() bool { return computed(a) || computed(b) }, time.Minute, 50*time.Millisecond, "%s", a.log)
	require.Eventually(t, func() bool { return a.day(t, end) == b.day(t, end) }, time.Minute, 20*time.Millisecond)
	before := a.day(t, end)
	for n := range 5 {
		b.write([]point{{"rolled", "host-1", day.Add(6*time.Hour).UnixMilli() + 7 + int64(n), float64(n)}})
		after := a.day(t, end)
		require.NotEqual(t, before, after, "a late sample of another server")
		require.Equal(t, after, b.day(t, end))
		before = after
		time.Sleep(100 * time.Millisecond)
	}
	b.mustDelete("--match", `rolled{instance="host-2"}`, "--from", seconds(day.Add(6*time.Hour).UnixMilli()), "--to",
		seconds(day.Add(7*time.Hour).UnixMilli()))
	after := a.day(t, end)
	require.NotEqual(t, before, after, "a deletion on another server")
	require.Equal(t, after, b.day(t, end))

	holder, other := a, b
	if computed(b) && !computed(a) {
		holder, other = b, a
	}
	require.Error(t, holder.end(syscall.SIGKILL))
	other.write([]point{{"rolled", "host-3", day.Add(8*time.Hour).UnixMilli() + 7, 5}})
	require.Eventually(t, func() bool {
		other.day(t, end)
		return computed(other)
	}, time.Minute, 50*time.Millisecond, "%s", other.log)
	other.day(t, end)
	require.NoError(t, other.end(syscall.SIGTERM), other.log)
}

// TestDirectRollupTools verifies and rebuilds rollups of running servers. The server with the lease computes them, or
// the tool itself if there is none.
func TestDirectRollupTools(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	tool := func(args ...string) (string, error) {
		out, err := command(t, append(append([]string{"rollup"}, args...), bigtableFlags...)...).CombinedOutput()
		return string(out), err
	}
	const done = "compared 192 hours and 0 days, 0 differ; skipped 0 dirty hours"
	out, err := tool("verify")
	require.Error(t, err)
	require.Contains(t, out, "meta", "no tables at all")
	flags := direct("--storage.rollups", "--bigtable.pack-delay=3s", "--bigtable.pack-interval=50ms", "--bigtable.lease=1s")
	a := startServer(t, nowhere(t), flags...)
	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	end := day.Add(24*time.Hour - time.Millisecond)
	a.write(wave("rolled", 8, day.Add(5*time.Hour), day.Add(9*time.Hour), time.Minute))
	tables, err := command(t, append([]string{"inspect", "tables"}, bigtableFlags...)...).CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(tables), "family s kind 0 max-age 720h0m0s", "samples do not live as long as states")
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err = tool("verify")
		if err == nil && strings.Contains(out, done) {
			break
		}
		require.True(t, time.Now().Before(until), out)
	}
	before := a.day(t, end)
	out, err = tool("rebuild", "--bigtable.pack-delay=3s")
	require.NoError(t, err, out)
	require.Contains(t, out, "rebuilt")
	require.Contains(t, out, "by_this_process=false")
	require.Equal(t, before, a.day(t, end))
	require.NoError(t, a.end(syscall.SIGTERM), a.log)

	out, err = tool("rebuild", "--reset", "--bigtable.pack-delay=3s")
	require.NoError(t, err, out)
	require.Contains(t, out, "by_this_process=true")
	out, err = tool("verify")
	require.NoError(t, err, out)
	require.Contains(t, out, done)
	b := startServer(t, nowhere(t), flags...)
	require.Equal(t, before, b.day(t, end))
	require.NoError(t, b.end(syscall.SIGTERM), b.log)
}
