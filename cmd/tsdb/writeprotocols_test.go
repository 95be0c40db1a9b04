package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"halite/storage/storagetest/seeds"
)

// hostSample is a sample of the series of a host.
type hostSample struct {
	host  string
	tsMs  int64
	value float64
}

// writeProtocol is a protocol that writes. path is "" for telnet.
type writeProtocol struct {
	name, path string
	header     map[string]string
	body       func(metric string, rows []hostSample) ([]byte, error)
}

func writeProtocols() []writeProtocol {
	typed := func(name, value string) map[string]string {
		return map[string]string{"Content-Type": "application/x-protobuf" + name, "Content-Encoding": value}
	}
	line := func(begin, format, end string) func(string, []hostSample) ([]byte, error) {
		return func(metric string, rows []hostSample) ([]byte, error) {
			var b bytes.Buffer
			b.WriteString(begin)
			for n, r := range rows {
				if begin == "[" && n > 0 {
					b.WriteByte(',')
				}
				b.WriteString(strings.NewReplacer("METRIC", metric, "HOST", r.host, "TIME", strconv.FormatInt(r.tsMs, 10),
					"VALUE", strconv.FormatFloat(r.value, 'f', -1, 64)).Replace(format))
			}
			b.WriteString(end)
			return b.Bytes(), nil
		}
	}
	return []writeProtocol{
		{"remote write 1.0", "/api/v1/write", typed("", "snappy"), bodyV1},
		{"remote write 2.0", "/api/v1/write", typed(";proto=io.prometheus.write.v2.Request", "snappy"), bodyV2},
		{"text", "/api/v1/import/prometheus", nil, line("", "METRIC{host=\"HOST\"} VALUE TIME\n", "")},
		{"JSON lines", "/api/v1/import", nil,
			line("", `{"metric":{"__name__":"METRIC","host":"HOST"},"values":[VALUE],"timestamps":[TIME]}`+"\n", "")},
		{"CSV", "/api/v1/import/csv", nil, line("__name__,host,__timestamp__,__value__\n", "METRIC,HOST,TIME,VALUE\n", "")},
		{"InfluxDB 1", "/write?precision=ms", nil, line("", "METRIC,host=HOST value=VALUE TIME\n", "")},
		{"InfluxDB 2", "/api/v2/write?precision=ms", nil, line("", "METRIC,host=HOST value=VALUE TIME\n", "")},
		{"OTLP", "/v1/metrics", typed("", ""), bodyOTLP},
		{"/api/put", "/api/put", nil, line("[", `{"metric":"METRIC","timestamp":TIME,"value":VALUE,"tags":{"host":"HOST"}}`, "]")},
		{"telnet", "", nil, line("", "put METRIC TIME VALUE host=HOST\n", "")},
	}
}

func bodyV1(metric string, rows []hostSample) ([]byte, error) {
	var req prompb.WriteRequest
	for _, r := range rows {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels:  []prompb.Label{{Name: "__name__", Value: metric}, {Name: "host", Value: r.host}},
			Samples: []prompb.Sample{{Timestamp: r.tsMs, Value: r.value}},
		})
	}
	body, err := req.Marshal()
	return snappy.Encode(nil, body), err
}

func bodyV2(metric string, rows []hostSample) ([]byte, error) {
	symbols := writev2.NewSymbolTable()
	var req writev2.Request
	for _, r := range rows {
		req.Timeseries = append(req.Timeseries, writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels(labels.FromStrings("__name__", metric, "host", r.host), nil),
			Samples:    []writev2.Sample{{Timestamp: r.tsMs, Value: r.value}},
		})
	}
	req.Symbols = symbols.Symbols()
	body, err := req.Marshal()
	return snappy.Encode(nil, body), err
}

func bodyOTLP(metric string, rows []hostSample) ([]byte, error) {
	metrics := pmetric.NewMetrics()
	gauge := metrics.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	gauge.SetName(metric)
	points := gauge.SetEmptyGauge().DataPoints()
	for _, r := range rows {
		point := points.AppendEmpty()
		point.Attributes().PutStr("host", r.host)
		point.SetTimestamp(pcommon.NewTimestampFromTime(time.UnixMilli(r.tsMs)))
		point.SetDoubleValue(r.value)
	}
	return pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
}

// protocolClient writes by one protocol.
type protocolClient struct {
	writeProtocol
	url, telnetAddr string
	telnet          *telnet
}

// write sends samples. It returns nil if the server has acknowledged all of them.
func (c *protocolClient) write(metric string, rows []hostSample) error {
	body, err := c.body(metric, rows)
	if err != nil {
		return err
	}
	if c.path == "" {
		if c.telnet == nil {
			if c.telnet, err = dialTelnet(c.telnetAddr); err != nil {
				return err
			}
		}
		response, err := c.telnet.send(string(body))
		if response != "" {
			return errors.New(response)
		}
		return err
	}
	req, err := http.NewRequest(http.MethodPost, c.url+c.path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	response, err := io.ReadAll(resp.Body)
	if resp.StatusCode/100 != 2 || len(response) > 0 {
		return fmt.Errorf("%s: %d %s", c.name, resp.StatusCode, response)
	}
	return err
}

// TestProtocolsMix writes samples of the same series by every protocol, and reads them back by every way to read. All
// responses are equal.
func TestProtocolsMix(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--opentsdb.listen-address", addr)
	endMs := time.Now().UnixMilli()
	want := map[string]map[int64]float64{"a": {}, "b": {}}
	for n, protocol := range writeProtocols() {
		c := &protocolClient{writeProtocol: protocol, url: s.url, telnetAddr: addr}
		var rows []hostSample
		for i := range int64(3) {
			for host, samples := range want {
				// The sample at endMs comes by all of them, and the last one wins.
				r := hostSample{host, endMs - i*int64(1000+n), float64(n) + 0.25*float64(i)}
				rows, samples[r.tsMs] = append(rows, r), r.value
			}
		}
		require.NoError(t, c.write("mixed", rows), protocol.name)
	}
	require.Len(t, want["a"], 1+2*len(writeProtocols()))
	require.Equal(t, want, s.readRemote("mixed"))
	require.Equal(t, want, s.readPromQL("mixed", endMs))
	require.Equal(t, want, s.readOpenTSDB("mixed", endMs))
	require.Equal(t, want, s.readExport("mixed"))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// readRemote reads a metric by remote read, as samples by host and time.
func (s *server) readRemote(metric string) map[string]map[int64]float64 {
	out := map[string]map[int64]float64{}
	for series, samples := range s.remoteSamples(metric) {
		host := strings.TrimPrefix(series, "__name__="+metric+",host=")
		out[host] = map[int64]float64{}
		for _, at := range samples {
			out[host][at.Timestamp] = at.Value
		}
	}
	return out
}

// readPromQL is readRemote by PromQL.
func (s *server) readPromQL(metric string, endMs int64) map[string]map[int64]float64 {
	status, response := s.get("/api/v1/query", url.Values{
		"query": {metric + "[5m]"}, "time": {strconv.FormatFloat(float64(endMs)/1000, 'f', 3, 64)},
	})
	require.Equal(s.t, http.StatusOK, status)
	var data struct {
		Result []struct {
			Metric map[string]string
			Values [][2]any
		}
	}
	require.NoError(s.t, json.Unmarshal(response.Data, &data))
	out := map[string]map[int64]float64{}
	for _, series := range data.Result {
		samples := map[int64]float64{}
		for _, at := range series.Values {
			v, err := strconv.ParseFloat(fmt.Sprint(at[1]), 64)
			require.NoError(s.t, err)
			seconds, _ := at[0].(float64)
			samples[int64(seconds*1000+0.5)] = v
		}
		require.Equal(s.t, map[string]string{"__name__": metric, "host": series.Metric["host"]}, series.Metric)
		out[series.Metric["host"]] = samples
	}
	return out
}

// readOpenTSDB is readRemote by OpenTSDB's query.
func (s *server) readOpenTSDB(metric string, endMs int64) map[string]map[int64]float64 {
	resp, err := http.Get(fmt.Sprintf("%s/api/query?start=%d&end=%d&ms=true&m=none:%s", s.url, endMs-300_000, endMs, metric))
	require.NoError(s.t, err)
	defer resp.Body.Close()
	var response []struct {
		Tags map[string]string
		Dps  map[int64]float64
	}
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&response))
	out := map[string]map[int64]float64{}
	for _, series := range response {
		out[series.Tags["host"]] = series.Dps
	}
	return out
}

// readExport is readRemote by the export of JSON lines.
func (s *server) readExport(metric string) map[string]map[int64]float64 {
	resp, err := http.Get(s.url + "/api/v1/export?match[]=" + metric)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	out := map[string]map[int64]float64{}
	for lines := json.NewDecoder(resp.Body); lines.More(); {
		var line struct {
			Metric     map[string]string
			Values     []float64
			Timestamps []int64
		}
		require.NoError(s.t, lines.Decode(&line))
		samples := map[int64]float64{}
		for n, tsMs := range line.Timestamps {
			samples[tsMs] = line.Values[n]
		}
		out[line.Metric["host"]] = samples
	}
	return out
}

// protocolLoad writes rounds of ten samples. Each round has its number as value.
type protocolLoad struct {
	client protocolClient
	metric string
	acked  atomic.Int64 // rounds
}

// run writes rounds until the server is gone. The round without a response is written again by the next run.
func (l *protocolLoad) run(startMs int64) {
	for ; ; l.acked.Add(1) {
		var rows []hostSample
		round := l.acked.Load()
		for host := range 10 {
			rows = append(rows, hostSample{strconv.Itoa(host), startMs + round, float64(round)})
		}
		if l.client.write(l.metric, rows) != nil {
			return
		}
	}
}

// TestProtocolsKill kills the server under the load of every protocol. Every acknowledged sample is there afterwards.
func TestProtocolsKill(t *testing.T) {
	t.Parallel()
	_, kills := seeds.Range(t, seeds.Default{Full: 3, Short: 1})
	rng := seeds.Rand(t, 5)
	dir, startMs := t.TempDir(), time.Now().Add(-time.Hour).UnixMilli()
	var loads []*protocolLoad
	for n, protocol := range writeProtocols() {
		loads = append(loads, &protocolLoad{client: protocolClient{writeProtocol: protocol}, metric: fmt.Sprintf("killed_%d", n)})
	}
	for range kills {
		killUnderProtocols(t, dir, startMs, loads, time.Duration(rng.IntN(300))*time.Millisecond)
	}
	s := startServer(t, dir, "--no-web.self-scrape")
	for _, l := range loads {
		series := s.readRemote(l.metric)
		for host := range 10 {
			samples := series[strconv.Itoa(host)]
			for round := range l.acked.Load() {
				v, found := samples[startMs+round]
				require.True(t, found, "%s: sample %d of %d, host %d", l.client.name, round, l.acked.Load(), host)
				require.Equal(t, float64(round), v)
			}
		}
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// killUnderProtocols runs the loads on a server, and kills it some time after each has written a round.
func killUnderProtocols(t *testing.T, dir string, startMs int64, loads []*protocolLoad, after time.Duration) {
	t.Helper()
	addr := freeAddress(t)
	s := startServer(t, dir, "--no-web.self-scrape", "--opentsdb.listen-address", addr)
	var running sync.WaitGroup
	for _, l := range loads {
		l.client = protocolClient{writeProtocol: l.client.writeProtocol, url: s.url, telnetAddr: addr}
		before := l.acked.Load()
		running.Go(func() { l.run(startMs) })
		require.Eventually(t, func() bool { return l.acked.Load() > before }, time.Minute, time.Millisecond, l.client.name)
	}
	time.Sleep(after)
	require.Error(t, s.end(syscall.SIGKILL))
	running.Wait()
	for _, l := range loads {
		if l.client.telnet != nil {
			l.client.telnet.Close()
		}
	}
}
