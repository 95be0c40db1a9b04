package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// offline are the arguments of a command that works on the tables of dir in Bigtable.
func offline(dir string, args ...string) []string {
	return append(append(args, "--storage.path", dir), bigtableFlags...)
}

func (s *server) metrics() string {
	s.t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return string(text)
}

// TestBigtableRollups computes rollups of a day that has closed, and has the commands for stopped servers check, repair
// and print them.
func TestBigtableRollups(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir := t.TempDir()
	day := time.Now().UTC().AddDate(0, 0, -3).Truncate(24 * time.Hour)
	first := wave("rolled", 20, day.Add(5*time.Hour), day.Add(7*time.Hour), time.Minute)
	s := startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	s.write(first)
	s.flush()
	require.NotContains(t, s.metrics(), "tsdb_rollup_", "rollups are off")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	s = startServer(t, dir, onBigtable("--storage.rollups", "--storage.retention.hours=500d")...)
	require.Eventually(t, func() bool { return strings.Contains(s.metrics(), `tsdb_rollup_passes_total{kind="whole"} 1`) },
		time.Minute, 50*time.Millisecond, "%s", s.log)
	out, err := tsdb(t, offline(dir, "rollup", "verify")...)
	require.Error(t, err, "the server runs")
	require.Contains(t, out, "stop its server")
	out, err = tsdb(t, offline(t.TempDir(), "rollup", "verify")...)
	require.Error(t, err, "the tables belong to another directory")
	require.Contains(t, out, dir)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	out, err = tsdb(t, offline(dir, "rollup", "verify")...)
	require.NoError(t, err, out)
	require.Contains(t, out, "480 hours and", "20 series of 24 hours: %s", out)
	require.Contains(t, out, ", 0 differ; skipped 0 dirty hours")

	// Without the flag the server computes no rollups, but still marks changed hours.
	s = startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	s.write(wave("rolled", 2, day.Add(5*time.Hour), day.Add(6*time.Hour), 7*time.Minute))
	s.flush()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	out, err = tsdb(t, offline(dir, "rollup", "verify")...)
	require.NoError(t, err, out)
	require.Contains(t, out, "; skipped 2 dirty hours")
	out, err = tsdb(t, offline(dir, "rollup", "rebuild")...)
	require.NoError(t, err, out)
	out, err = tsdb(t, offline(dir, "rollup", "verify")...)
	require.NoError(t, err, out)
	require.Contains(t, out, "; skipped 0 dirty hours")
}

// TestBigtableInspect prints keys, rows and tables while a server writes to them.
func TestBigtableInspect(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	none, err := tsdb(t, offline(dir, "inspect", "tables")...)
	require.NoError(t, err, none)
	require.Contains(t, none, "There are no tables yet")
	s := startServer(t, dir, onBigtable("--web.enable-admin-api", "--storage.retention.raw=40d")...)
	s.write(wave("seen", 3, now.Add(-2*time.Hour), now.Add(-time.Hour), time.Minute))
	s.flush()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "--prefix", "seen"}, "seen#"},
		{[]string{"rows", "--prefix", "seen"}, "chunk 0: "},
		{[]string{"keys", "--table", "series"}, "#"},
		{[]string{"rows", "--table", "meta", "--prefix", "owner", "--verbose"}, `"path":"` + dir + `"`},
		{[]string{"tables"}, "family s kind 0 max-age 960h0m0s"},
	} {
		out, err := tsdb(t, offline(dir, append([]string{"inspect"}, c.args...)...)...)
		require.NoError(t, err, out)
		require.Contains(t, out, c.want, "%v", c.args)
	}
	out, err := tsdb(t, "retention", "--url", s.url)
	require.NoError(t, err, out)
	require.Contains(t, out, "Bigtable has no sizes of days")
	out, err = tsdb(t, "inspect", "wal", "--storage.path", dir)
	require.NoError(t, err, out)
	out, err = tsdb(t, "inspect", "tables", "--storage.path", dir)
	require.Error(t, err)
	require.Contains(t, out, "--storage.engine")
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	// Another retention means another GC policy. Expired data disappears at once.
	s = startServer(t, dir, onBigtable("--storage.retention.raw=2d")...)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	out, err = tsdb(t, offline(dir, "inspect", "tables")...)
	require.NoError(t, err, out)
	require.Contains(t, out, "family s kind 0 max-age 48h0m0s")
}

// TestBigtableRetention shortens the retention below the age of stored samples: reads hide them at once.
func TestBigtableRetention(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir := t.TempDir()
	now := time.Now().Truncate(time.Minute)
	s := startServer(t, dir, onBigtable("--web.enable-admin-api", "--storage.retention.raw=10d")...)
	s.write(wave("kept", 2, now.Add(-5*24*time.Hour), now.Add(-5*24*time.Hour+time.Hour), time.Minute))
	s.write(wave("kept", 2, now.Add(-24*time.Hour), now.Add(-23*time.Hour), time.Minute))
	s.flush()
	count := func(at time.Time) int { return len(s.series("kept", at, "2h")) }
	old, young := now.Add(-5*24*time.Hour+time.Hour), now.Add(-23*time.Hour)
	require.Equal(t, 2, count(old))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	s = startServer(t, dir, onBigtable("--storage.retention.raw=3d")...)
	require.Equal(t, 0, count(old))
	require.Equal(t, 2, count(young))
}

// TestBigtableStatus sends a server on Bigtable the status requests that the embedded engine also answers.
func TestBigtableStatus(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	s := startServer(t, t.TempDir(), onBigtable("--web.enable-admin-api")...)
	now := time.Now().Truncate(time.Second)
	s.write(wave("seen", 3, now.Add(-2*time.Hour), now, time.Minute))
	var head struct {
		HeadStats struct{ NumSeries int }
	}
	code, a := s.get("/api/v1/status/tsdb", nil)
	require.Equal(t, http.StatusOK, code, a.Error)
	require.NoError(t, json.Unmarshal(a.Data, &head))
	require.Equal(t, 3, head.HeadStats.NumSeries)
	s.flush()
	var status struct {
		Tables []struct {
			Name    string
			Tablets []struct{ RowsWritten int }
		}
	}
	code, a = s.get("/api/v1/status/tablets", nil)
	require.Equal(t, http.StatusOK, code, a.Error)
	require.NoError(t, json.Unmarshal(a.Data, &status))
	names, written := "", 0
	for _, table := range status.Tables {
		names += table.Name + " "
		if table.Name == "data" {
			for _, tablet := range table.Tablets {
				written += tablet.RowsWritten
			}
		}
	}
	require.Equal(t, "data labels meta series ", names)
	require.GreaterOrEqual(t, written, 3*2, "three series in at least two hours")
	for _, path := range []string{"/api/v1/status/flags", "/api/v1/status/runtimeinfo", "/api/v1/labels"} {
		code, a := s.get(path, nil)
		require.Equal(t, http.StatusOK, code, "%s: %s", path, a.Error)
	}
	requireBackupOfLog(t, s, now)
}

// requireBackupOfLog backs up the log of a server on Bigtable and kills it. Then a server on the restored log takes over the
// tables.
func requireBackupOfLog(t *testing.T, s *server, now time.Time) {
	t.Helper()
	open := wave("open_hour", 2, now.Add(-5*time.Minute), now, time.Minute)
	s.write(open)
	repository, dir := filepath.Join(t.TempDir(), "backups"), filepath.Join(t.TempDir(), "restored")
	const parts = "it holds the log and the open hour only"
	out, err := tsdb(t, "backup", "create", "--to", repository, "--url", s.url)
	require.NoError(t, err, out)
	require.Contains(t, out, parts)
	require.Error(t, s.end(syscall.SIGKILL))
	out, err = tsdb(t, "backup", "restore", "--from", repository, "--to", dir)
	require.NoError(t, err, out)
	require.Contains(t, out, parts)
	s = startServer(t, dir, onBigtable("--bigtable.take-over")...)
	requirePoints(t, s, "open_hour", now, open)
}
