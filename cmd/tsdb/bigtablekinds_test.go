package main_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/storage"
)

// kindsBody is a request of remote write 2.0 with a float, a histogram, an exemplar and start times of one series.
func kindsBody(t *testing.T, nowMs int64) []byte {
	t.Helper()
	table := writev2.NewSymbolTable()
	h := &histogram.Histogram{
		Count: 3, Sum: 4.5, PositiveSpans: []histogram.Span{{Length: 2}}, PositiveBuckets: []int64{1, 1},
	}
	sent := writev2.FromIntHistogram(nowMs-60_000, nowMs, h)
	body, err := (&writev2.Request{Timeseries: []writev2.TimeSeries{{
		LabelsRefs: table.SymbolizeLabels(labels.FromStrings("__name__", "kinds", "job", "a"), nil),
		Samples:    []writev2.Sample{{Value: 1, Timestamp: nowMs - 15_000, StartTimestamp: nowMs - 60_000}},
		Histograms: []writev2.Histogram{sent},
		Exemplars: []writev2.Exemplar{{
			LabelsRefs: table.SymbolizeLabels(labels.FromStrings("trace_id", "7"), nil), Value: 2, Timestamp: nowMs,
		}},
	}}, Symbols: table.Symbols()}).Marshal()
	require.NoError(t, err)
	return snappy.Encode(nil, body)
}

// TestBigtableKinds: samples of all kinds survive a kill in the log, and a flush and a restart in Bigtable.
func TestBigtableKinds(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	s := startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	status, text := s.postV2(kindsBody(t, now.UnixMilli()))
	require.Equal(t, http.StatusNoContent, status, text)
	require.Error(t, s.end(syscall.SIGKILL))
	out, err := tsdb(t, "inspect", "wal", "--storage.path", dir, "--verbose")
	require.NoError(t, err, out)
	for _, want := range []string{"  1 samples, ", "  1 histograms, ", "  2 start times, ", "  1 exemplars, "} {
		require.Contains(t, out, want)
	}
	s = startServer(t, dir, onBigtable("--web.enable-admin-api")...)
	count := func() string {
		query := "/api/v1/query?query=histogram_count(kinds)%2Bhistogram_sum(kinds)&time=" + strconv.FormatInt(now.Unix(), 10)
		_, text, _ := s.post(query, nil)
		return text
	}
	require.Contains(t, count(), `"7.5"`)
	s.flush()
	require.Contains(t, count(), `"7.5"`)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
	out, err = tsdb(t, offline(dir, "inspect", "rows", "--prefix", "kinds")...)
	require.NoError(t, err, out)
	for _, family := range storage.SampleFamilies() {
		require.Regexp(t, `(?m)^\s+`+family+`\b`, out)
	}
	s = startServer(t, dir, onBigtable()...)
	require.Contains(t, count(), `"7.5"`)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestDirectRefusesKinds: mode direct stores the floats of a request and says which other kinds it does not.
func TestDirectRefusesKinds(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	s := startServer(t, nowhere(t), direct()...)
	status, text := s.postV2(kindsBody(t, time.Now().UnixMilli()))
	require.Equal(t, http.StatusBadRequest, status, text)
	require.Contains(t, text, "native histograms are unsupported in mode direct")
	body, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{
		Labels:     []prompb.Label{{Name: "__name__", Value: "kinds"}},
		Histograms: []prompb.Histogram{prompb.FromIntHistogram(time.Now().UnixMilli(), &histogram.Histogram{})},
	}}}).Marshal()
	require.NoError(t, err)
	status, text, _ = s.post("/api/v1/write", snappy.Encode(nil, body))
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "native histograms are unsupported in mode direct")
	require.Contains(t, s.metrics(), `tsdb_ingest_rejected_total{reason="unsupported_exemplar"} 1`)
	require.Contains(t, s.metrics(), `tsdb_ingest_rejected_total{reason="unsupported_histogram"} 2`)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// postV2 sends a body of remote write 2.0.
func (s *server) postV2(body []byte) (status int, text string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/write", bytes.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	req.Header.Set("Content-Encoding", "snappy")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(b)
}
