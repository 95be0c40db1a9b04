//go:build realinput

package main_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
)

// protocol is a write protocol of the servers. body makes a request of consecutive series, whose samples have the times at tsMs.
type protocol struct {
	name string
	// halite and victoria are the paths, "" for telnet.
	halite, victoria string
	contentType      string
	// rounds is the number of samples of a series in a request.
	rounds int
	body   func(series []labels.Labels, values [][]float64, tsMs []int64) []byte
}

func protocols() []protocol {
	const csvFormat = "/api/v1/import/csv?format="
	columns := csvColumns()
	return []protocol{
		{"text format", "/api/v1/import/prometheus", "/api/v1/import/prometheus", "text/plain", 1, textBody},
		{"InfluxDB line protocol, ten fields a line", "/write?precision=ms", "/write?precision=ms", "text/plain", 1, influxBody},
		{"OTLP", "/v1/metrics", "/opentelemetry/v1/metrics", "application/x-protobuf", 1, otlpBody},
		{"JSON lines, 40 samples a line", "/api/v1/import", "/api/v1/import", "application/json", 40, jsonlBody},
		{"JSON lines, one sample a line", "/api/v1/import", "/api/v1/import", "application/json", 1, jsonlBody},
		{"CSV, ten values a row", csvFormat + columns, csvFormat + columns, "text/csv", 1, csvBody},
		{"OpenTSDB `/api/put`", "/api/put", "/api/put", "application/json", 1, putBody},
		{"OpenTSDB telnet", "", "", "", 1, telnetBody},
	}
}

// protocolServer is a server with its address for each protocol.
type protocolServer struct {
	cmd               *exec.Cmd
	url, put, telnet  string
	path, contentType string
	conn              net.Conn
}

// TestRealProtocolsCPU sends the same samples by each write protocol to Halite and VictoriaMetrics in turn. It prints a
// table: CPU seconds of the servers per million samples of known series. VICTORIA_METRICS names the other server's
// binary, REALWRITE_ROUNDS the samples per series.
func TestRealProtocolsCPU(t *testing.T) {
	rounds := envInt(t, "REALWRITE_ROUNDS", 100)
	for _, d := range protocols() {
		t.Run(d.name, func(t *testing.T) {
			servers := []*protocolServer{startHaliteFor(t, d)}
			if path := os.Getenv("VICTORIA_METRICS"); path != "" {
				servers = append(servers, startVictoriaFor(t, d, path))
			}
			cpu := loadProtocol(t, d, servers, rounds)
			row := fmt.Sprintf("| %s | %.2f |", d.name, cpu[0])
			if len(servers) > 1 {
				row += fmt.Sprintf(" %.2f | %.2f |", cpu[1], cpu[0]/cpu[1])
			}
			fmt.Println(row)
			for _, s := range servers {
				s.cmd.Process.Signal(syscall.SIGTERM)
			}
		})
	}
}

func startHaliteFor(t *testing.T, d protocol) *protocolServer {
	addr := freeAddress(t)
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--log.level=warn", "--web.enable-pprof",
		"--opentsdb.listen-address", addr)
	return &protocolServer{cmd: s.cmd, url: s.url, put: "http://" + addr, telnet: addr, path: d.halite, contentType: d.contentType}
}

func startVictoriaFor(t *testing.T, d protocol, path string) *protocolServer {
	telnet, put := freeAddress(t), freeAddress(t)
	url, cmd := startReceiver(t, "/health", path, "-storageDataPath="+t.TempDir(), "-opentsdbListenAddr="+telnet,
		"-opentsdbHTTPListenAddr="+put, "-retentionPeriod=10y", "-httpListenAddr=%s")
	return &protocolServer{cmd: cmd, url: url, put: "http://" + put, telnet: telnet, path: d.victoria, contentType: d.contentType}
}

// loadProtocol writes new series once, then the samples that count. It returns CPU seconds per million samples of each server.
func loadProtocol(t *testing.T, d protocol, servers []*protocolServer, rounds int) []float64 {
	series, random := writeSeries(), rand.New(rand.NewPCG(1, 1))
	last := make([]float64, len(series))
	rounds = max(rounds/d.rounds, 1) * d.rounds
	startMs := time.Now().UnixMilli()/15_000*15_000 - int64(rounds+d.rounds+1)*15_000
	before := make([]time.Duration, len(servers))
	for round := 0; round < rounds+d.rounds; round += d.rounds {
		if round == d.rounds {
			for n, s := range servers {
				before[n] = settledCPU(t, s.cmd)
			}
		}
		tsMs := make([]int64, d.rounds)
		for n := range tsMs {
			tsMs[n] = startMs + int64(round+n)*15_000
		}
		step := writeSamplesRequest / d.rounds
		for from := 0; from < len(series); from += step {
			values := make([][]float64, step)
			for i := range values {
				for range tsMs {
					last[from+i] += float64(random.IntN(1000))
					values[i] = append(values[i], last[from+i])
				}
			}
			body := d.body(series[from:from+step], values, tsMs)
			for n := range servers {
				servers[(n+from/step)%len(servers)].send(t, body)
			}
		}
	}
	cpu := make([]float64, len(servers))
	for n, s := range servers {
		cpu[n] = (settledCPU(t, s.cmd) - before[n]).Seconds() / float64(rounds*len(series)) * 1e6
	}
	return cpu
}

// send sends a request.
func (s *protocolServer) send(t *testing.T, body []byte) {
	if s.path == "" {
		if s.conn == nil {
			var err error
			s.conn, err = net.Dial("tcp", s.telnet)
			require.NoError(t, err)
			t.Cleanup(func() { s.conn.Close() })
		}
		_, err := s.conn.Write(body)
		require.NoError(t, err)
		return
	}
	url := s.url
	if s.path == "/api/put" {
		url = s.put
	}
	resp, err := http.Post(url+s.path, s.contentType, bytes.NewReader(body))
	require.NoError(t, err)
	response, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.Equal(t, 2, resp.StatusCode/100, "%s", response)
}

// settledCPU returns the CPU time of a process when it has nothing left to do.
func settledCPU(t *testing.T, cmd *exec.Cmd) time.Duration {
	for {
		before := processCPU(t, cmd)
		time.Sleep(300 * time.Millisecond)
		if after := processCPU(t, cmd); after-before <= 20*time.Millisecond {
			return after
		}
	}
}

func textBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i, ls := range series {
		b.WriteString(ls.Get(model.MetricNameLabel))
		sep := byte('{')
		ls.DropMetricName().Range(func(l labels.Label) {
			b.WriteByte(sep)
			fmt.Fprintf(&b, "%s=%q", l.Name, l.Value)
			sep = ','
		})
		fmt.Fprintf(&b, "} %g %d\n", values[i][0], tsMs[0])
	}
	return b.Bytes()
}

// rowFields is the number of values in a line of InfluxDB or CSV, as Telegraf's inputs have them.
const rowFields = 10

func influxBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i := 0; i < len(series); i += rowFields {
		b.WriteString("node,line=" + strconv.Itoa(i))
		series[i].DropMetricName().Range(func(l labels.Label) { b.WriteString("," + l.Name + "=" + l.Value) })
		sep := byte(' ')
		for n := range rowFields {
			fmt.Fprintf(&b, "%cmetric_%d_total=%g", sep, n, values[i+n][0])
			sep = ','
		}
		fmt.Fprintf(&b, " %d\n", tsMs[0])
	}
	return b.Bytes()
}

// csvColumns is VictoriaMetrics's description of the rows of csvBody.
func csvColumns() string {
	columns := []string{"1:time:unix_ms", "2:label:line"}
	writeSeries()[0].DropMetricName().Range(func(l labels.Label) {
		columns = append(columns, fmt.Sprintf("%d:label:%s", len(columns)+1, l.Name))
	})
	for n := range rowFields {
		columns = append(columns, fmt.Sprintf("%d:metric:node_metric_%d_total", len(columns)+1, n))
	}
	return strings.Join(columns, ",")
}

func csvBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i := 0; i < len(series); i += rowFields {
		fmt.Fprintf(&b, "%d,%d", tsMs[0], i)
		series[i].DropMetricName().Range(func(l labels.Label) { b.WriteString("," + l.Value) })
		for n := range rowFields {
			fmt.Fprintf(&b, ",%g", values[i+n][0])
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func jsonlBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i, ls := range series {
		b.WriteString(`{"metric":`)
		sep := byte('{')
		ls.Range(func(l labels.Label) {
			fmt.Fprintf(&b, `%c%q:%q`, sep, l.Name, l.Value)
			sep = ','
		})
		b.WriteString(`},"values":`)
		sep = byte('[')
		for _, v := range values[i] {
			fmt.Fprintf(&b, "%c%g", sep, v)
			sep = ','
		}
		b.WriteString(`],"timestamps":`)
		sep = byte('[')
		for _, ts := range tsMs {
			fmt.Fprintf(&b, "%c%d", sep, ts)
			sep = ','
		}
		b.WriteString("]}\n")
	}
	return b.Bytes()
}

// otlpBody gives each host a resource of six attributes. A metric has a data point for each CPU.
func otlpBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	metrics := pmetric.NewMetrics()
	var host, name string
	var list pmetric.MetricSlice
	var points pmetric.NumberDataPointSlice
	for i, ls := range series {
		if at := ls.Get("instance"); at != host {
			host, name = at, ""
			resource := metrics.ResourceMetrics().AppendEmpty()
			for _, label := range []string{"cluster", "env", "rack", "region", "team"} {
				resource.Resource().Attributes().PutStr(label, ls.Get(label))
			}
			resource.Resource().Attributes().PutStr("service.name", ls.Get("job"))
			resource.Resource().Attributes().PutStr("service.instance.id", host)
			list = resource.ScopeMetrics().AppendEmpty().Metrics()
		}
		if at := ls.Get(model.MetricNameLabel); at != name {
			name = at
			metric := list.AppendEmpty()
			metric.SetName(strings.TrimSuffix(name, "_total"))
			metric.SetDescription("A counter.")
			sum := metric.SetEmptySum()
			sum.SetIsMonotonic(true)
			sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
			points = sum.DataPoints()
		}
		point := points.AppendEmpty()
		point.Attributes().PutStr("cpu", ls.Get("cpu"))
		point.Attributes().PutStr("mode", ls.Get("mode"))
		point.SetTimestamp(1e6 * pcommon.Timestamp(tsMs[0]))
		point.SetStartTimestamp(1e6 * pcommon.Timestamp(tsMs[0]/86_400_000*86_400_000))
		point.SetDoubleValue(values[i][0])
	}
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	if err != nil {
		panic(err)
	}
	return body
}

// tsdPoint returns the metric and tags of a data point of OpenTSDB, with three tags as a collector sends.
func tsdPoint(ls labels.Labels, format string) string {
	return fmt.Sprintf(format, ls.Get(model.MetricNameLabel), ls.Get("instance")[:9], ls.Get("cpu"), ls.Get("region"))
}

func putBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i, ls := range series {
		b.WriteByte("[,"[min(i, 1)])
		b.WriteString(tsdPoint(ls, `{"metric":"%s","tags":{"host":"%s","cpu":"%s","dc":"%s"},`))
		fmt.Fprintf(&b, `"timestamp":%d,"value":%g}`, tsMs[0]/1000, values[i][0])
	}
	b.WriteByte(']')
	return b.Bytes()
}

func telnetBody(series []labels.Labels, values [][]float64, tsMs []int64) []byte {
	var b bytes.Buffer
	for i, ls := range series {
		metric, tags, _ := strings.Cut(tsdPoint(ls, "%s host=%s cpu=%s dc=%s"), " ")
		fmt.Fprintf(&b, "put %s %d %g %s\n", metric, tsMs[0]/1000, values[i][0], tags)
	}
	return b.Bytes()
}
