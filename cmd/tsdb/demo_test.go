package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const demoTestHosts = 10

// startDemo starts `tsdb demo` and waits until its past is filled.
func startDemo(t *testing.T, flags ...string) *server {
	t.Helper()
	addr := freeAddress(t)
	args := append([]string{"demo", "--web.listen-address", addr, "--demo.hosts", strconv.Itoa(demoTestHosts)}, flags...)
	s := &server{t: t, cmd: command(t, args...), url: "http://" + addr, log: &logBuffer{}, done: make(chan error, 1)}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	require.NoError(t, s.cmd.Start())
	go func() { s.done <- s.cmd.Wait() }()
	t.Cleanup(func() { s.cmd.Process.Kill() })
	began := time.Now()
	require.Eventually(t, func() bool {
		resp, err := http.PostForm(s.url+"/api/v1/query", url.Values{"query": {"count(demo_latency_seconds)"},
			"time": {strconv.FormatInt(began.Unix(), 10)}})
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var a apiResponse
		return json.NewDecoder(resp.Body).Decode(&a) == nil && strings.Contains(string(a.Data), fmt.Sprintf(`"%d"`, demoTestHosts))
	}, 5*time.Minute, 100*time.Millisecond, "%s", s.log) // the race detector makes it slow
	return s
}

// hottest is the instance with the highest rate at a time.
func (s *server) hottest(at time.Time) string {
	s.t.Helper()
	code, a := s.get("/api/v1/query", url.Values{"query": {"topk(1, rate(demo_requests_total[5m]))"},
		"time": {strconv.FormatInt(at.Unix(), 10)}})
	require.Equal(s.t, http.StatusOK, code, a.Error)
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	require.NoError(s.t, json.Unmarshal(a.Data, &data))
	require.Len(s.t, data.Result, 1)
	return data.Result[0].Metric["instance"]
}

// requireDescribed waits until the server has metadata of the given types. The server scrapes itself after its start.
func (s *server) requireDescribed(types map[string]string) {
	s.t.Helper()
	for metric, want := range types {
		require.Eventually(s.t, func() bool {
			code, a := s.get("/api/v1/metadata", url.Values{"metric": {metric}})
			var found map[string][]struct{ Type, Help string }
			return code == http.StatusOK && json.Unmarshal(a.Data, &found) == nil &&
				len(found[metric]) == 1 && found[metric][0].Type == want && found[metric][0].Help != ""
		}, time.Minute, 100*time.Millisecond, metric)
	}
}

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	s := startDemo(t, "--storage.path", dir)
	now := time.Now()
	filled := s.series(`demo_requests_total`, now, "7h")
	require.Len(t, filled, demoTestHosts)
	for instance, samples := range filled {
		require.GreaterOrEqual(t, len(samples), 6*240, "six hours of %s, four samples a minute", instance)
	}
	others, _, err := s.queryRange("app_requests_total", now.Add(-6*time.Hour+time.Minute), now, time.Minute)
	require.NoError(t, err)
	require.GreaterOrEqual(t, others, 3*3*demoTestHosts, "the fleet's own series")
	s.requireDescribed(map[string]string{
		"demo_requests_total": "counter", "app_request_duration_seconds": "histogram", "tsdb_ingest_samples_total": "counter",
	})
	places := map[string]bool{}
	for i := range 5 { // after two hours it is at the same place again
		places[s.hottest(now.Add(-time.Duration(i)*25*time.Minute))] = true
	}
	require.GreaterOrEqual(t, len(places), 4, "the hot spot moves: %v", places)

	out, err := command(t, "graph", "--url", s.url, "--from", "6h", "sum by (instance) (rate(demo_requests_total[5m]))").
		CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, demoTestHosts, strings.Count(string(out), "\nhost-")+1, string(out))
	require.Contains(t, string(out), "█")

	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	require.NotContains(t, s.log.String(), "remote_write:", "text to paste is for terminals")
	require.Contains(t, s.log.String(), "tsdb graph --url "+s.url)

	out, err = command(t, "demo", "--storage.path", dir, "--web.listen-address", freeAddress(t)).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "tsdb serve")
	s = startServer(t, dir, "--no-web.self-scrape")
	again := s.series(`demo_requests_total`, now, "7h")
	for instance, samples := range filled {
		require.Subset(t, again[instance], samples, "serve goes on with what the demo wrote")
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestDemoCleansUp: without --storage.path a demo leaves no files behind.
func TestDemoCleansUp(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := startDemo(t, "--demo.span", "5m")
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	entries, err = os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestDemoAndGraphFaults(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"demo --demo.hosts=0 --demo.span=40d", "--demo.hosts"},
		{"demo --demo.hosts=0 --demo.span=40d", "--demo.span"},
		{"graph --width=0 up", "--width"},
		{"graph --url=http://" + freeAddress(t) + " up", "is a server running there"},
	} {
		out, err := command(t, strings.Fields(c.args)...).CombinedOutput()
		require.Error(t, err, c.args)
		require.Contains(t, string(out), c.want, c.args)
	}
}
