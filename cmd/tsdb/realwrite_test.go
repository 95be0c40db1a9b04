//go:build realinput

package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

const (
	writeHosts          = 200
	writeSeriesAHost    = 100
	writeSamplesRequest = 2000 // Prometheus's default
	writeShards         = 8    // requests in flight, as a loaded Prometheus sends
)

// TestRealWriteCPU sends the same samples by remote write 1.0 and 2.0 and reports the CPU time of the server per million
// samples. REALWRITE_ROUNDS is the number of samples per series. VICTORIA_METRICS and PROMETHEUS3 name binaries of other
// servers.
func TestRealWriteCPU(t *testing.T) {
	servers := receivers()
	rounds := envInt(t, "REALWRITE_ROUNDS", 100)
	for _, server := range servers {
		for _, version := range []string{"1.0", "2.0"} {
			t.Run(server.name+"/"+version, func(t *testing.T) {
				url, cmd := server.start(t)
				cpu, bodyBytes := writeLoad(t, url+"/api/v1/write", cmd, version, rounds)
				samples := float64(rounds * writeHosts * writeSeriesAHost)
				t.Logf("%s, remote write %s: %.2f CPU s a million samples, %.1f bytes a sample in compressed bodies",
					server.name, version, cpu.Seconds()/samples*1e6, float64(bodyBytes)/samples)
				cmd.Process.Signal(syscall.SIGTERM)
			})
		}
	}
}

// receiver is a server that accepts remote write.
type receiver struct {
	name  string
	start func(t *testing.T) (url string, cmd *exec.Cmd)
}

// receivers returns Halite, and the servers whose binaries VICTORIA_METRICS and PROMETHEUS3 name.
func receivers() []receiver {
	servers := []receiver{{"Halite", func(t *testing.T) (string, *exec.Cmd) {
		s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--log.level=warn")
		return s.url, s.cmd
	}}}
	if path := os.Getenv("PROMETHEUS3"); path != "" {
		servers = append(servers, receiver{"Prometheus", func(t *testing.T) (string, *exec.Cmd) {
			config := t.TempDir() + "/prometheus.yml"
			require.NoError(t, os.WriteFile(config, nil, 0o644))
			return startReceiver(t, "/-/ready", path, "--config.file="+config,
				"--storage.tsdb.path="+t.TempDir(), "--web.enable-remote-write-receiver", "--web.listen-address=%s")
		}})
	}
	if path := os.Getenv("VICTORIA_METRICS"); path != "" {
		servers = append(servers, receiver{"VictoriaMetrics", func(t *testing.T) (string, *exec.Cmd) {
			return startReceiver(t, "/health", path, "-storageDataPath="+t.TempDir(), "-httpListenAddr=%s")
		}})
	}
	return servers
}

// startReceiver starts a server whose last argument takes the address.
func startReceiver(t *testing.T, health, path string, args ...string) (string, *exec.Cmd) {
	addr := freeAddress(t)
	args[len(args)-1] = fmt.Sprintf(args[len(args)-1], addr)
	cmd := exec.Command(path, args...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	waitHealthy(t, "http://"+addr+health)
	return "http://" + addr, cmd
}

// writeLoad writes one round of new series, then the rounds that count.
func writeLoad(t *testing.T, url string, cmd *exec.Cmd, version string, rounds int) (cpu time.Duration, bodyBytes int) {
	series := writeSeries()
	random := rand.New(rand.NewPCG(1, 1))
	values := make([]float64, len(series))
	startMs := time.Now().UnixMilli() - int64(rounds+1)*15_000
	var before time.Duration
	for round := range rounds + 1 {
		if round == 1 {
			before, bodyBytes = processCPU(t, cmd), 0
		}
		var shards errgroup.Group
		shards.SetLimit(writeShards)
		for from := 0; from < len(series); from += writeSamplesRequest {
			for i := from; i < from+writeSamplesRequest; i++ {
				values[i] += float64(random.IntN(1000))
			}
			to := from + writeSamplesRequest
			body := writeBody(t, version, series[from:to], values[from:to], startMs+int64(round)*15_000)
			bodyBytes += len(body)
			shards.Go(func() error { return postVersion(url, version, body) })
		}
		err := shards.Wait()
		if errors.Is(err, errNotAccepted) {
			t.Skip(err)
		}
		require.NoError(t, err)
	}
	return processCPU(t, cmd) - before, bodyBytes
}

// writeSeries are series with the labels of a node exporter in a fleet.
func writeSeries() (series []labels.Labels) {
	for host := range writeHosts {
		for i := range writeSeriesAHost {
			series = append(series, labels.FromStrings(model.MetricNameLabel, fmt.Sprintf("node_metric_%d_total", i/4),
				"cluster", "production-1", "cpu", strconv.Itoa(i%4), "env", "production",
				"instance", fmt.Sprintf("host-%04d.example.net:9100", host), "job", "node", "mode", "user",
				"rack", fmt.Sprintf("rack-%d", host/20), "region", "eu-west-1", "team", "infrastructure"))
		}
	}
	return series
}

func writeBody(t *testing.T, version string, series []labels.Labels, values []float64, tsMs int64) []byte {
	var body []byte
	var err error
	if version == "1.0" {
		var req prompb.WriteRequest
		for i, ls := range series {
			req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
				Labels: prompb.FromLabels(ls, nil), Samples: []prompb.Sample{{Value: values[i], Timestamp: tsMs}},
			})
		}
		body, err = req.Marshal()
	} else {
		symbols := writev2.NewSymbolTable()
		var req writev2.Request
		for i, ls := range series {
			req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
				LabelsRefs: symbols.SymbolizeLabels(ls, nil), Samples: []writev2.Sample{{Value: values[i], Timestamp: tsMs}},
				Metadata: writev2.Metadata{Type: writev2.Metadata_METRIC_TYPE_COUNTER, HelpRef: symbols.Symbolize("A counter.")},
			})
		}
		req.Symbols = symbols.Symbols()
		body, err = req.Marshal()
	}
	require.NoError(t, err)
	return snappy.Encode(nil, body)
}

// errNotAccepted means that a server does not support the version.
var errNotAccepted = errors.New("the server does not accept remote write 2.0")

func postVersion(url, version string, body []byte) error {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	if version == "2.0" {
		req.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
		req.Header.Set("X-Prometheus-Remote-Write-Version", "2.0.0")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	response, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if version == "2.0" && (resp.StatusCode/100 != 2 || resp.Header.Get("X-Prometheus-Remote-Write-Samples-Written") == "") {
		return fmt.Errorf("%w: %d %.200s", errNotAccepted, resp.StatusCode, response)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, response)
	}
	return nil
}

// processCPU is the CPU time that a process has used; /proc counts hundredths of a second.
func processCPU(t *testing.T, cmd *exec.Cmd) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
