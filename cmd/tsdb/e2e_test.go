package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

var binary string

// TestMain builds the binary once: these tests see the server only as a user does.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tsdb-e2e")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "tsdb")
	build := exec.Command("go", "build", "-o", binary, "halite/cmd/tsdb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if raceEnabled {
		build = exec.Command("go", "build", "-race", "-o", binary, "halite/cmd/tsdb")
		// A server that finds a race exits at once, so the test that uses it fails.
		os.Setenv("GORACE", "halt_on_error=1")
	}
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// logBuffer holds the output of a server. Tests read it while the server still writes.
type logBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// server is one running process.
type server struct {
	t    testing.TB
	cmd  *exec.Cmd
	url  string
	log  *logBuffer
	done chan error
}

// startServer starts the binary on dir and waits until it is ready.
func startServer(t testing.TB, dir string, flags ...string) *server {
	t.Helper()
	return startServerAt(t, dir, freeAddress(t), flags...)
}

func startServerAt(t testing.TB, dir, addr string, flags ...string) *server {
	t.Helper()
	s := launch(t, dir, addr, flags...)
	s.awaitReady()
	return s
}

// launch starts the binary and does not wait.
func launch(t testing.TB, dir, addr string, flags ...string) *server {
	t.Helper()
	return launchWith(t, command(t), dir, addr, flags...)
}

// launchWith is launch with a command that takes the arguments of the binary.
func launchWith(t testing.TB, cmd *exec.Cmd, dir, addr string, flags ...string) *server {
	t.Helper()
	cmd.Args = append(append(cmd.Args, "serve", "--storage.path", dir, "--web.listen-address", addr), flags...)
	s := &server{t: t, cmd: cmd, url: "http://" + addr, log: &logBuffer{}, done: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	require.NoError(t, s.cmd.Start())
	go func() { s.done <- s.cmd.Wait() }()
	t.Cleanup(func() { s.cmd.Process.Kill() })
	return s
}

func (s *server) awaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		select {
		case err := <-s.done:
			s.t.Fatalf("the server ended at once: %v\n%s", err, s.log)
		case <-time.After(20 * time.Millisecond):
		}
		if resp, err := http.Get(s.url + "/-/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
	}
	s.t.Fatalf("not ready within a minute\n%s", s.log)
}

// end sends sig and waits for the process.
func (s *server) end(sig syscall.Signal) error {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
	return s.ended(sig)
}

// ended waits for the end of the process; why is the reason for messages.
func (s *server) ended(why any) error {
	s.t.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(time.Minute):
		s.t.Fatalf("still running a minute after %v\n%s", why, s.log)
		return nil
	}
}

// point is one sample of a series known by its labels' string.
type point struct {
	metric, instance string
	tsMs             int64
	value            float64
}

func encodeWrite(points []point) []byte {
	var req prompb.WriteRequest
	for _, p := range points {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels: []prompb.Label{
				{Name: "__name__", Value: p.metric}, {Name: "instance", Value: p.instance}, {Name: "job", Value: "e2e"},
			},
			Samples: []prompb.Sample{{Timestamp: p.tsMs, Value: p.value}},
		})
	}
	body, err := req.Marshal()
	if err != nil {
		panic(err)
	}
	return snappy.Encode(nil, body)
}

func (s *server) post(path string, body []byte) (status int, text string, header http.Header) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+path, bytes.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(b), resp.Header
}

func (s *server) write(points []point) {
	s.t.Helper()
	status, text, _ := s.post("/api/v1/write", encodeWrite(points))
	require.Equal(s.t, http.StatusNoContent, status, text)
}

// writeRetrying writes as a sender does: a server that is too slow for the moment answers 503, and the sender tries again.
func (s *server) writeRetrying(points []point) {
	s.t.Helper()
	body := encodeWrite(points)
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, text, _ := s.post("/api/v1/write", body)
		if status == http.StatusNoContent {
			return
		}
		require.Equal(s.t, http.StatusServiceUnavailable, status, text)
		require.True(s.t, time.Now().Before(until), "refused for a minute: %s", text)
	}
}

type apiResponse struct {
	Status    string          `json:"status"`
	ErrorType string          `json:"errorType"`
	Error     string          `json:"error"`
	Data      json.RawMessage `json:"data"`
}

func (s *server) get(path string, params url.Values) (int, apiResponse) {
	s.t.Helper()
	resp, err := http.Get(s.url + path + "?" + params.Encode())
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var a apiResponse
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&a))
	return resp.StatusCode, a
}

// series reads all raw samples of a matrix selector: timestamps in ms → value, by instance.
func (s *server) series(metric string, at time.Time, span string) map[string]map[int64]string {
	s.t.Helper()
	status, a := s.get("/api/v1/query", url.Values{
		"query": {metric + "[" + span + "]"}, "time": {fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000)},
	})
	require.Equal(s.t, http.StatusOK, status, a.Error)
	var data struct {
		Result []struct {
			Metric map[string]string    `json:"metric"`
			Values [][2]json.RawMessage `json:"values"`
		} `json:"result"`
	}
	require.NoError(s.t, json.Unmarshal(a.Data, &data))
	all := map[string]map[int64]string{}
	for _, r := range data.Result {
		m := map[int64]string{}
		for _, v := range r.Values {
			var sec float64
			var text string
			require.NoError(s.t, json.Unmarshal(v[0], &sec))
			require.NoError(s.t, json.Unmarshal(v[1], &text))
			m[int64(sec*1000+0.5)] = text
		}
		all[r.Metric["instance"]] = m
	}
	return all
}

// wave returns samples of n instances at every step in [from, to).
func wave(metric string, n int, from, to time.Time, step time.Duration) []point {
	var points []point
	for i := 0; i < n; i++ {
		for t := from; t.Before(to); t = t.Add(step) {
			points = append(points, point{metric, fmt.Sprintf("host-%d", i), t.UnixMilli(), float64(t.Unix()%1000) + float64(i)/4})
		}
	}
	return points
}

func requirePoints(t *testing.T, s *server, metric string, at time.Time, want []point) {
	t.Helper()
	got := s.series(metric, at, "6h")
	count := 0
	for _, m := range got {
		count += len(m)
	}
	require.Equal(t, len(want), count, "samples of %s", metric)
	for _, p := range want {
		require.Equal(t, fmt.Sprintf("%g", p.value), got[p.instance][p.tsMs], "%s{instance=%q} at %d", p.metric, p.instance, p.tsMs)
	}
}

func TestServeSurvivesEveryEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	first := wave("e2e_metric", 20, now.Add(-3*time.Hour), now.Add(-time.Hour), 15*time.Second)
	second := wave("e2e_metric", 20, now.Add(-time.Hour), now, 15*time.Second)

	s := startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	s.write(first)
	requirePoints(t, s, "e2e_metric", now, first)
	require.NoError(t, s.end(syscall.SIGTERM), "SIGTERM must end with exit code 0:\n%s", s.log)

	s = startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	requirePoints(t, s, "e2e_metric", now, first)
	s.write(second)
	all := append(append([]point{}, first...), second...)
	requirePoints(t, s, "e2e_metric", now, all)
	require.Error(t, s.end(syscall.SIGKILL))

	s = startServer(t, dir, "--no-web.self-scrape", "--web.enable-admin-api")
	requirePoints(t, s, "e2e_metric", now, all)
	status, text, _ := s.post("/api/v1/admin/flush", nil)
	require.Less(t, status, 300, text)
	requirePoints(t, s, "e2e_metric", now, all)
	require.Error(t, s.end(syscall.SIGKILL))

	s = startServer(t, dir, "--no-web.self-scrape")
	requirePoints(t, s, "e2e_metric", now, all)
	status, text, _ = s.post("/api/v1/admin/flush", nil)
	require.Equal(t, http.StatusForbidden, status, text)
	require.NoError(t, s.end(syscall.SIGTERM))
	testInspect(t, "--storage.path", dir)
}

func TestKillUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	killUnderLoad(t)
}

// killUnderLoad kills a server with these flags three times while it takes writes. No acknowledged write may be lost.
func killUnderLoad(t *testing.T, flags ...string) {
	dir := t.TempDir()
	flags = append([]string{"--no-web.self-scrape"}, flags...)
	end := time.Now().Truncate(time.Second)
	var acked []point
	for round := 0; round < 3; round++ {
		s := startServer(t, dir, flags...)
		killed := make(chan struct{})
		// A slow disk may need longer for the first write.
		killSoon := sync.OnceFunc(func() {
			time.AfterFunc(700*time.Millisecond, func() { s.cmd.Process.Signal(syscall.SIGKILL); close(killed) })
		})
		for i, until := 0, time.Now().Add(time.Minute); ; i++ {
			require.True(t, time.Now().Before(until), "no write is acknowledged")
			at := end.Add(-time.Duration(round+1) * time.Hour).Add(time.Duration(i) * 100 * time.Millisecond)
			batch := wave("killed", 10, at, at.Add(time.Millisecond), time.Second)
			resp, err := http.Post(s.url+"/api/v1/write", "application/x-protobuf", bytes.NewReader(encodeWrite(batch)))
			if err != nil {
				break
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusNoContent {
				acked = append(acked, batch...)
				killSoon()
			}
		}
		<-killed
		<-s.done
	}
	s := startServer(t, dir, flags...)
	got := s.series("killed", end, "5h")
	for _, p := range acked {
		require.Equal(t, fmt.Sprintf("%g", p.value), got[p.instance][p.tsMs], "acknowledged but gone: %+v", p)
	}
	require.NoError(t, s.end(syscall.SIGTERM))
}

func TestSelfScrapeShowsUp(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--web.self-scrape-interval", "1s")
	require.Eventually(t, func() bool {
		_, a := s.get("/api/v1/query", url.Values{"query": {`count({job="halite-self-scrape"})`}})
		return strings.Contains(string(a.Data), `"value"`)
	}, time.Minute, 200*time.Millisecond, s.log.String())
	_, a := s.get("/api/v1/query", url.Values{"query": {`up{job="halite-self-scrape"}`}})
	require.Contains(t, string(a.Data), `"1"`)
	status, a := s.get("/api/v1/status/overview", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(a.Data), `"waiting":true`)
	require.Contains(t, string(a.Data), `"ownJob":"halite-self-scrape"`)
}

func TestSecondStartNamesTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startServer(t, dir, "--no-web.self-scrape")
	out, err := command(t, "serve", "--storage.path", dir, "--web.listen-address", freeAddress(t)).CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "a second server on the same path must not start: %v\n%s", err, out)
	require.Contains(t, string(out), "lock")
	require.Contains(t, string(out), dir)
}

func TestBadFlagsAreNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serve --no-such-flag", "no-such-flag"},
		{"serve --storage.retention.raw=1h", "--storage.retention.raw"},
		{"serve --query.max-samples=0 --query.timeout=0s", "--query.timeout"},
		{"nonsense", "nonsense"},
		{"inspect keys --storage.path=/nonexistent/path", "/nonexistent/path"},
	} {
		out, err := command(t, strings.Fields(c.args)...).CombinedOutput()
		require.Error(t, err, c.args)
		require.Contains(t, string(out), c.want, c.args)
	}
}

func TestBadInputOverHTTP(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--no-web.self-scrape")
	now := time.Now()
	status, text, _ := s.post("/api/v1/write", []byte("this is not snappy"))
	require.Equal(t, http.StatusBadRequest, status, text)

	mixed := []point{
		{"good_one", "a", now.UnixMilli(), 1},
		{"too_far_ahead", "a", now.Add(time.Hour).UnixMilli(), 1},
		{"too_old", "a", now.Add(-40 * 24 * time.Hour).UnixMilli(), 1},
		{"", "no-name", now.UnixMilli(), 1},
		{"good_two", "a", now.UnixMilli(), 2},
	}
	status, text, _ = s.post("/api/v1/write", encodeWrite(mixed))
	require.Equal(t, http.StatusBadRequest, status, text)
	require.Contains(t, text, "too_far_ahead")
	for _, name := range []string{"good_one", "good_two"} {
		require.Len(t, s.series(name, now.Add(time.Second), "1h"), 1, name)
	}
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(metrics), "_rejected_total{")
}
