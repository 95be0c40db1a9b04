package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/api/netlimit"
	"halite/ingest"
	"halite/query"
	"halite/query/promadapter"
	"halite/query/read"
)

// Figures of the data of slow readers: a response with all samples is larger than the buffers of a connection.
const (
	slowSeries  = 200
	slowSamples = 300
	slowEnd     = comparison.Start + slowSamples*10
)

// slowStack is a server on a socket whose queries have little memory.
type slowStack struct {
	t        *testing.T
	addr     string
	registry *prometheus.Registry
	clients  []net.Conn
}

func newSlowStack(t *testing.T, totalBytes int64, limits api.Limits) *slowStack {
	t.Helper()
	s := newStack(t)
	var list []ingest.Sample
	rng := rand.New(rand.NewPCG(1, 2)) // values that do not compress
	for i := range slowSeries {
		ls := labels.FromStrings("__name__", "slow", "i", fmt.Sprint(i))
		for k := range int64(slowSamples) {
			list = append(list, ingest.Sample{Labels: ls, TsMs: (comparison.Start + k*10) * 1000, Value: rng.Float64()})
		}
	}
	result, err := s.ingester.Write(t.Context(), ingest.SamplesInput(list))
	require.NoError(t, err)
	require.Zero(t, result.Rejected, result.First)

	registry := prometheus.NewRegistry()
	options := s.options
	options.TotalBytesMax, options.Registerer = totalBytes, registry
	reader, err := read.New(options)
	require.NoError(t, err)
	queryable := promadapter.New(reader)
	engine, err := query.New(query.Options{Queryable: queryable})
	require.NoError(t, err)
	server, err := api.New(api.Options{
		Writer: s.ingester, Engine: engine, Index: s.index, Queryable: queryable, Budgets: reader,
		Now: comparison.Now, Limits: limits, Gatherer: registry, Registerer: registry,
	})
	require.NoError(t, err)
	limiter, err := netlimit.New(netlimit.Options{SlowAfter: 100 * time.Millisecond, Registerer: registry})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	web := limiter.HTTPServer(server.Handler())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(limiter.Listener(smallBuffers{l}))
	}()
	t.Cleanup(func() {
		require.NoError(t, web.Close())
		<-done
	})
	return &slowStack{t: t, addr: l.Addr().String(), registry: registry}
}

// smallBuffers is a listener whose connections hold little in the kernel.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// start sends a request and reads the header of its response, nothing else.
func (s *slowStack) start(r *http.Request) *http.Response {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.clients = append(s.clients, c)
	s.t.Cleanup(func() { c.Close() })
	require.NoError(s.t, c.(*net.TCPConn).SetReadBuffer(64<<10))
	require.NoError(s.t, c.SetDeadline(time.Now().Add(time.Minute)))
	require.NoError(s.t, r.Write(c))
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), r)
	require.NoError(s.t, err)
	return resp
}

func (s *slowStack) get(format string, args ...any) *http.Response {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodGet, "http://"+s.addr+fmt.Sprintf(format, args...), nil)
	require.NoError(s.t, err)
	return s.start(r)
}

func (s *slowStack) read(types ...prompb.ReadRequest_ResponseType) *http.Response {
	s.t.Helper()
	message, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: types,
		Queries: []*prompb.Query{{
			StartTimestampMs: comparison.Start * 1000, EndTimestampMs: slowEnd * 1000,
			Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "slow"}},
		}},
	}).Marshal()
	require.NoError(s.t, err)
	r, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/api/v1/read", bytes.NewReader(snappy.Encode(nil, message)))
	require.NoError(s.t, err)
	return s.start(r)
}

// held is the memory of queries and responses.
func (s *slowStack) held() float64 { return s.metric("tsdb_query_memory_bytes") }

func (s *slowStack) metric(name string) float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	s.t.Fatalf("there is no %s", name)
	return 0
}

func readAll(t *testing.T, resp *http.Response) []byte {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return text
}

// TestResponsesAreHeldUntilWritten: the memory of each kind of response counts until its last byte is written.
func TestResponsesAreHeldUntilWritten(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{})
	const points = slowSeries * slowSamples * 16
	for _, c := range []struct {
		name  string
		send  func() *http.Response
		least float64
	}{
		{"engine", func() *http.Response { return s.get("/api/v1/query?query=slow[1h]&time=%d", slowEnd) }, points},
		{"columns", func() *http.Response {
			return s.get("/api/v1/query_range?query=slow&start=%d&end=%d&step=10", comparison.Start, slowEnd)
		}, points},
		{"remote read", func() *http.Response { return s.read() }, points / 4},
		{"streamed remote read", func() *http.Response { return s.read(prompb.ReadRequest_STREAMED_XOR_CHUNKS) }, 64 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Zero(t, s.held())
			resp := c.send()
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Eventually(t, func() bool { return s.held() >= c.least }, time.Minute, time.Millisecond)
			time.Sleep(50 * time.Millisecond)
			require.GreaterOrEqual(t, s.held(), c.least)
			readAll(t, resp)
			require.Eventually(t, func() bool { return s.held() == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// TestSlowReadersGiveWay: when the responses of slow readers hold all memory, a query still gets some. The server aborts
// newer slow responses for it; the oldest one completes.
func TestSlowReadersGiveWay(t *testing.T) {
	const totalBytes = 12 << 20
	s := newSlowStack(t, totalBytes, api.Limits{})
	send := func() *http.Response { return s.get("/api/v1/query?query=slow[1h]&time=%d", slowEnd) }
	endedResponses := func() int { return int(s.metric("tsdb_query_responses_ended_total")) }
	// Fill the memory with slow responses. A response may hold more memory at its beginning, so the test measures it later.
	const largeQueriesMax = totalBytes - totalBytes/8
	readers := []*http.Response{send()}
	for endedResponses() == 0 {
		time.Sleep(200 * time.Millisecond)
		held := s.held()
		if held+held/float64(len(readers)) > largeQueriesMax {
			break
		}
		readers = append(readers, send())
	}
	for _, resp := range readers {
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Greater(t, len(readers), 3)
	for range 3 {
		resp := send()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		var response struct {
			Data struct{ Result []struct{ Values [][2]any } }
		}
		require.NoError(t, json.Unmarshal(readAll(t, resp), &response))
		require.Len(t, response.Data.Result, slowSeries)
		require.Len(t, response.Data.Result[0].Values, slowSamples)
	}
	require.Positive(t, endedResponses())
	require.True(t, json.Valid(readAll(t, readers[0])), "the oldest response goes on")
	broken := 0
	for _, resp := range readers[1:] {
		if _, err := io.ReadAll(resp.Body); err != nil {
			broken++
		}
	}
	require.Equal(t, endedResponses(), broken)
	for _, c := range s.clients {
		c.Close()
	}
	require.Eventually(t, func() bool { return s.held() == 0 }, time.Minute, time.Millisecond)
}

// TestSlowStreamsHoldNoPlace: a remote read with a slow client does not delay others.
func TestSlowStreamsHoldNoPlace(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{ReadConcurrencyMax: 1, ReadFrameBytesMax: 1 << 10})
	for _, typ := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES} {
		resp := s.read(typ)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		time.Sleep(50 * time.Millisecond)
	}
	require.NotEmpty(t, readAll(t, s.read(prompb.ReadRequest_SAMPLES)))
}

// TestStalledBodies: if a sender stops in the middle of its body, the server frees its connection and its memory.
func TestStalledBodies(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{
		BodyStallTimeout: 50 * time.Millisecond, WriteBytesMax: 1 << 20, WriteInflightBytesMax: 1 << 20,
	})
	for _, length := range []int{1000, 1 << 20} { // net/http discards the rest of short bodies only
		c := s.sendPart("/api/v1/write", "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy", length, "abc")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.Contains(t, string(readAll(t, resp)), "reading the request body: the client sends nothing or too slowly "+
			"(web.body-stall-timeout, web.read-timeout)")
	}
}

// TestStalledForms: the server does not evaluate the part of a form or document that it has received. The client may try again.
func TestStalledForms(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{BodyStallTimeout: 50 * time.Millisecond})
	const form, document = "application/x-www-form-urlencoded", "application/json"
	for path, body := range map[string][2]string{
		"/api/v1/query":      {form, "query=1"},
		"/query":             {form, "q=SHOW+DATABASES"},
		"/api/uid/assign":    {document, `{"metric":["a"]}`},
		"/api/search/lookup": {document, `{"metric":"a"}`},
	} {
		c := s.sendPart(path, "Content-Type: "+body[0], 1000, body[1])
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		text := string(readAll(t, resp))
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "%s: %s", path, text)
		require.Contains(t, text, "web.body-stall-timeout", path)
		require.NotEmpty(t, resp.Header.Get("Retry-After"), path)
	}
}

// postPart begins a request with a body of some bytes and sends only the first of them.
func (s *slowStack) postPart(path string, bodyBytes int) net.Conn {
	s.t.Helper()
	return s.sendPart(path, "Accept: */*", bodyBytes, "abc")
}

// sendPart is postPart with a header and the first bytes.
func (s *slowStack) sendPart(path, header string, bodyBytes int, part string) net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { c.Close() })
	require.NoError(s.t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s", path, header, bodyBytes, part)
	require.NoError(s.t, err)
	return c
}

// TestSlowBodiesGiveWay: bodies of slow senders hold all memory of writes. Another write gets some, and a slow sender gets 503.
func TestSlowBodiesGiveWay(t *testing.T) {
	const sizeBytes = 1 << 20
	s := newSlowStack(t, 1<<30, api.Limits{
		BodyStallTimeout: time.Hour, WriteQueueWait: time.Minute, WriteBytesMax: sizeBytes, WriteInflightBytesMax: sizeBytes,
	})
	for _, path := range []string{"/api/v1/write", "/api/v1/import"} {
		slow := s.postPart(path, sizeBytes)
		var resp *http.Response
		ended := make(chan error, 1)
		go func() {
			var err error
			resp, err = http.ReadResponse(bufio.NewReader(slow), nil)
			ended <- err
		}()
		for waits := true; waits; {
			s.postOther() // the first ones may come before the slow request has the memory
			select {
			case err := <-ended:
				require.NoError(t, err)
				waits = false
			default:
			}
		}
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
		require.Contains(t, string(readAll(t, resp)), "the client sends the body slowly")
	}
}

// postOther sends one sample, which the server must store.
func (s *slowStack) postOther() {
	s.t.Helper()
	resp, err := http.Post("http://"+s.addr+"/api/v1/import/prometheus", "", strings.NewReader("other 1\n"))
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.Equal(s.t, http.StatusNoContent, resp.StatusCode)
}

// TestSlowReadsHoldNoPlace: clients that send a remote read slowly do not delay others.
func TestSlowReadsHoldNoPlace(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{BodyStallTimeout: time.Hour, ReadConcurrencyMax: 1})
	s.postPart("/api/v1/read", 1000)
	require.Eventually(t, func() bool { return s.metric("tsdb_http_requests_in_flight") > 0 }, time.Minute, time.Millisecond)
	require.NotEmpty(t, readAll(t, s.read(prompb.ReadRequest_SAMPLES)))
}

// TestUnreadBodiesGiveWay: a client does not send the body of a request that the handler answers without it. The request ends
// like one with a slow body.
func TestUnreadBodiesGiveWay(t *testing.T) {
	s := newSlowStack(t, 1<<30, api.Limits{BodyStallTimeout: 50 * time.Millisecond})
	resp, err := http.ReadResponse(bufio.NewReader(s.postPart("/api/v1/query?query=slow", 1000)), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.True(t, resp.Close)
	readAll(t, resp)
}
