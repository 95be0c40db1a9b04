//go:build realinput

package main_test

import (
	"bufio"
	"bytes"
	varint "encoding/binary"
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

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

const (
	realSizesInterval = 15 * time.Second
	realSizesScrapes  = 5760 // a day
	scrapesARequest   = 4
)

// TestRealSizes stores a day of what node_exporter and Prometheus really export, one scrape stamped 15 s after the
// other, and prints the bytes of a sample on disk. The scrapes follow each other REALSIZES_SPACING apart (100 ms), so
// gauges move as they do, and counters grow by less than they would in 15 s. REALSIZES_HOSTS (4) hosts export the
// recording, each from another place in it. REALSIZES_RECORDING names a file that keeps the scrapes for the next run;
// VICTORIA_METRICS names a binary that gets the same requests.
func TestRealSizes(t *testing.T) {
	scrapes := recordedScrapes(t)
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(-48 * time.Hour)
	dataDir := filepath.Join(t.TempDir(), "halite")
	ours := startServer(t, dataDir, "--no-web.self-scrape", "--web.enable-admin-api", "--log.level=warn")
	targets := []sizeTarget{{"Halite", ours.url, "/api/v1/admin/flush", dataDir, ours.cmd}}
	if victoria := os.Getenv("VICTORIA_METRICS"); victoria != "" {
		dir, addr := filepath.Join(t.TempDir(), "victoria"), freeAddress(t)
		cmd := exec.Command(victoria, "-storageDataPath="+dir, "-httpListenAddr="+addr, "-loggerLevel=ERROR")
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		targets = append(targets, sizeTarget{"VictoriaMetrics", "http://" + addr, "/internal/force_merge", dir, cmd})
		waitHealthy(t, "http://"+addr+"/health")
	}
	samples, hosts := 0, envInt(t, "REALSIZES_HOSTS", 4)
	for from := 0; from < len(scrapes); from += scrapesARequest {
		for host := range hosts {
			body, n := writeRequest(t, scrapes, from, host, hosts, day)
			samples += n
			for _, target := range targets {
				target.write(t, body)
			}
		}
	}
	settle, err := time.ParseDuration(envOr("REALSIZES_SETTLE", "2m"))
	require.NoError(t, err)
	for _, target := range targets {
		target.report(t, samples, "sent")
		target.flush(t)
	}
	time.Sleep(settle)
	for _, target := range targets {
		require.NoError(t, target.cmd.Process.Signal(syscall.SIGTERM))
		time.Sleep(5 * time.Second)
		target.report(t, samples, "flushed and settled")
	}
}

type sizeTarget struct {
	name, url, flushPath, dir string
	cmd                       *exec.Cmd
}

func (s sizeTarget) write(t *testing.T, body []byte) {
	for {
		req, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-protobuf")
		req.Header.Set("Content-Encoding", "snappy")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		response, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			time.Sleep(time.Second)
			continue
		}
		require.Equal(t, 2, resp.StatusCode/100, "%s: %s", s.name, response)
		return
	}
}

func (s sizeTarget) flush(t *testing.T) {
	resp, err := http.Post(s.url+s.flushPath, "", nil)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, 2, resp.StatusCode/100, s.name)
}

func (s sizeTarget) report(t *testing.T, samples int, when string) {
	sizeBytes := int64(0)
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sizeBytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // files come and go below a running server
		require.NoError(t, err)
	}
	t.Logf("%-16s %-20s %.3f bytes a sample (%d samples, %.1f MiB)", s.name, when, float64(sizeBytes)/float64(samples), samples,
		float64(sizeBytes)/(1<<20))
}

// scrapedSeries is one line of a scrape.
type scrapedSeries struct {
	labels labels.Labels
	value  float64
}

// writeRequest makes the remote-write request of some scrapes of a host, series by series as a queue of Prometheus would,
// and returns the number of samples.
func writeRequest(t *testing.T, scrapes [][]byte, first, host, hosts int, day time.Time) ([]byte, int) {
	var req prompb.WriteRequest
	at := map[string]int{}
	samples := 0
	for i := range min(scrapesARequest, len(scrapes)-first) {
		tsMs := day.UnixMilli() + int64(first+i)*realSizesInterval.Milliseconds() + 4711 + int64(host)*2017
		scrape := scrapes[(first+i+host*len(scrapes)/hosts)%len(scrapes)]
		for _, s := range parseScrape(t, scrape, host) {
			key := s.labels.String()
			k, ok := at[key]
			if !ok {
				k = len(req.Timeseries)
				at[key] = k
				req.Timeseries = append(req.Timeseries, prompb.TimeSeries{Labels: prompb.FromLabels(s.labels, nil)})
			}
			req.Timeseries[k].Samples = append(req.Timeseries[k].Samples, prompb.Sample{Timestamp: tsMs, Value: s.value})
			samples++
		}
	}
	raw, err := req.Marshal()
	require.NoError(t, err)
	return snappy.Encode(nil, raw), samples
}

// parseScrape reads both targets' expositions, which a NUL separates, and gives them a job and an instance.
func parseScrape(t *testing.T, scrape []byte, host int) (all []scrapedSeries) {
	for i, body := range bytes.Split(scrape, []byte{0}) {
		p, err := textparse.New(body, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
		require.NoError(t, err)
		for {
			entry, err := p.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if entry != textparse.EntrySeries {
				continue
			}
			var ls labels.Labels
			p.Labels(&ls)
			_, _, v := p.Series()
			b := labels.NewBuilder(ls)
			b.Set("job", []string{"node", "prometheus"}[i]).Set("instance", fmt.Sprintf("host-%03d:%d", host, 9100-10*i))
			all = append(all, scrapedSeries{b.Labels(), v})
		}
	}
	return all
}

// recordedScrapes reads the recording, or makes it.
func recordedScrapes(t *testing.T) (scrapes [][]byte) {
	path := os.Getenv("REALSIZES_RECORDING")
	if path == "" {
		path = filepath.Join(t.TempDir(), "recording")
	}
	if _, err := os.Stat(path); err != nil {
		record(t, path)
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	r := bufio.NewReader(z)
	for {
		n, err := varint.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return scrapes
		}
		require.NoError(t, err)
		body := make([]byte, n)
		_, err = io.ReadFull(r, body)
		require.NoError(t, err)
		scrapes = append(scrapes, body)
	}
}

// record scrapes both targets as often as in a day.
func record(t *testing.T, path string) {
	spacing, err := time.ParseDuration(envOr("REALSIZES_SPACING", "100ms"))
	require.NoError(t, err)
	prometheus, exporter := findBinary(t, "PROMETHEUS", "prometheus"), findBinary(t, "NODE_EXPORTER", "prometheus-node-exporter")
	promAddr, nodeAddr := freeAddress(t), freeAddress(t)
	dir := t.TempDir()
	config := fmt.Sprintf(strings.SplitN(realInputConfig, "remote_write", 2)[0], promAddr, nodeAddr)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	startProcess(t, exporter, "--web.listen-address="+nodeAddr)
	startProcess(t, prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "prom"), "--web.listen-address="+promAddr)
	waitHealthy(t, "http://"+promAddr+"/-/ready")
	f, err := os.Create(path)
	require.NoError(t, err)
	z, err := zstd.NewWriter(f)
	require.NoError(t, err)
	for range realSizesScrapes {
		next := time.Now().Add(spacing)
		body := append(scrapeOnce(t, nodeAddr), 0)
		body = append(body, scrapeOnce(t, promAddr)...)
		_, err = z.Write(append(varint.AppendUvarint(nil, uint64(len(body))), body...))
		require.NoError(t, err)
		time.Sleep(time.Until(next))
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}

func scrapeOnce(t *testing.T, addr string) []byte {
	resp, err := http.Get("http://" + addr + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return body
}

func waitHealthy(t *testing.T, url string) {
	for range 200 {
		if resp, err := http.Get(url); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s does not answer", url)
}

func envOr(name, preset string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return preset
}
