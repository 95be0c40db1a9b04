package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"halite/storage/pebble"
)

// limit sets the soft limit of a resource of the running server and returns the previous limits.
func (s *server) limit(resource int, soft uint64) syscall.Rlimit {
	s.t.Helper()
	var old syscall.Rlimit
	prlimit := func(set, get *syscall.Rlimit) {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(s.cmd.Process.Pid), uintptr(resource),
			uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
		require.Zero(s.t, errno, "prlimit: %v", errno)
	}
	prlimit(nil, &old)
	prlimit(&syscall.Rlimit{Cur: soft, Max: old.Max}, nil)
	return old
}

// page gets a page as text. It reads the whole response, so that the next request needs no new connection.
func (s *server) page(path string) (int, string) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(b)
}

// tryWrite writes points and reports whether they were acknowledged. The only other response is 503 with Retry-After.
func (s *server) tryWrite(points []point) bool {
	s.t.Helper()
	status, text, header := s.post("/api/v1/write", encodeWrite(points))
	if status == http.StatusNoContent {
		return true
	}
	require.Equal(s.t, http.StatusServiceUnavailable, status, text)
	require.NotEmpty(s.t, header.Get("Retry-After"), text)
	return false
}

// requireRefusing requires that the server refuses writes and answers reads, and that both probes say so.
func (s *server) requireRefusing(healthyStatus int) {
	s.t.Helper()
	require.False(s.t, s.tryWrite([]point{{"refused", "a", time.Now().UnixMilli(), 1}}))
	status, text := s.page("/-/ready")
	require.Equal(s.t, http.StatusServiceUnavailable, status, text)
	status, text = s.page("/-/healthy")
	require.Equal(s.t, healthyStatus, status, text)
	status, text = s.page("/api/v1/query?query=e2e_metric")
	require.Equal(s.t, http.StatusOK, status, text)
}

// requireRecovered waits until the server takes writes, and flushes.
func (s *server) requireRecovered(points []point) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.tryWrite(points) }, time.Minute, 50*time.Millisecond, s.log)
	s.awaitReady()
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(s.t, status, 300, text)
}

// TestDescriptorsRunOut leaves the running server without descriptors while it begins segments and flushes.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api", "--storage.free-bytes=1MB")
	at := now.Add(-time.Hour)
	next := func() []point {
		at = at.Add(15 * time.Second)
		return wave("e2e_metric", 5, at, at.Add(time.Second), time.Second)
	}
	all := next()
	s.requireRecovered(all)
	some := next()
	s.write(some)
	all = append(all, some...)
	old := s.limit(syscall.RLIMIT_NOFILE, 0)
	for range 4 {
		if some := next(); s.tryWrite(some) {
			all = append(all, some...)
		}
		status, text, header := s.post("/api/v1/admin/flush", nil)
		require.Equal(t, http.StatusServiceUnavailable, status, text)
		require.NotEmpty(t, header.Get("Retry-After"), text)
	}
	status, text := s.page("/-/ready")
	require.Equal(t, http.StatusServiceUnavailable, status, text)
	status, text = s.page("/-/healthy")
	require.Equal(t, http.StatusOK, status, text)
	s.limit(syscall.RLIMIT_NOFILE, old.Cur)
	some = next()
	s.requireRecovered(some)
	for _, p := range append(all, some...) {
		require.Equal(t, fmt.Sprintf("%g", p.value), s.series("e2e_metric", now, "6h")[p.instance][p.tsMs])
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestLogFails breaks the log of the running server for good: writes to files fail as on a broken device.
func TestLogFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	all := wave("e2e_metric", 5, now.Add(-time.Hour), now, time.Minute)
	s := startServer(t, dir, "--no-web.self-scrape")
	s.write(all)
	old := s.limit(syscall.RLIMIT_FSIZE, 1)
	for range 20 {
		require.False(t, s.tryWrite(wave("lost", 1, now, now.Add(time.Second), time.Second)))
	}
	s.limit(syscall.RLIMIT_FSIZE, old.Cur)
	s.requireRefusing(http.StatusServiceUnavailable)
	_, text := s.page("/-/healthy")
	require.Contains(t, text, "write-ahead log failed")
	require.Less(t, strings.Count(s.log.String(), "level=ERROR"), 5, "%s", s.log)
	require.Error(t, s.end(syscall.SIGTERM), "the log could not be closed")

	s = startServer(t, dir, "--no-web.self-scrape", "--storage.exit-on-failure")
	requirePoints(t, s, "e2e_metric", now, all)
	s.limit(syscall.RLIMIT_FSIZE, 1)
	require.False(t, s.tryWrite(wave("lost", 1, now, now.Add(time.Second), time.Second)))
	require.Error(t, s.ended("the failure of the log"))
	require.Contains(t, s.log.String(), "--storage.exit-on-failure")
}

// smallDisk mounts a file system of 64 MiB. ok is false without the right to mount.
func smallDisk(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("no file system can be mounted: %v", err)
		return "", false
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir, true
}

// fill takes all space of the disk and returns a function that frees it.
func fill(t *testing.T, disk string) (empty func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(disk, "fill"))
	require.NoError(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
	return func() { require.NoError(t, os.Remove(f.Name())) }
}

// TestFullDisk fills the disk under a running server, then under one that starts. Without the right to mount a disk, a file
// system that injects faults takes its place.
func TestFullDisk(t *testing.T) {
	disk, ok := smallDisk(t)
	if !ok {
		openOnFullDisk(t)
		return
	}
	dir := filepath.Join(disk, "data")
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api", "--storage.free-bytes=1MB", "--web.shutdown-timeout=3s"}
	now := time.Now().Truncate(time.Second)
	all := wave("e2e_metric", 20, now.Add(-time.Hour), now.Add(-time.Minute), 15*time.Second)
	s := startServer(t, dir, flags...)
	s.write(all)
	empty := fill(t, disk)
	require.Eventually(t, func() bool { return !s.tryWrite(all[:1]) }, time.Minute, time.Millisecond)
	for _, path := range []string{"/api/v1/admin/tsdb/delete_series?match[]=e2e_metric&start=0&end=1", "/api/v1/admin/flush"} {
		status, text, _ := s.post(path, nil)
		require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusNoContent}, status, "%s: %s", path, text)
	}
	s.requireRefusing(http.StatusOK)
	empty()
	last := wave("e2e_metric", 20, now.Add(-time.Minute), now, 15*time.Second)
	s.requireRecovered(last)
	all = append(all, last...)

	fill(t, disk)
	_ = s.end(syscall.SIGTERM) // the last flush may fail; the log has all samples
	s = launch(t, dir, freeAddress(t), flags...)
	require.Eventually(t, func() bool {
		resp, err := http.Get(s.url + "/api/v1/query?query=e2e_metric")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond, "reads on a full disk\n%s", s.log)
	requirePoints(t, s, "e2e_metric", now, all)
	s.requireRefusing(http.StatusOK)

	// Another program takes the space of the reserve. The next start waits, and a signal ends it.
	require.NoError(t, os.Remove(filepath.Join(disk, "fill")))
	s.requireRecovered(all[:1])
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "reserve")))
	empty = fill(t, disk)
	s = launch(t, dir, freeAddress(t), flags...)
	require.Eventually(t, func() bool {
		resp, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(text), "cannot start yet") && strings.Contains(string(text), "no space left")
	}, time.Minute, 20*time.Millisecond, s.log)
	require.Error(t, s.end(syscall.SIGTERM))
	s = launch(t, dir, freeAddress(t), flags...)
	time.Sleep(time.Second)
	empty()
	s.awaitReady()
	requirePoints(t, s, "e2e_metric", now, all)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// openOnFullDisk opens tables whose manifest has no space: Open waits without spinning and goes on when there is some.
func openOnFullDisk(t *testing.T) {
	full, tries := make(chan struct{}), 0
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpFileWrite || !strings.Contains(op.Path, "MANIFEST") {
			return nil
		}
		select {
		case <-full:
			return nil
		default:
			tries++
			return syscall.ENOSPC
		}
	}))
	opened := make(chan error, 1)
	go func() {
		s, err := pebble.Open(pebble.Options{Dir: "data", FS: fs})
		if err == nil {
			err = errors.Join(s.Refusing(), s.Close())
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened on a full disk: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	close(full)
	require.NoError(t, <-opened)
	require.Less(t, tries, 20)
}

// TestOpenOnFullDisk runs everywhere.
func TestOpenOnFullDisk(t *testing.T) { openOnFullDisk(t) }

// TestLockOutlivesItsFiles removes every LOCK file of a running server. No second server starts.
func TestLockOutlivesItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, "--no-web.self-scrape")
	removed := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "LOCK" {
			removed++
			err = os.Remove(path)
		}
		return err
	}))
	require.Positive(t, removed)
	for _, args := range [][]string{
		{"serve", "--storage.path", dir, "--web.listen-address", freeAddress(t)}, {"inspect", "tables", "--storage.path", dir},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput()
		cancel()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "another process holds the lock")
		require.NotContains(t, string(out), "listening", "the server says so once it has the lock")
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	require.NoError(t, startServer(t, dir, "--no-web.self-scrape").end(syscall.SIGTERM))
}

// TestFilesArePrivate: with any umask, only the owner can read the files of the store.
func TestFilesArePrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "data")
	now := time.Now().Truncate(time.Second)
	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	s.write(wave("e2e_metric", 600, now.Add(-time.Hour), now.Add(-time.Hour+time.Minute), 15*time.Second))
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // a compaction removed it
		}
		require.NoError(t, err)
		info, err := d.Info()
		if err == nil {
			files++
			require.Zero(t, info.Mode().Perm()&0o077, "%s has mode %v", path, info.Mode())
		}
		return nil
	}))
	require.Greater(t, files, 10)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}
