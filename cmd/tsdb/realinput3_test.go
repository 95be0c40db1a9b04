//go:build realinput

package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	promtsdb "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/index"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// realHistogramQueries are sent in addition to realInputQueries.
var realHistogramQueries = []string{
	`{__name__=~"exposer_.*"}`, `exposer_latency_seconds`, `exposer_float_seconds`, `exposer_gauge_seconds`,
	`exposer_classic_seconds`, `exposer_latency_seconds{path="/3"} offset 30s`, `rate(exposer_latency_seconds[1m])`,
	`increase(exposer_latency_seconds[1m])`, `irate(exposer_latency_seconds[30s])`, `rate(exposer_float_seconds[1m])`,
	`delta(exposer_gauge_seconds[1m])`, `idelta(exposer_gauge_seconds[1m])`, `rate(exposer_classic_seconds[1m])`,
	`sum(rate(exposer_latency_seconds[1m]))`, `sum by (path) (rate(exposer_classic_seconds[1m]))`,
	`avg by (job) (rate(exposer_latency_seconds[90s]))`, `avg(exposer_gauge_seconds)`,
	`histogram_quantile(0.9, sum(rate(exposer_latency_seconds[1m])))`, `histogram_quantile(0.5, exposer_float_seconds)`,
	`histogram_quantile(0.99, rate(exposer_latency_seconds[1m]))`, `histogram_quantile(0.9, rate(exposer_classic_seconds[1m]))`,
	`histogram_count(rate(exposer_latency_seconds[1m]))`, `histogram_sum(rate(exposer_latency_seconds[1m]))`,
	`histogram_avg(rate(exposer_latency_seconds[1m]))`, `histogram_fraction(0.01, 0.2, rate(exposer_latency_seconds[1m]))`,
	`histogram_fraction(0, 0.1, sum(rate(exposer_classic_seconds[1m])))`, `histogram_stddev(exposer_latency_seconds)`,
	`histogram_stdvar(exposer_float_seconds)`, `topk(3, histogram_count(exposer_latency_seconds))`,
	`topk(3, exposer_latency_seconds)`, `bottomk(2, histogram_sum(exposer_latency_seconds))`,
	`count(exposer_latency_seconds)`, `group by (path) (exposer_latency_seconds)`, `limitk(100, exposer_latency_seconds)`,
	`sum_over_time(exposer_gauge_seconds[1m])`, `avg_over_time(exposer_gauge_seconds[1m])`,
	`last_over_time(exposer_latency_seconds[20s])`, `count_over_time(exposer_latency_seconds[1m])`,
	`present_over_time(exposer_latency_seconds[1m])`, `changes(exposer_latency_seconds[1m])`,
	`resets(exposer_latency_seconds[2m])`, `min_over_time(exposer_latency_seconds[1m])`, `timestamp(exposer_latency_seconds)`,
	`exposer_latency_seconds * 2`, `exposer_latency_seconds / 3`, `-exposer_gauge_seconds`,
	`exposer_latency_seconds - exposer_latency_seconds offset 10s`, `exposer_latency_seconds == exposer_latency_seconds`,
	`exposer_latency_seconds and exposer_classic_seconds`, `exposer_latency_seconds unless exposer_requests_total`,
	`exposer_latency_seconds > 1`, `absent(exposer_latency_seconds)`, `sum({__name__=~"exposer_(float|gauge)_seconds"})`,
	`label_replace(exposer_float_seconds, "a", "$1", "job", "(.*)")`, `rate(exposer_requests_total[1m])`,
	`avg_over_time(rate(exposer_latency_seconds[30s])[1m:10s])`, `exposer_latency_seconds @ end()`,
	`histogram_quantile(0.9, sum by (handler) (rate(prometheus_http_request_duration_seconds[2m])))`,
	`histogram_count(prometheus_http_request_duration_seconds)`, `rate(prometheus_tsdb_compaction_duration_seconds[2m])`,
	`sum by (job) (rate(prometheus_http_response_size_bytes[1m]))`, `{__name__="prometheus_http_request_duration_seconds"}`,
}

// customBuckets matches the queries that select histograms with custom buckets.
var customBuckets = regexp.MustCompile(`exposer_classic|exposer_\.\*|"\.\+"`)

const realInputConfig3 = `
global: {scrape_interval: %[1]s, scrape_native_histograms: true}
scrape_configs:
  - job_name: prometheus
    always_scrape_classic_histograms: true
    static_configs: [{targets: ["%[2]s"]}]
  - job_name: node
    static_configs: [{targets: ["%[3]s"]}]
  - job_name: exposer
    convert_classic_histograms_to_nhcb: true
    static_configs: [{targets: ["%[4]s"]}]
remote_write:
  - name: samples-2
    url: %[5]s/api/v1/write
    protobuf_message: io.prometheus.write.v2.Request
    send_exemplars: true
    send_native_histograms: true
  - name: metadata-2
    url: %[5]s/api/v1/write
    metadata_config: {send_interval: 10s}
    write_relabel_configs: [{action: drop, regex: ".*"}]
  - name: samples-1
    url: %[6]s/api/v1/write
    send_exemplars: true
    send_native_histograms: true
    metadata_config: {send_interval: 10s}
`

// TestRealInput3 is TestRealInput with the Prometheus that go.mod pins. PROMETHEUS3 names its binary, which
// .ci/tools/prometheus builds. It scrapes native histograms and exemplars. It writes 2.0 to one server, which is killed on the
// way, and 1.0 to another server. The last line reports the bytes of a histogram sample in both databases.
// REALINPUT_INTERVAL is the time between two scrapes.
func TestRealInput3(t *testing.T) {
	seconds := envInt(t, "REALINPUT_SECONDS", 240)
	require.GreaterOrEqual(t, seconds, 200, "the queries' windows must lie within the data")
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api", "--query.experimental"}
	secondDir, firstDir := t.TempDir(), t.TempDir()
	second, first := startServer(t, secondDir, flags...), startServer(t, firstDir, flags...)
	prom := startPrometheus3(t, second.url, first.url)

	begin := time.Now()
	time.Sleep(time.Duration(seconds) * time.Second * 2 / 5)
	require.Error(t, second.end(syscall.SIGKILL))
	time.Sleep(7 * time.Second)
	second = startServerAt(t, secondDir, strings.TrimPrefix(second.url, "http://"), flags...)
	second.flush()
	time.Sleep(time.Until(begin.Add(time.Duration(seconds) * time.Second)))
	end := time.Now().Add(-10 * time.Second)
	for version, s := range map[string]*server{"2.0": second, "1.0": first} {
		selector, queries := `{job=~".+"}`, append(append([]string{}, realHistogramQueries...), realInputQueries...)
		if version == "1.0" {
			// Prometheus does not send histograms with custom buckets by 1.0.
			selector = `{job=~".+",__name__!="exposer_classic_seconds"}`
			queries = slices.DeleteFunc(queries, customBuckets.MatchString)
		}
		waitCaughtUp(t, selector, prom.url, s.url, begin, end)
		total, equal := compareAll(t, queries, prom.url, s.url, begin, end)
		t.Logf("remote write %s: %d of %d queries equal over %s", version, equal, total, end.Sub(begin).Round(time.Second))
		assert.Equal(t, total, equal)
		prom.compareMetadata(t, s.url)
		prom.compareExemplars(t, s.url, begin, end)
		requireNothingRejected(t, s)
	}
	prom.requireNothingFailed(t)
	prom.compareSizes(t, first, firstDir)
	require.NoError(t, second.end(syscall.SIGTERM))
}

// prometheus3 is a running Prometheus with its log and its data.
type prometheus3 struct {
	url, dir string
	log      *logBuffer
}

func startPrometheus3(t *testing.T, second, first string) *prometheus3 {
	dir, addr, nodeAddr := t.TempDir(), freeAddress(t), freeAddress(t)
	p := &prometheus3{url: "http://" + addr, dir: filepath.Join(dir, "data")}
	startProcess(t, findBinary(t, "NODE_EXPORTER", "prometheus-node-exporter"), "--web.listen-address="+nodeAddr)
	config := fmt.Sprintf(realInputConfig3, envOr("REALINPUT_INTERVAL", "5s"), addr, nodeAddr, startExposer(t), second, first)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	p.log = startProcess(t, findBinary(t, "PROMETHEUS3", "prometheus3"),
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+p.dir, "--web.listen-address="+addr,
		"--web.enable-admin-api", "--enable-feature=exemplar-storage,metadata-wal-records,promql-experimental-functions")
	return p
}

var remoteCounter = regexp.MustCompile(
	`^prometheus_remote_storage_(samples|histograms|exemplars|metadata)(_failed|_dropped)?_total\{(.*)\} (\S+)$`)

// requireNothingFailed demands that Prometheus counts values of each kind as sent and none as failed, and logs no error.
func (p *prometheus3) requireNothingFailed(t *testing.T) {
	resp, err := http.Get(p.url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	sent := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		found := remoteCounter.FindStringSubmatch(lines.Text())
		if found == nil || strings.Contains(found[3], "metadata-2") && found[2] == "_dropped" ||
			strings.Contains(found[3], "nhcb_in_rw1_not_supported") {
			continue
		}
		value, err := strconv.ParseFloat(found[4], 64)
		require.NoError(t, err)
		if found[2] != "" {
			require.Zero(t, value, lines.Text())
			continue
		}
		sent[found[1]] += value
	}
	require.NoError(t, lines.Err())
	for _, kind := range []string{"samples", "histograms", "exemplars", "metadata"} {
		require.Positive(t, sent[kind], "%s sent", kind)
	}
	t.Logf("sent to both servers: %v", sent)
	for line := range strings.Lines(p.log.String()) {
		require.NotContains(t, line, "level=ERROR")
	}
}

// compareMetadata demands the descriptions that Prometheus has of its targets.
func (p *prometheus3) compareMetadata(t *testing.T, ours string) {
	want, got := getData(t, p.url+"/api/v1/metadata", nil), getData(t, ours+"/api/v1/metadata", nil)
	require.NotEmpty(t, want)
	for _, metrics := range []any{want, got} {
		for _, list := range metrics.(map[string]any) {
			sortByJSON(list.([]any), func(entry any) any { return entry }) // targets may describe a metric differently
		}
	}
	require.Empty(t, difference(want, got, "metadata"))
}

// compareExemplars works if Prometheus has fewer exemplars of a series and hour than the server's limit.
func (p *prometheus3) compareExemplars(t *testing.T, ours string, begin, end time.Time) {
	if interval, err := time.ParseDuration(envOr("REALINPUT_INTERVAL", "5s")); err != nil || end.Sub(begin) > 60*interval {
		t.Log("exemplars are not compared: a series has more of them than a server keeps")
		return
	}
	for _, query := range []string{`exposer_latency_seconds`, `rate(exposer_requests_total{path="/1"}[1m])`} {
		params := url.Values{"query": {query}, "start": {unix(begin)}, "end": {unix(end)}}
		want := getData(t, p.url+"/api/v1/query_exemplars", params).([]any)
		got := getData(t, ours+"/api/v1/query_exemplars", params).([]any)
		require.NotEmpty(t, want, query)
		for _, list := range [][]any{want, got} {
			sortByJSON(list, func(entry any) any { return entry.(map[string]any)["seriesLabels"] })
		}
		require.Empty(t, difference(want, got, query))
	}
}

func sortByJSON(list []any, key func(entry any) any) {
	text := func(i int) string {
		b, _ := json.Marshal(key(list[i]))
		return string(b)
	}
	sort.Slice(list, func(i, j int) bool { return text(i) < text(j) })
}

func getData(t *testing.T, base string, params url.Values) any {
	resp, err := http.Get(base + "?" + params.Encode())
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var response struct {
		Status string
		Data   any
	}
	require.NoError(t, json.Unmarshal(body, &response), "%.300s", body)
	require.Equal(t, "success", response.Status, "%.300s", body)
	return response.Data
}

func requireNothingRejected(t *testing.T, s *server) {
	for line := range strings.Lines(s.metrics()) {
		if strings.HasPrefix(line, "tsdb_ingest_rejected_total{") {
			require.True(t, strings.HasSuffix(strings.TrimSpace(line), " 0"), line)
		}
	}
}

var histogramCell = regexp.MustCompile(`(?m)^  h\b.*?  (\d+) bytes`)

// compareSizes reports the bytes of all histograms in chunks of a block of Prometheus and in family h of the server,
// which it ends.
func (p *prometheus3) compareSizes(t *testing.T, s *server, dataDir string) {
	samples, theirs := p.histogramBytes(t)
	s.flush()
	require.NoError(t, s.end(syscall.SIGTERM))
	out, err := exec.Command(binary, "inspect", "rows", "--storage.path", dataDir, "--limit", "0").Output()
	require.NoError(t, err)
	ours, cells := 0, 0
	for _, found := range histogramCell.FindAllSubmatch(out, -1) {
		n, err := strconv.Atoi(string(found[1]))
		require.NoError(t, err)
		ours, cells = ours+n, cells+1
	}
	require.Positive(t, ours)
	t.Logf("%d histogram samples: Prometheus's chunks %.2f bytes a sample, family h %.2f bytes a sample in %d cells",
		samples, float64(theirs)/float64(samples), float64(ours)/float64(samples), cells)
}

// histogramBytes counts samples and bytes of the chunks of histograms in a snapshot.
func (p *prometheus3) histogramBytes(t *testing.T) (samples, sizeBytes int) {
	resp, err := http.Post(p.url+"/api/v1/admin/tsdb/snapshot", "", nil)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	blocks, err := filepath.Glob(filepath.Join(p.dir, "snapshots", "*", "*", "meta.json"))
	require.NoError(t, err)
	require.NotEmpty(t, blocks)
	for _, meta := range blocks {
		block, err := promtsdb.OpenBlock(nil, filepath.Dir(meta), nil, nil)
		require.NoError(t, err)
		n, size := chunkBytes(t, block)
		samples, sizeBytes = samples+n, sizeBytes+size
		require.NoError(t, block.Close())
	}
	return samples, sizeBytes
}

func chunkBytes(t *testing.T, block *promtsdb.Block) (samples, sizeBytes int) {
	entries, err := block.Index()
	require.NoError(t, err)
	defer entries.Close()
	data, err := block.Chunks()
	require.NoError(t, err)
	defer data.Close()
	name, value := index.AllPostingsKey()
	postings, err := entries.Postings(t.Context(), name, value)
	require.NoError(t, err)
	var builder labels.ScratchBuilder
	var metas []chunks.Meta
	for postings.Next() {
		require.NoError(t, entries.Series(postings.At(), &builder, &metas))
		if ls := builder.Labels(); ls.Get(model.MetricNameLabel) == "exposer_classic_seconds" {
			continue // 1.0 does not send custom buckets
		}
		for _, meta := range metas {
			c, _, err := data.ChunkOrIterable(meta)
			require.NoError(t, err)
			switch c.Encoding() {
			case chunkenc.EncHistogram, chunkenc.EncFloatHistogram:
				samples, sizeBytes = samples+c.NumSamples(), sizeBytes+len(c.Bytes())
			}
		}
	}
	require.NoError(t, postings.Err())
	return samples, sizeBytes
}
