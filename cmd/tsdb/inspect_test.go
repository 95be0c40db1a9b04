package main_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testInspect runs the commands of `tsdb inspect` on a stored wave of e2e_metric. from names the server.
func testInspect(t *testing.T, from ...string) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "--prefix", "e2e_metric"}, "e2e_metric#"},
		{[]string{"rows", "--prefix", "e2e_metric"}, "chunk"},
		{[]string{"keys", "--table", "series"}, "#"},
		{[]string{"tables"}, "data"},
		{[]string{"wal"}, ".wal"},
	} {
		out, err := tsdb(t, append(append([]string{"inspect"}, c.args...), from...)...)
		require.NoError(t, err, "%v: %s", c.args, out)
		require.Contains(t, out, c.want, "%v", c.args)
	}
}

// TestReadRunningServer: inspect, verify and rollup verify read a running server, and leave no snapshot.
func TestReadRunningServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, backupFlags...)
	now := time.Now().Truncate(time.Second)
	s.write(wave("e2e_metric", 20, now.Add(-3*time.Hour), now, 15*time.Second))
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	s.write(wave("unflushed_metric", 1, now.Add(-time.Minute), now, 15*time.Second))

	testInspect(t, "--url", s.url)
	out, err := tsdb(t, "inspect", "wal", "--verbose", "--url", s.url)
	require.NoError(t, err, out)
	require.Contains(t, out, "unflushed_metric", "the log of the snapshot has all acknowledged samples")
	for _, command := range [][]string{{"verify"}, {"rollup", "verify"}} {
		out, err := tsdb(t, append(command, "--url", s.url)...)
		require.NoError(t, err, "%v: %s", command, out)
		require.Regexp(t, `\b0 (damaged|differ)|: 0 damaged`, out, "%v", command)
	}
	fails := func(want string, args ...string) {
		t.Helper()
		out, err := tsdb(t, args...)
		require.Error(t, err, out)
		require.Contains(t, out, want, "%v", args)
	}
	for _, command := range [][]string{{"inspect", "tables"}, {"verify"}, {"rollup", "verify"}} {
		fails("stop it first", append(command, "--storage.path", dir)...)
		fails("use --url for a running server", append(command, "--storage.path", dir)...)
		fails("contradict each other", append(command, "--storage.path", dir, "--url", s.url)...)
	}
	fails("stop it first", "rollup", "rebuild", "--storage.path", dir)
	fails("contradict each other", "inspect", "tables", "--storage.engine", "bigtable", "--url", s.url)
	fails("a repair needs a stopped server", "verify", "--repair", "index", "--url", s.url)
	fails("is a server running there?", "inspect", "tables", "--url", "http://"+freeAddress(t))
	snapshots, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	require.NoError(t, err)
	require.Empty(t, snapshots)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}
