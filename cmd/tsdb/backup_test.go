package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"halite/storage/storagetest/seeds"
)

const (
	loadWriters = 3
	loadBatch   = 20
)

// load writes batches of samples to a server until it stops. Each sample's value follows from its series and time.
type load struct {
	t      *testing.T
	metric string
	from   time.Time
	acked  [loadWriters]atomic.Int64 // batches
	stop   chan struct{}
	work   sync.WaitGroup
}

// startLoad starts the writers. They stop at the end of the server, and send again what an overloaded server refuses.
func startLoad(t *testing.T, s *server, metric string, from time.Time) *load {
	l := &load{t: t, metric: metric, from: from, stop: make(chan struct{})}
	for writer := range loadWriters {
		l.work.Go(func() {
			for batch := int64(0); ; batch++ {
				select {
				case <-l.stop:
					return
				case <-time.After(time.Millisecond):
				}
				resp, err := http.Post(s.url+"/api/v1/write", "application/x-protobuf",
					strings.NewReader(string(encodeWrite(l.batch(writer, batch)))))
				if err != nil {
					return
				}
				resp.Body.Close()
				switch resp.StatusCode {
				case http.StatusNoContent:
					l.acked[writer].Add(1)
				case http.StatusServiceUnavailable:
					batch--
				default:
					t.Errorf("write: %s", resp.Status)
					return
				}
			}
		})
	}
	return l
}

// batch is the n-th batch of a writer. Samples are a tenth of a second apart, so that the load crosses hours.
func (l *load) batch(writer int, n int64) []point {
	points := make([]point, loadBatch)
	for i := range points {
		at := l.from.Add(time.Duration(n*loadBatch+int64(i)) * 100 * time.Millisecond)
		points[i] = point{l.metric, fmt.Sprint("writer-", writer), at.UnixMilli(), float64(at.UnixMilli()%9973) + float64(writer)}
	}
	return points
}

// counts are the numbers of acknowledged batches.
func (l *load) counts() (acked [loadWriters]int64) {
	for w := range acked {
		acked[w] = l.acked[w].Load()
	}
	return acked
}

// awaitBatch waits until the server has acknowledged a batch.
func (l *load) awaitBatch() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.counts() != [loadWriters]int64{} }, time.Minute, time.Millisecond)
}

func (l *load) end() {
	close(l.stop)
	l.work.Wait()
}

// require demands that a server holds the acknowledged batches, and that no sample of the load differs from what was sent.
func (l *load) require(s *server, acked [loadWriters]int64, note any) {
	l.t.Helper()
	got := s.series(l.metric, time.Now(), "6h")
	for writer := range loadWriters {
		have := got[fmt.Sprint("writer-", writer)]
		for n := range acked[writer] {
			for _, p := range l.batch(writer, n) {
				require.Equal(l.t, fmt.Sprintf("%g", p.value), have[p.tsMs], "%v: sample %d of batch %d of %d is lost or differs", note,
					p.tsMs, n, acked[writer])
				delete(have, p.tsMs)
			}
		}
		for tsMs, value := range have { // written after the backup began
			require.Equal(l.t, fmt.Sprintf("%g", float64(tsMs%9973)+float64(writer)), value, "%v: sample %d differs", note, tsMs)
		}
	}
}

var backupFlags = []string{"--no-web.self-scrape", "--web.enable-admin-api"}

// TestBackupsUnderLoad makes backups while clients write, flushes in between, kills the server during and after backups, and
// restores each backup. It opens with an ordinary start and holds every sample that was acknowledged before the backup began.
func TestBackupsUnderLoad(t *testing.T) {
	t.Parallel()
	_, rounds := seeds.Range(t, seeds.Default{Full: 10, Short: 3})
	rng := seeds.Rand(t, 1)
	root := t.TempDir()
	dir, repository := filepath.Join(root, "db"), filepath.Join(root, "backups")
	s := startServer(t, dir, backupFlags...)
	restored, cut, batches := 0, 0, int64(0)
	for tries := 0; restored < int(rounds); tries++ {
		l := startLoad(t, s, fmt.Sprintf("load_%d", tries), time.Now().Add(-4*time.Hour))
		l.awaitBatch()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if rng.IntN(2) == 0 {
			s.flush()
		}
		acked := l.counts()
		var killed chan error
		if rng.IntN(4) == 0 {
			delay := time.Duration(rng.IntN(150)) * time.Millisecond
			killed = make(chan error, 1)
			go func() {
				time.Sleep(delay)
				killed <- s.cmd.Process.Kill()
			}()
		}
		out, err := tsdb(t, "backup", "create", "--to", repository, "--url", s.url)
		if killed != nil {
			require.NoError(t, <-killed)
			require.Error(t, s.ended("SIGKILL"))
		} else {
			require.NoError(t, err, out)
		}
		if killed == nil && rng.IntN(3) == 0 {
			require.Error(t, s.end(syscall.SIGKILL))
			killed = make(chan error)
		}
		l.end()
		if killed != nil {
			s = startServer(t, dir, backupFlags...)
		}
		if err != nil {
			cut++
			continue
		}
		restored++
		batches += acked[0] + acked[1] + acked[2]
		requireRestore(t, rng, l, repository, acked, fmt.Sprintf("round %d", tries))
	}
	t.Logf("%d backups restored, %d cut off, %d batches acknowledged before a backup", restored, cut, batches)
	out, err := tsdb(t, "backup", "prune", "--from", repository, "--keep", "2")
	require.NoError(t, err, out)
	out, err = tsdb(t, "backup", "verify", "--from", repository)
	require.NoError(t, err, out)
	require.Equal(t, 2, strings.Count(out, "is complete"), out)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// requireRestore restores the newest backup and looks for the load in it.
func requireRestore(t *testing.T, rng *rand.Rand, l *load, repository string, acked [loadWriters]int64, note string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	out, err := tsdb(t, "backup", "restore", "--from", repository, "--to", dir)
	require.NoError(t, err, out)
	s := startServer(t, dir, "--no-web.self-scrape")
	l.require(s, acked, note)
	if rng.IntN(4) == 0 {
		require.Error(t, s.end(syscall.SIGKILL))
		s = startServer(t, dir, "--no-web.self-scrape")
		l.require(s, acked, note+", killed and started again")
	}
	require.Error(t, s.end(syscall.SIGKILL))
	require.NoError(t, os.RemoveAll(dir))
}

// TestCopyOfLiveDirectory copies the directory of a running server with cp, at once or part by part with flushes in
// between, as on a slow disk. The server refuses the copy, or the copy holds every sample that was acknowledged before
// cp began.
func TestCopyOfLiveDirectory(t *testing.T) {
	t.Parallel()
	_, rounds := seeds.Range(t, seeds.Default{Full: 9, Short: 3})
	rng := seeds.Rand(t, 2)
	root := t.TempDir()
	dir := filepath.Join(root, "db")
	s := startServer(t, dir, append(backupFlags, "--storage.reserve-bytes=0")...)
	opened, refused := 0, 0
	for round := range rounds {
		l := startLoad(t, s, fmt.Sprintf("load_%d", round), time.Now().Add(-4*time.Hour))
		l.awaitBatch()
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		acked := l.counts()
		target := filepath.Join(root, fmt.Sprint("copy-", round))
		require.NoError(t, os.Mkdir(target, 0o700))
		copied := ""
		for n, parts := range [][][]string{{{"tables", "wal"}}, {{"tables"}, {"wal"}}, {{"wal"}, {"tables"}}}[round%3] {
			if n > 0 {
				s.flush()
				time.Sleep(20 * time.Millisecond)
				s.flush()
			}
			for _, part := range parts { // cp fails if a file vanishes
				out, err := exec.Command("cp", "-r", filepath.Join(dir, part), target).CombinedOutput()
				copied += fmt.Sprintf("%s %v ", out, err)
			}
		}
		l.end()
		server := launch(t, target, freeAddress(t), "--no-web.self-scrape", "--storage.reserve-bytes=0")
		if !server.readyOrEnded() {
			refused++
			continue
		}
		opened++
		l.require(server, acked, fmt.Sprintf("round %d, cp: %s", round, copied))
		require.Error(t, server.end(syscall.SIGKILL))
	}
	t.Logf("%d copies opened, %d were refused", opened, refused)
	require.Positive(t, refused, "log and tables of different times")
}

// readyOrEnded waits until the server is ready. It returns false if the server ends first.
func (s *server) readyOrEnded() bool {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.done:
			return false
		default:
		}
		if resp, err := http.Get(s.url + "/-/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	require.Fail(s.t, "neither ready nor ended", s.log)
	return false
}

// startS3 serves S3-compatible storage with the bucket "backups" until the end of the test.
func startS3(t *testing.T) (url string, store *s3mem.Backend) {
	t.Helper()
	store = s3mem.New()
	require.NoError(t, store.CreateBucket("backups"))
	server := httptest.NewServer(gofakes3.New(store, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return server.URL, store
}

// TestBackupsInBucket backs a server up to S3-compatible storage while clients write, twice, and restores it. The second backup
// sends only what is new.
func TestBackupsInBucket(t *testing.T) {
	const key, secret = "AKIDEXAMPLE", "wJalrXUtnFEMI-secret"
	t.Setenv("AWS_ACCESS_KEY_ID", key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	endpoint, store := startS3(t)
	run := func(command string, args ...string) (out string, err error) {
		out, err = tsdb(t, append([]string{"backup", command, "--s3.endpoint", endpoint, "--s3.region", "us-east-1"}, args...)...)
		require.NotContains(t, out, secret)
		return out, err
	}
	const where = "s3://backups/halite"
	dir := filepath.Join(t.TempDir(), "db")
	s := startServer(t, dir, backupFlags...)
	l := startLoad(t, s, "load", time.Now().Add(-4*time.Hour))
	for range 2 {
		before := l.counts()
		require.Eventually(t, func() bool { return l.counts()[0] > before[0]+2 }, time.Minute, time.Millisecond)
		s.flush()
		acked := l.counts()
		out, err := run("create", "--to", where, "--url", s.url)
		require.NoError(t, err, out)
		restored := filepath.Join(t.TempDir(), "restored")
		out, err = run("restore", "--from", where, "--to", restored)
		require.NoError(t, err, out)
		r := startServer(t, restored, "--no-web.self-scrape")
		l.require(r, acked, "restored from the bucket")
		require.NoError(t, r.end(syscall.SIGTERM), r.log)
	}
	l.end()
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	out, err := run("create", "--to", where, "--storage.path", dir)
	require.NoError(t, err, out)
	out, err = run("create", "--to", where, "--storage.path", dir)
	require.NoError(t, err, out)
	require.Contains(t, out, "copied 0 bytes")

	out, err = run("list", "--from", where, "--output", "json")
	require.NoError(t, err, out)
	var list struct {
		Backups []struct {
			Name             string
			Files, SizeBytes int64
			Tables           bool
		}
		Unfinished []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &list), out)
	require.Len(t, list.Backups, 4)
	require.NotNil(t, list.Unfinished)
	require.Positive(t, list.Backups[3].SizeBytes)
	require.True(t, list.Backups[3].Tables)

	out, err = run("prune", "--from", where, "--keep", "1")
	require.NoError(t, err, out)
	require.Equal(t, 3, strings.Count(out, "removed backup"), out)
	out, err = run("verify", "--from", where)
	require.NoError(t, err, out)
	_, err = store.DeleteObject("backups", "halite/"+list.Backups[3].Name+"/manifest.json")
	require.NoError(t, err)
	out, err = run("verify", "--from", where)
	require.Error(t, err)
	require.Contains(t, out, "s3://backups/halite has no backup")
	out, err = tsdb(t, "backup", "list", "--from", "s3://"+key+":"+secret+"@backups/halite")
	require.Error(t, err)
	require.Contains(t, out, "takes no user, password or port")
	require.NotContains(t, out, secret)
}

// TestBackupCommands covers bad input, a stopped server, and a snapshot that a server opens directly.
func TestBackupCommands(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir, repository := filepath.Join(root, "db"), filepath.Join(root, "backups")
	now := time.Now().Truncate(time.Second)
	points := wave("backup_metric", 3, now.Add(-time.Hour), now, time.Minute)
	s := startServer(t, dir, backupFlags...)
	s.write(points)
	status, text, _ := s.post("/api/v1/admin/tsdb/snapshot?skip_head=false", nil)
	require.Equal(t, http.StatusOK, status, text)
	require.Regexp(t, `^\{"status":"success","data":\{"name":"\d{8}T\d{6}Z-[0-9a-f]{16}"\}\}$`, strings.TrimSpace(text))
	require.Regexp(t, `(?m)^tsdb_snapshots_total 1$`, s.metrics())
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshots", "*"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)

	fails := func(want string, args ...string) {
		t.Helper()
		out, err := tsdb(t, append([]string{"backup"}, args...)...)
		require.Error(t, err, out)
		require.Contains(t, out, want)
	}
	fails("another process holds the lock", "create", "--to", repository, "--storage.path", dir)
	fails("contradict each other", "create", "--to", repository, "--storage.path", dir, "--url", s.url)
	fails("is not the directory of a server", "create", "--to", repository, "--storage.path", filepath.Join(root, "none"))
	fails("is a server running there?", "create", "--to", repository, "--url", "http://"+freeAddress(t))
	fails("no such file", "list", "--from", repository)
	fails("which the backup copies", "create", "--to", filepath.Join(dir, "tables"), "--url", s.url)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)

	out, err := tsdb(t, "backup", "create", "--to", repository, "--storage.path", dir)
	require.NoError(t, err, out)
	out, err = tsdb(t, "backup", "create", "--to", repository, "--storage.path", dir)
	require.NoError(t, err, out)
	require.Contains(t, out, "copied 0 bytes")
	fails("is not empty", "restore", "--from", repository, "--to", root)
	fails("has no backup 20260101", "restore", "--from", repository, "--to", filepath.Join(root, "r"), "20260101T000000.000Z")
	// The error names the flag of the path, and no other flag.
	file := filepath.Join(root, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	fails("tsdb: --to: mkdir "+file+": not a directory", "create", "--to", filepath.Join(file, "x"), "--storage.path", dir)
	for _, part := range []string{"tables", filepath.Join("wal", "backups")} {
		fails("which the backup copies", "create", "--to", filepath.Join(dir, part), "--storage.path", dir)
	}
	fails("keep at least one", "prune", "--from", repository, "--keep", "0")
	for _, opened := range []string{filepath.Join(root, "restored"), snapshots[0]} {
		if opened != snapshots[0] {
			out, err = tsdb(t, "backup", "restore", "--from", repository, "--to", opened)
			require.NoError(t, err, out)
		}
		s = startServer(t, opened, "--no-web.self-scrape")
		requirePoints(t, s, "backup_metric", now, points)
		require.NoError(t, s.end(syscall.SIGTERM), s.log)
	}

	s = startServer(t, dir, "--no-web.self-scrape")
	fails("admin APIs disabled", "create", "--to", repository, "--url", s.url)
}
