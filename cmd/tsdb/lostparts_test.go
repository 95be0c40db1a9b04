package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// refusedStart starts a server that must refuse, and returns what it prints.
func refusedStart(t *testing.T, args ...string) string {
	t.Helper()
	args = append(args, "--web.listen-address", freeAddress(t))
	out, err := command(t, args...).CombinedOutput()
	require.Error(t, err, string(out))
	return string(out)
}

// listFiles names all files below a directory except locks and the reserve.
func listFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "LOCK" && d.Name() != "reserve" {
			names = append(names, path)
		}
		return err
	}))
	return names
}

// TestLostPartsAreRefused kills a server and removes parts of its directory. The next start refuses, names the loss and
// the flag that accepts it, and changes no file. Commands that write refuse, too. With the flag the server starts and
// moves the remains aside.
func TestLostPartsAreRefused(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	now := time.Now().Truncate(time.Second)
	s := startServer(t, from, "--no-web.self-scrape", "--web.enable-admin-api")
	cut := wave("cut_metric", 3, now.Add(-time.Hour), now, time.Minute)
	logged := wave("logged_metric", 3, now.Add(-time.Hour), now, time.Minute)
	s.write(cut)
	s.flush()
	s.write(logged)
	require.Error(t, s.end(syscall.SIGKILL))

	for _, c := range []struct {
		name, lost, says, flag string
		keepsCut, keepsLogged  bool // with the flag
	}{
		{"marker of the manifest", "tables/tree/marker.manifest.*", "marker.manifest.*: it is missing", "--storage.accept-table-loss",
			false, true},
		{"tables", "tables", "the tables are missing or empty", "--storage.accept-table-loss", false, true},
		{"tree and log", "tables/tree wal", "holds no tables", "--storage.accept-table-loss", false, false},
		{"files of the tree, and log", "tables/tree/* wal", "holds no tables", "--storage.accept-table-loss", false, false},
		{"log", "wal", "the log is missing or empty", "--storage.accept-wal-loss", true, false},
		{"checkpoint of the log", "wal/*.ckpt", ".ckpt", "--storage.accept-wal-loss", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
			for _, lost := range strings.Fields(c.lost) {
				paths, err := filepath.Glob(filepath.Join(dir, lost))
				require.NoError(t, err)
				require.NotEmpty(t, paths)
				for _, path := range paths {
					require.NoError(t, os.RemoveAll(path))
				}
			}
			before := listFiles(t, dir)
			out := refusedStart(t, "serve", "--storage.path", dir)
			require.Contains(t, out, c.says)
			require.Contains(t, out, c.flag)
			require.Equal(t, before, listFiles(t, dir), out)
			_, err := tsdb(t, "rollup", "rebuild", "--storage.path", dir)
			require.Error(t, err)
			require.Equal(t, before, listFiles(t, dir), err)
			out, err = tsdb(t, "verify", "--storage.path", dir)
			require.Error(t, err, out)
			require.Equal(t, before, listFiles(t, dir), out)

			s := startServer(t, dir, "--no-web.self-scrape", c.flag)
			if c.keepsCut {
				requirePoints(t, s, "cut_metric", now, cut)
			}
			if c.keepsLogged {
				requirePoints(t, s, "logged_metric", now, logged)
			}
			require.NoError(t, s.end(syscall.SIGTERM), s.log)
			kept := listFiles(t, dir)
			for _, path := range before {
				if filepath.Ext(path) == ".sst" && c.flag == "--storage.accept-table-loss" {
					require.Condition(t, func() bool { return holdsFile(kept, filepath.Base(path)) }, path)
				}
			}
			require.NoError(t, startServer(t, dir, "--no-web.self-scrape").end(syscall.SIGTERM))
		})
	}
}

func holdsFile(paths []string, name string) bool {
	for _, path := range paths {
		if filepath.Base(path) == name {
			return true
		}
	}
	return false
}

// TestBigtableOlderDirectory starts a server on an older copy of a directory, although the tables in Bigtable have
// changed since. The server refuses it like the directory of another server.
func TestBigtableOlderDirectory(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir, older := t.TempDir(), filepath.Join(t.TempDir(), "older")
	now := time.Now().Truncate(time.Second)
	points := wave("e2e_metric", 3, now.Add(-time.Hour), now, time.Minute)
	s := startServer(t, dir, onBigtable()...)
	s.write(points)
	require.Error(t, s.end(syscall.SIGKILL))
	require.NoError(t, os.CopyFS(older, os.DirFS(dir)))
	require.Error(t, startServer(t, dir, onBigtable()...).end(syscall.SIGKILL))

	out := refusedStart(t, append([]string{"serve", "--storage.path", older}, onBigtable()...)...)
	require.Contains(t, out, "the log is older than the tables")
	require.Contains(t, out, "--bigtable.take-over")
	s = startServer(t, older, onBigtable("--bigtable.take-over")...)
	requirePoints(t, s, "e2e_metric", now, points)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	out = refusedStart(t, append([]string{"serve", "--storage.path", dir}, onBigtable()...)...)
	require.Contains(t, out, "--bigtable.take-over")
}
