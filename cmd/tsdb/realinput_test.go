//go:build realinput

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// realInputQueries are sent to both servers; $T is the window's length. Each is an instant query and a
// range query unless it yields a matrix or a string.
var realInputQueries = []string{
	`up`, `{job="node"}`, `node_load1`, `node_load1 offset 30s`, `node_cpu_seconds_total{mode="idle"}`,
	`node_cpu_seconds_total{mode!~"idle|iowait"}`, `{__name__=~"node_memory_.*_bytes"}`,
	`{__name__=~"node_network_(receive|transmit)_bytes_total",device!="lo"}`,
	`rate(node_cpu_seconds_total[1m])`, `irate(node_cpu_seconds_total[30s])`, `increase(node_context_switches_total[1m])`,
	`sum by (mode) (rate(node_cpu_seconds_total[1m]))`, `sum without (cpu, mode) (rate(node_cpu_seconds_total[45s]))`,
	`avg by (instance) (rate(node_cpu_seconds_total{mode="user"}[1m]))`,
	`100 - (avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[1m])) * 100)`,
	`delta(node_memory_MemFree_bytes[1m])`, `idelta(node_memory_MemFree_bytes[1m])`, `deriv(node_memory_MemFree_bytes[1m])`,
	`predict_linear(node_memory_MemFree_bytes[1m], 600)`, `avg_over_time(node_load1[1m])`, `min_over_time(node_load1[1m])`,
	`max_over_time(node_load5[1m])`, `sum_over_time(node_procs_running[1m])`, `count_over_time(up[2m])`,
	`stddev_over_time(node_memory_MemFree_bytes[1m])`, `stdvar_over_time(node_load1[2m])`, `quantile_over_time(0.9, node_load1[1m])`,
	`last_over_time(node_load1[20s])`, `present_over_time(up[1m])`, `absent(nonexistent_metric)`,
	`absent_over_time(up{job="none"}[1m])`,
	`changes(node_procs_running[2m])`, `resets(node_procs_running[2m])`,
	`topk(3, node_memory_MemTotal_bytes or node_memory_MemFree_bytes)`,
	`bottomk(2, node_load1 or node_load5 or node_load15)`, `quantile(0.5, node_cpu_seconds_total)`, `stddev(node_cpu_seconds_total)`,
	`count by (mode) (node_cpu_seconds_total)`, `count_values("v", node_cpu_seconds_total{cpu="0"} > bool 1)`, `group by (job) (up)`,
	`histogram_quantile(0.9, sum by (le) (rate(prometheus_http_request_duration_seconds_bucket[2m])))`,
	`histogram_quantile(0.5, rate(prometheus_http_response_size_bytes_bucket[2m]))`,
	`rate(prometheus_http_request_duration_seconds_sum[2m]) / rate(prometheus_http_request_duration_seconds_count[2m])`,
	`node_memory_MemFree_bytes / node_memory_MemTotal_bytes`,
	`node_memory_MemFree_bytes / on (instance) group_left node_memory_MemTotal_bytes`,
	`node_filesystem_avail_bytes / node_filesystem_size_bytes < 0.99`, `up == 1`, `up == bool 1`, `node_load1 > node_load5`,
	`node_load1 and node_load5`, `node_load1 unless node_load5`, `up or node_load1`, `-node_load1 ^ 2`, `node_load1 % 0.3`,
	`label_replace(up, "short", "$1", "instance", "(.*):.*")`, `label_join(up, "both", "-", "job", "instance")`,
	`abs(node_load1 - node_load5)`, `ceil(node_load1)`, `floor(node_load1)`, `round(node_load1, 0.5)`, `clamp(node_load1, 0.1, 0.5)`,
	`sqrt(node_load1)`, `ln(node_load1 + 1)`, `exp(-node_load1)`, `sgn(node_load1 - 1)`, `sort_desc(node_load1 or node_load5)`,
	`timestamp(up)`, `time() - node_boot_time_seconds`, `hour(node_boot_time_seconds)`, `day_of_week()`,
	`scalar(node_load1)`, `vector(1)`, `1 + 1`,
	`max_over_time(rate(node_context_switches_total[30s])[1m:10s])`, `avg_over_time(node_load1[1m:])`,
	`sum(rate(node_cpu_seconds_total[1m] offset 20s)) by (cpu)`,
	`rate(process_cpu_seconds_total[1m])`, `sum(scrape_samples_scraped)`, `sum by (job) (scrape_duration_seconds)`,
	`go_memstats_alloc_bytes{job=~"prom.*"}`, `prometheus_tsdb_head_samples_appended_total`,
	`rate(prometheus_tsdb_head_samples_appended_total[1m])`,
	`node_cpu_seconds_total @ end()`, `min by (device) (node_disk_io_time_seconds_total)`,
	`node_uname_info * on (instance) group_left (release) node_uname_info`,
	`sum(node_network_receive_bytes_total) by (device) > 0`, `count({__name__=~".+"})`, `count by (__name__) ({job="prometheus"})`,
}

// TestRealInput lets a real Prometheus scrape itself and node_exporter every 5 s and remote-write to the server. It
// kills the server with SIGKILL, later flushes it, and demands that every query gives the same result on both.
// PROMETHEUS and NODE_EXPORTER name the binaries; REALINPUT_SECONDS the length; REALINPUT_ENGINE=bigtable keeps the
// tables in an emulator.
func TestRealInput(t *testing.T) {
	seconds := envInt(t, "REALINPUT_SECONDS", 240)
	require.GreaterOrEqual(t, seconds, 200, "the queries' windows must lie within the data")
	prometheus, exporter := findBinary(t, "PROMETHEUS", "prometheus"), findBinary(t, "NODE_EXPORTER", "prometheus-node-exporter")
	dir, dataDir := t.TempDir(), t.TempDir()
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	if envOr("REALINPUT_ENGINE", "pebble") == "bigtable" {
		startEmulator(t)
		flags = append(flags, bigtableFlags...)
	}
	s := startServer(t, dataDir, flags...)
	promAddr, nodeAddr := freeAddress(t), freeAddress(t)
	startProcess(t, exporter, "--web.listen-address="+nodeAddr)
	config := fmt.Sprintf(realInputConfig, promAddr, nodeAddr, s.url)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	startProcess(t, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "prom"), "--web.listen-address="+promAddr)

	begin := time.Now()
	time.Sleep(time.Duration(seconds) * time.Second * 2 / 5)
	addr := strings.TrimPrefix(s.url, "http://")
	require.Error(t, s.end(syscall.SIGKILL))
	time.Sleep(7 * time.Second)
	s = startServerAt(t, dataDir, addr, flags...)
	s.flush()
	time.Sleep(time.Until(begin.Add(time.Duration(seconds) * time.Second)))
	end := time.Now().Add(-10 * time.Second)
	prom := "http://" + promAddr
	waitCaughtUp(t, `{job=~".+"}`, prom, s.url, begin, end)
	total, equal := compareAll(t, realInputQueries, prom, s.url, begin, end)
	t.Logf("real input: %d of %d queries equal over %s", equal, total, end.Sub(begin).Round(time.Second))
	require.Equal(t, total, equal)
	require.GreaterOrEqual(t, total, 60)
	require.NoError(t, s.end(syscall.SIGTERM))
}

// realInputLead keeps every window of the queries within the data. Prometheus's releases differ in how they extrapolate
// a rate beyond a series' first sample, and the test may run against any release. A first scrape may be an interval
// late, and the histogram of a handler has samples only from the scrape that follows its first request.
const realInputLead = 136 * time.Second

const realInputConfig = `
global: {scrape_interval: 5s}
scrape_configs:
  - job_name: prometheus
    static_configs: [{targets: ["%s"]}]
  - job_name: node
    static_configs: [{targets: ["%s"]}]
remote_write:
  - url: %s/api/v1/write
`

func compareAll(t *testing.T, queries []string, prom, ours string, begin, end time.Time) (total, equal int) {
	steps := []string{"5", "7.5", "15", "1m", "13s"}
	for i, q := range queries {
		at := end.Add(-time.Duration(i%5) * 11731 * time.Millisecond)
		total++
		ok := compareQuery(t, prom, ours, "/api/v1/query", url.Values{"query": {q}, "time": {unix(at)}})
		if ok {
			equal++
		}
		if strings.HasPrefix(q, "sort") {
			continue
		}
		total++
		from := begin.Add(realInputLead + time.Duration(i%7)*1013*time.Millisecond)
		ok = compareQuery(t, prom, ours, "/api/v1/query_range", url.Values{
			"query": {q}, "start": {unix(from)}, "end": {unix(at)}, "step": {steps[i%len(steps)]},
		})
		if ok {
			equal++
		}
	}
	return total, equal
}

func compareQuery(t *testing.T, prom, ours, path string, params url.Values) bool {
	want, wantErr := fetch(prom+path, params)
	got, gotErr := fetch(ours+path, params)
	if wantErr != nil || gotErr != nil {
		if wantErr != nil && gotErr != nil && wantErr.Error() == gotErr.Error() {
			return true
		}
		t.Errorf("%s %v: Prometheus says %v, we say %v", path, params, wantErr, gotErr)
		return false
	}
	if diff := difference(want, got, ""); diff != "" {
		t.Errorf("%s %v: %s", path, params, diff)
		return false
	}
	return true
}

// fetch returns the response's data with the result sorted by labels.
func fetch(base string, params url.Values) (any, error) {
	resp, err := http.PostForm(base, params)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var response struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     any
		}
	}
	if err := json.Unmarshal(body, &response); err != nil {
		return nil, fmt.Errorf("%w: %.200s", err, body)
	}
	if response.Status != "success" {
		return nil, fmt.Errorf("%d %s", resp.StatusCode, response.Error)
	}
	if list, ok := response.Data.Result.([]any); ok && response.Data.ResultType != "scalar" && response.Data.ResultType != "string" {
		sort.SliceStable(list, func(i, j int) bool { return labelsOf(list[i]) < labelsOf(list[j]) })
	}
	return []any{response.Data.ResultType, response.Data.Result}, nil
}

func labelsOf(entry any) string {
	text, _ := json.Marshal(entry.(map[string]any)["metric"])
	return string(text)
}

// difference names the first place where two JSON values differ; numbers in strings may differ by 1e-12 relative.
func difference(want, got any, path string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: want %v, got %v", path, want, got)
		}
		for k := range w {
			if d := difference(w[k], g[k], path+"."+k); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Sprintf("%s: want %d entries, got %d (%.300v ≠ %.300v)", path, len(w), len(g), want, got)
		}
		for i := range w {
			if d := difference(w[i], g[i], fmt.Sprintf("%s[%d]", path, i)); d != "" {
				return d
			}
		}
		return ""
	case string:
		g, ok := got.(string)
		if ok && (w == g || closeEnough(w, g)) {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s: want %v, got %v", path, want, got)
}

func closeEnough(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && math.Abs(x-y) <= 1e-12*math.Max(math.Abs(x), math.Abs(y))
}

func unix(t time.Time) string { return fmt.Sprintf("%.3f", float64(t.UnixMilli())/1000) }

// waitCaughtUp waits until both servers hold the same raw samples up to end: no acknowledged sample is missing, and
// Prometheus has retried all others.
func waitCaughtUp(t *testing.T, selector, prom, ours string, begin, end time.Time) {
	raw := url.Values{"query": {fmt.Sprintf(`%s[%ds]`, selector, int(end.Sub(begin).Seconds())+30)}, "time": {unix(end)}}
	var diff string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(3 * time.Second) {
		want, err := fetch(prom+"/api/v1/query", raw)
		require.NoError(t, err)
		got, err := fetch(ours+"/api/v1/query", raw)
		require.NoError(t, err)
		if diff = difference(want, got, ""); diff == "" {
			return
		}
	}
	t.Fatalf("the server did not catch up: %s", diff)
}

// startProcess starts a process that ends with the test, and returns its output.
func startProcess(t *testing.T, path string, args ...string) *logBuffer {
	cmd, log := exec.Command(path, args...), &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return log
}

func findBinary(t *testing.T, env, name string) string {
	if p := os.Getenv(env); p != "" {
		return p
	}
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is needed: apt-get install prometheus prometheus-node-exporter prometheus-alertmanager, or set %s", name, env)
	}
	return p
}

func envInt(t *testing.T, name string, preset int) int {
	v := os.Getenv(name)
	if v == "" {
		return preset
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err, name)
	return n
}
