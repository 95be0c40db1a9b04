package main_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	deleteAndKill(t, []string{"--no-web.self-scrape"})
}

func TestBigtableDelete(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	deleteAndKill(t, onBigtable())
}

// without leaves out the points of an instance within a span of time, both ends included.
func without(points []point, instance string, fromMs, toMs int64) (rest []point) {
	for _, p := range points {
		if p.instance != instance || p.tsMs < fromMs || p.tsMs > toMs {
			rest = append(rest, p)
		}
	}
	return rest
}

func (s *server) mustDelete(args ...string) string {
	s.t.Helper()
	out, err := tsdb(s.t, append([]string{"delete", "--url", s.url}, args...)...)
	require.NoError(s.t, err, out)
	return out
}

func (s *server) labelValues(name string, fromMs, toMs int64) string {
	s.t.Helper()
	status, a := s.get("/api/v1/label/"+name+"/values", url.Values{
		"start": {seconds(fromMs)}, "end": {seconds(toMs)}, "match[]": {`{job="e2e"}`},
	})
	require.Equal(s.t, http.StatusOK, status, a.Error)
	return string(a.Data)
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }

// TestDeleteList lists deletions until they are clean.
func TestDeleteList(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-admin-api")
	s.write(wave("listed", 3, now.Add(-time.Hour), now, time.Minute))
	require.Contains(t, s.mustDelete("--list"), "no deletion waits")
	s.mustDelete("--match", `listed{job="e2e"}`, "--from", "2024-05-01T10:00:00Z")
	s.mustDelete("--match", "listed", "--match", "other")
	out := s.mustDelete("--list")
	require.Regexp(t, `(?m)^1  \{.*job="e2e".*\}  from 2024-05-01T10:00:00Z to the end, made \S+Z, waits for (index|rows)$`, out)
	require.Regexp(t, `(?m)^2  \{__name__="listed"\} or \{__name__="other"\}  from the beginning to the end, made `, out)
	require.Regexp(t, `"id": 2,\s+"selectors": \[\s+"\{__name__=\\"listed\\"\}",`, s.mustDelete("--list", "--output", "json"))
	refused, err := tsdb(t, "delete", "--url", s.url, "--list", "--clean")
	require.Error(t, err)
	require.Contains(t, refused, "--list only lists")
	s.mustDelete("--clean")
	require.Contains(t, s.mustDelete("--list"), "no deletion waits")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// deleteAndKill deletes samples in memory, in tables and in cached results. It kills the server right after the response,
// and checks again after each kind of end.
func deleteAndKill(t *testing.T, flags []string) {
	dir := t.TempDir()
	flags = append(flags, "--web.enable-admin-api")
	now := time.Now().Truncate(time.Second)
	s := startServer(t, dir, flags...)
	all := wave("gone", 4, now.Add(-4*time.Hour), now.Add(-90*time.Minute), 15*time.Second)
	s.write(all)
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	fresh := wave("gone", 4, now.Add(-90*time.Minute), now, 15*time.Second)
	s.write(fresh)
	s.write(wave("other", 2, now.Add(-time.Hour), now, time.Minute))
	all = append(all, fresh...)
	requirePoints(t, s, "gone", now, all) // and keep what was read

	from, to := now.Add(-3*time.Hour).UnixMilli()+1, now.Add(-30*time.Minute).UnixMilli()
	rest := without(all, "host-1", from, to)
	args := []string{"--match", `gone{instance="host-1"}`, "--from", seconds(from), "--to", seconds(to)}
	out := s.mustDelete(append(args, "--dry-run")...)
	require.Contains(t, out, fmt.Sprintf("would delete %d samples of 1 series", len(all)-len(rest)))
	requirePoints(t, s, "gone", now, all)
	s.mustDelete(args...)
	requirePoints(t, s, "gone", now, rest)
	require.Contains(t, s.mustDelete(append(args, "--dry-run")...), "would delete 0 samples of 0 series, 0 bytes")
	require.Contains(t, s.metrics(), "tsdb_tombstones 1\n")
	require.Error(t, s.end(syscall.SIGKILL))

	s = startServer(t, dir, flags...)
	requirePoints(t, s, "gone", now, rest)
	again := []point{{"gone", "host-1", from + 14_999, 7}} // where one was deleted
	s.write(again)
	requirePoints(t, s, "gone", now, append(rest, again...))
	s.mustDelete("--match", `gone{instance="host-3"}`)
	rest = without(rest, "host-3", 0, now.UnixMilli())
	status, text, _ = s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	require.Error(t, s.end(syscall.SIGKILL))

	s = startServer(t, dir, flags...)
	requirePoints(t, s, "gone", now, append(rest, again...))
	require.JSONEq(t, `["host-0","host-1","host-2"]`, s.labelValues("instance", 0, now.UnixMilli()))
	out = s.mustDelete("--clean")
	require.Contains(t, out, "deletions cleaned: 2;")
	if sizes := regexp.MustCompile(`table data +(\d+) bytes before, +(\d+) after`).FindStringSubmatch(out); sizes[1] != "0" {
		before, after := atoi(t, sizes[1]), atoi(t, sizes[2])
		require.Less(t, after, before, out)
	}
	require.Contains(t, s.metrics(), "tsdb_tombstones 0\n")
	requirePoints(t, s, "gone", now, append(rest, again...))
	out, err := tsdb(t, "delete", "--url", s.url, "--match", `{__name__=~".+"}`)
	require.Error(t, err)
	require.Contains(t, out, "all=true")
	s.mustDelete("--match", `{__name__=~".+"}`, "--all")
	s.mustDelete("--clean")
	require.JSONEq(t, `[]`, s.labelValues("instance", 0, now.UnixMilli()))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	s = startServer(t, dir, flags...)
	require.Empty(t, s.series("gone", now, "6h"))
	require.JSONEq(t, `[]`, s.labelValues("instance", 0, now.UnixMilli()))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

func atoi(t *testing.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestDeleteAndRollups checks that rollups of a closed day equal its remaining samples, before and after cleaning.
func TestDeleteAndRollups(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	s := startServer(t, dir, flags...)
	s.write(wave("rolled", 20, day.Add(5*time.Hour), day.Add(8*time.Hour), time.Minute))
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	verify := func(want string) {
		t.Helper()
		out, err := tsdb(t, "rollup", "verify", "--storage.path", dir)
		require.NoError(t, err, out)
		require.Contains(t, out, ", 0 differ; "+want)
	}
	rebuild := func() {
		t.Helper()
		out, err := tsdb(t, "rollup", "rebuild", "--storage.path", dir)
		require.NoError(t, err, out)
	}
	rebuild()
	verify("skipped 0 dirty hours")

	s = startServer(t, dir, flags...)
	s.mustDelete("--match", `rolled{instance=~"host-[12]"}`, "--from", day.Add(5*time.Hour+30*time.Minute).Format(time.RFC3339),
		"--to", day.Add(6*time.Hour+29*time.Minute).Format(time.RFC3339))
	require.Error(t, s.end(syscall.SIGKILL))
	s = startServer(t, dir, flags...)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	verify("skipped 4 dirty hours")
	rebuild()
	verify("skipped 0 dirty hours")

	s = startServer(t, dir, flags...)
	require.Contains(t, s.mustDelete("--clean"), "rows removed: 0, rewritten: 4")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	verify("skipped 0 dirty hours") // nothing has changed for them
}

func TestDeleteFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--match is required":   {},
		"contradict each other": {"--match", "up", "--clean", "--dry-run"},
		"is a server running":   {"--match", "up", "--url", "http://127.0.0.1:1"},
		"--url: ":               {"--match", "up", "--url", "http://%zz"},
	} {
		out, err := tsdb(t, append([]string{"delete"}, args...)...)
		require.Error(t, err, want)
		require.Contains(t, out, want)
	}
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	out, err := tsdb(t, "delete", "--url", s.url, "--match", "up")
	require.Error(t, err)
	require.Contains(t, out, "admin APIs disabled")
}
