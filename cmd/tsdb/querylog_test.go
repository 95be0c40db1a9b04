package main_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// loggedQueries are the lines of a query log with a status.
func loggedQueries(t *testing.T, path, status string) (lines []map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for text := range strings.Lines(string(data)) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		if l["status"] == status {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestKilledServerNamesItsQueries kills the server while a query runs. The next start names the query in both logs.
func TestKilledServerNamesItsQueries(t *testing.T) {
	t.Parallel()
	const heavy = `quantile_over_time(0.5, rate(heavy_total[5m])[5m:1s])` // Takes several seconds.
	dir, logFile := t.TempDir(), filepath.Join(t.TempDir(), "queries.log")
	flags := []string{"--no-web.self-scrape", "--query.log-file", logFile, "--query.log-slower-than", "0s"}
	s := startServer(t, dir, flags...)
	to := time.Now().Truncate(time.Minute)
	from := to.Add(-10 * time.Minute)
	s.write(wave("heavy_total", 1000, from, to, 15*time.Second))
	status, a := s.get("/api/v1/query", url.Values{"query": {"count(heavy_total)"}, "time": {strconv.FormatInt(to.Unix()-1, 10)}})
	require.Equal(t, http.StatusOK, status, a.Error)
	require.Eventually(t, func() bool { return len(loggedQueries(t, logFile, "success")) == 1 }, time.Minute, time.Millisecond)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	for range 2 {
		clients.Go(func() {
			_ = queryAndRead(ctx, s.url+"/api/v1/query_range?"+url.Values{
				"query": {heavy}, "start": {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
				"step": {"1"}, "nocache": {"1"},
			}.Encode())
		})
	}
	require.Eventually(t, func() bool {
		_, a := s.get("/api/v1/status/active_queries", nil)
		return strings.Contains(string(a.Data), `"waiting":false`)
	}, time.Minute, time.Millisecond)
	require.Error(t, s.end(syscall.SIGKILL))
	stop()

	s = startServer(t, dir, flags...)
	require.Contains(t, s.log.String(), `msg="query did not finish before the server died" query="`+heavy+`" kind=range`)
	require.Eventually(t, func() bool { return len(loggedQueries(t, logFile, "unfinished")) > 0 }, time.Minute, time.Millisecond)
	line := loggedQueries(t, logFile, "unfinished")[0]
	require.Equal(t, []any{heavy, "range", float64(from.UnixMilli()), float64(to.UnixMilli()), 1000.},
		[]any{line["query"], line["kind"], line["startMs"], line["endMs"], line["stepMs"]})
	info, err := os.Stat(filepath.Join(dir, "queries.active"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	require.NoError(t, os.Rename(logFile, logFile+".1"))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { _, err := os.Stat(logFile); return err == nil }, time.Minute, time.Millisecond)
	require.NoError(t, s.end(syscall.SIGTERM))
	s = startServer(t, dir) // Active queries are recorded without a log as well.
	require.NotContains(t, s.log.String(), "did not finish")
	require.FileExists(t, filepath.Join(dir, "queries.active"))
}

// TestQueriesBeyondMemory has several clients select every series with little memory. The server refuses them,
// survives, and accepts writes.
func TestQueriesBeyondMemory(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "256MiB")
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--query.max-bytes", "8MB", "--query.max-total-bytes", "12MB")
	to := time.Now().Truncate(time.Minute)
	from := to.Add(-10 * time.Minute)
	s.write(wave("wide_total", 3000, from, to, 15*time.Second))
	at := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

	var mu sync.Mutex
	codes := map[int]int{}
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 5 {
				params := url.Values{"query": {`{__name__=~".+"}`}, "start": {at(from)}, "end": {at(to)}, "step": {"1"}, "nocache": {"1"}}
				if i%2 == 0 {
					params.Set("query", `sum by (instance) (max_over_time({__name__=~".+"}[10m:1s]))`)
				}
				resp, err := http.Get(s.url + "/api/v1/query_range?" + params.Encode())
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				mu.Lock()
				codes[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	for i := range 20 {
		s.write([]point{{"beside_total", "a", to.UnixMilli() + int64(i), float64(i)}})
	}
	clients.Wait()
	require.Equal(t, 40, codes[http.StatusUnprocessableEntity]+codes[http.StatusServiceUnavailable], "%v", codes)
	require.Len(t, s.series("beside_total", to.Add(time.Second), "1m")["a"], 20)
	require.NoError(t, s.end(syscall.SIGTERM))
}
