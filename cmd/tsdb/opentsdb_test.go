package main_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/keyschema/tsuid"
	"halite/storage/storagetest/seeds"
)

// telnet is a connection to the address of OpenTSDB's clients.
type telnet struct {
	net.Conn
	r *bufio.Reader
}

func dialTelnet(addr string) (*telnet, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &telnet{conn, bufio.NewReader(conn)}, conn.SetDeadline(time.Now().Add(time.Minute))
}

// send sends lines and the command status. It returns the responses to the lines. After the response to status they are
// durable.
func (c *telnet) send(lines string) (responses string, err error) {
	if _, err := io.WriteString(c, lines+"status\n"); err != nil {
		return "", err
	}
	for {
		line, err := c.r.ReadString('\n')
		if err != nil || line == "ok\n" {
			return responses, err
		}
		responses += line
	}
}

// remoteRead returns all series of a metric. If token is not empty, the request carries it.
func (s *server) remoteRead(token, metric string) []*prompb.TimeSeries {
	s.t.Helper()
	req := prompb.ReadRequest{Queries: []*prompb.Query{{
		EndTimestampMs: time.Now().Add(time.Hour).UnixMilli(), Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: metric}},
	}}}
	body, err := req.Marshal()
	require.NoError(s.t, err)
	r, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, body)))
	require.NoError(s.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	packed, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "%s", packed)
	raw, err := snappy.Decode(nil, packed)
	require.NoError(s.t, err)
	var response prompb.ReadResponse
	require.NoError(s.t, response.Unmarshal(raw))
	return response.Results[0].Timeseries
}

// remoteSamples returns the samples of all series of a metric, by their labels.
func (s *server) remoteSamples(metric string) map[string][]prompb.Sample {
	s.t.Helper()
	out := map[string][]prompb.Sample{}
	for _, series := range s.remoteRead("", metric) {
		var key []string
		for _, l := range series.Labels {
			key = append(key, l.Name+"="+l.Value)
		}
		out[strings.Join(key, ",")] = series.Samples
	}
	return out
}

// TestOpenTSDBProtocols writes one data set by telnet, by both HTTP addresses and by remote write. It reads the set back by
// PromQL and by remote read.
func TestOpenTSDBProtocols(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--opentsdb.listen-address", addr)
	c, err := dialTelnet(addr)
	require.NoError(t, err)
	defer c.Close()
	nowSeconds := time.Now().Unix()
	responses, err := c.send(fmt.Sprintf("put sys.cpu-user %d 1 host=a\nput sys.cpu-user %d.25 2.5 host=a\n"+
		"put sys.cpu-user 1x 2 host=a\n", nowSeconds-2, nowSeconds-1))
	require.NoError(t, err)
	require.Equal(t, "put: invalid value: Invalid character 'x' in 1x\n", responses)
	for n, at := range []string{s.url + "/api/put", "http://" + addr + "/api/put", "http://" + addr + "/api/v1/put?summary"} {
		body := fmt.Sprintf(`[{"metric":"sys.cpu-user","timestamp":%d,"value":"%d","tags":{"host":"a"}}]`, nowSeconds, n)
		resp, err := http.Post(at, "application/json", strings.NewReader(body))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, 2, resp.StatusCode/100, at)
	}
	want := map[string][]prompb.Sample{"__name__=sys.cpu-user,host=a": {
		{Timestamp: 1000 * (nowSeconds - 2), Value: 1}, {Timestamp: 1000*(nowSeconds-1) + 250, Value: 2.5},
		{Timestamp: 1000 * nowSeconds, Value: 2},
	}}
	require.Equal(t, want, s.remoteSamples("sys.cpu-user"))
	status, response := s.get("/api/v1/query", url.Values{"query": {`sum_over_time({"sys.cpu-user"}[1m])`}})
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(response.Data), `"5.5"`)

	resp, err := http.Get("http://" + addr + "/api/v1/labels") // Prometheus's paths are not here
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.JSONEq(t, `{"error":{"code":404,"message":"Endpoint not found"}}`, string(text))
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestOpenTSDBNotes: an annotation survives a kill, and goes with its series.
func TestOpenTSDBNotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	flags := []string{"--no-web.self-scrape", "--web.enable-admin-api"}
	s := startServer(t, dir, flags...)
	nowSeconds := time.Now().Unix()
	request := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	code, text := request("POST", "/api/put", fmt.Sprintf(`[{"metric":"a","timestamp":%d,"value":1,"tags":{"h":"1"}},`+
		`{"metric":"b","timestamp":%[1]d,"value":1,"tags":{"h":"1"}}]`, nowSeconds))
	require.Equal(t, http.StatusNoContent, code, text)
	var places []string
	for _, metric := range []string{"a", "b"} {
		id := tsuid.Text(labels.FromStrings("__name__", metric, "h", "1"))
		places = append(places, fmt.Sprintf("/api/annotation?start_time=%d&tsuid=%s", nowSeconds, id))
		code, text = request("POST", places[len(places)-1]+"&description=deployed", "")
		require.Equal(t, http.StatusOK, code, text)
	}
	require.Error(t, s.end(syscall.SIGKILL))
	s = startServer(t, dir, flags...)
	code, text = request("GET", places[0], "")
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, `"description":"deployed"`)
	code, text = request("POST", "/api/v1/admin/tsdb/delete_series?match[]=a", "")
	require.Equal(t, http.StatusNoContent, code, text)
	code, text = request("GET", places[0], "")
	require.Equal(t, http.StatusNotFound, code, text)
	code, text = request("GET", places[1], "")
	require.Equal(t, http.StatusOK, code, text)
	code, text = request("GET", "/api/stats", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `{"metric":"tsd.tsdb.ingest.samples.total","timestamp":`)
	code, text = request("GET", "/api/config", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `"web.listen-address":"`)
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// TestOpenTSDBExposed: telnet has no log-in, so it listens on other addresses only with a flag.
func TestOpenTSDBExposed(t *testing.T) {
	t.Parallel()
	out, err := runTsdb(t, "serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t),
		"--opentsdb.listen-address", "0.0.0.0:0")
	require.Error(t, err)
	require.Contains(t, out, "--web.insecure")
	out, err = runTsdb(t, "serve", "--storage.path", t.TempDir(), "--opentsdb.special-chars", "=", "--opentsdb.write-wait", "0s")
	require.Error(t, err)
	require.Contains(t, out, "--opentsdb.special-chars")
	require.Contains(t, out, "--opentsdb.write-wait must be above 0")
}

// telnetLoad counts the durable rounds of one connection.
type telnetLoad struct {
	name  string
	acked atomic.Int64
}

// run writes rounds of ten series each, until the server dies. The value of a round is its number.
func (l *telnetLoad) run(addr string, startSeconds int64) {
	c, err := dialTelnet(addr)
	if err != nil {
		return
	}
	defer c.Close()
	for round := l.acked.Load() + 1; ; round++ {
		var lines strings.Builder
		for n := range 10 {
			fmt.Fprintf(&lines, "put killed.load %d %d from=%s n=%d\n", startSeconds+round, round, l.name, n)
		}
		if _, err := c.send(lines.String()); err != nil {
			return
		}
		l.acked.Store(round)
	}
}

// TestOpenTSDBKill kills the server under the load of telnet connections. No line before an answered command is lost.
func TestOpenTSDBKill(t *testing.T) {
	t.Parallel()
	_, rounds := seeds.Range(t, seeds.Default{Full: 6, Short: 2})
	rng := seeds.Rand(t, 3)
	dir, startSeconds := t.TempDir(), time.Now().Add(-time.Hour).Unix()
	loads := []*telnetLoad{{name: "a"}, {name: "b"}, {name: "c"}}
	for range rounds {
		killOnce(t, dir, startSeconds, loads, rng)
	}
	s := startServer(t, dir, "--no-web.self-scrape")
	series := s.remoteSamples("killed.load")
	for _, l := range loads {
		acked := l.acked.Load()
		for n := range 10 {
			samples := series[fmt.Sprintf("__name__=killed.load,from=%s,n=%d", l.name, n)]
			require.GreaterOrEqual(t, int64(len(samples)), acked, l.name)
			for round, at := range samples[:acked] {
				require.Equal(t, prompb.Sample{Timestamp: 1000 * (startSeconds + int64(round) + 1), Value: float64(round + 1)}, at)
			}
		}
	}
	require.NoError(t, s.end(syscall.SIGTERM), s.log)
}

// killOnce kills a server some time after each connection has written a round.
func killOnce(t *testing.T, dir string, startSeconds int64, loads []*telnetLoad, rng *rand.Rand) {
	t.Helper()
	addr := freeAddress(t)
	s := startServer(t, dir, "--no-web.self-scrape", "--opentsdb.listen-address", addr)
	var running sync.WaitGroup
	for _, l := range loads {
		before := l.acked.Load()
		running.Go(func() { l.run(addr, startSeconds) })
		require.Eventually(t, func() bool { return l.acked.Load() > before }, time.Minute, time.Millisecond)
	}
	time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
	require.Error(t, s.end(syscall.SIGKILL))
	running.Wait()
}
