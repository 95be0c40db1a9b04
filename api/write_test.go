package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/api/receiver"
	"halite/api/remote"
	"halite/ingest"
	"halite/storage"
)

// write sends body with the given header pairs.
func (f *fixture) write(body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, WritePath, body)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return f.do(r)
}

// TestWriteHeaders pins which content types and encodings are accepted.
func TestWriteHeaders(t *testing.T) {
	f := newFixture(t, nil)
	const ctype, cenc = "Content-Type", "Content-Encoding"
	for _, c := range []struct {
		header []string
		code   int
		says   string
	}{
		{nil, 204, ""},
		{[]string{ctype, "application/x-protobuf", cenc, "snappy"}, 204, ""},
		{[]string{ctype, "application/x-protobuf;proto=prometheus.WriteRequest"}, 204, ""},
		{[]string{ctype, `Application/X-Protobuf; charset=x; proto="prometheus.WriteRequest"`, cenc, "Snappy"}, 204, ""},
		{
			[]string{
				ctype, "application/x-protobuf;proto=io.prometheus.write.v2.Request", cenc, "snappy",
				"X-Prometheus-Remote-Write-Version", "0.1.0",
			}, 204, "",
		},
		{[]string{ctype, "application/x-protobuf;proto=x.Y"}, 415, "supported: io.prometheus.write.v2.Request, "},
		{[]string{ctype, "application/x-protobuf;proto"}, 415, "parameter without a value"},
		{[]string{ctype, "application/json"}, 415, "only application/x-protobuf with proto=io.prometheus.write.v2.Request"},
		{[]string{ctype, "text/plain"}, 415, "only application/x-protobuf"},
		{[]string{cenc, "gzip"}, 415, "only snappy is acceptable"},
		{[]string{cenc, "zstd"}, 415, "only snappy is acceptable"},
	} {
		w := f.write(strings.NewReader("body"), c.header...)
		require.Equal(t, c.code, w.Code, "%v", c.header)
		require.Contains(t, body(t, w), c.says)
		if v2 := c.code == 204 && strings.Contains(fmt.Sprint(c.header), "v2.Request"); v2 {
			require.Equal(t, "3", w.Header().Get("X-Prometheus-Remote-Write-Samples-Written"))
			require.Equal(t, "0", w.Header().Get("X-Prometheus-Remote-Write-Histograms-Written"))
			require.Equal(t, "0", w.Header().Get("X-Prometheus-Remote-Write-Exemplars-Written"))
		} else {
			require.NotContains(t, fmt.Sprint(w.Header()), "-Written")
		}
	}
	require.Equal(t, 5, len(f.writer.bodies))
	require.Equal(t, 4., f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": WritePath, "reason": "content_type"}))
	require.Equal(t, 2., f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": WritePath, "reason": "encoding"}))
	require.Equal(t, 5., f.metric(t, "tsdb_http_requests_total", map[string]string{"handler": WritePath, "code": "204"}))
	// The server also reads the bodies of the six refused requests.
	require.Equal(t, 44., f.metric(t, "tsdb_http_request_bytes_total", map[string]string{"handler": WritePath}))
}

// onlyReader hides the length of a body, so that it is sent in chunks.
type onlyReader struct{ io.Reader }

// TestWriteBodies sends bodies of many lengths, stated and chunked, up to and over the limit, through buffers that are
// used again.
func TestWriteBodies(t *testing.T) {
	const bytesMax = 300_000
	f := newFixture(t, func(o *Options) { o.Limits.WriteBytesMax = bytesMax })
	const grow = remote.BodyGrowBytes
	for _, size := range []int{0, 1, 1000, grow - 1, grow, grow + 1, 200_000, 17, bytesMax} {
		sent := make([]byte, size)
		for i := range sent {
			sent[i] = byte(i * size)
		}
		require.Equal(t, 204, f.write(bytes.NewReader(sent)).Code)
		require.Equal(t, sent, f.writer.last(), "%d bytes", size)
		require.Equal(t, 204, f.write(onlyReader{bytes.NewReader(sent)}).Code)
		require.Equal(t, sent, f.writer.last(), "%d bytes in chunks", size)
	}
	before := len(f.writer.bodies)
	for _, over := range []io.Reader{
		bytes.NewReader(make([]byte, bytesMax+1)), onlyReader{bytes.NewReader(make([]byte, bytesMax+1))},
		onlyReader{bytes.NewReader(make([]byte, 10*bytesMax))},
	} {
		w := f.write(over)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
		require.Equal(t, "request body exceeds the 300000 bytes limit\n", body(t, w))
	}
	require.Len(t, f.writer.bodies, before, "nothing of a body over the limit reaches the writer")
	require.Equal(t, 3., f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": WritePath, "reason": "too_large"}))

	// A body shorter than its stated length fails; the test does not wait for a response.
	r := httptest.NewRequest(http.MethodPost, WritePath, strings.NewReader("short"))
	r.ContentLength = 100
	w := f.do(r)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "ended after 5 of 100 bytes")

	// All memory was given back.
	require.True(t, f.writeBytes.TryAcquire(f.opts.Limits.WriteInflightBytesMax))
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

type timeoutError struct{ error }

func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// TestWriteSlowSender: a sender that was too slow must send again, a broken body must not be repeated.
func TestWriteSlowSender(t *testing.T) {
	f := newFixture(t, nil)
	w := f.write(brokenReader{timeoutError{errors.New("i/o timeout")}})
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, http.StatusBadRequest, f.write(brokenReader{errors.New("malformed chunk")}).Code)
}

// TestWriteErrors pins the status of every outcome of the writer.
func TestWriteErrors(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range []struct {
		err   error
		code  int
		retry string
	}{
		{&ingest.BadRequestError{Err: errors.New("snappy: corrupt input")}, 400, ""},
		{ingest.ErrTooLarge, 413, ""},
		{&ingest.OverloadError{Reason: "head is full", RetryAfter: 2500 * time.Millisecond}, 503, "3"},
		{ingest.ErrClosed, 503, "any"},
		{fmt.Errorf("quota: %w", storage.ErrUnavailable), 503, "any"},
		{context.Canceled, 503, "any"},
		{errors.New("disk on fire"), 500, ""},
	} {
		f.writer.response = func([]byte) (ingest.Result, error) { return ingest.Result{}, c.err }
		w := f.write(strings.NewReader("x"))
		require.Equal(t, c.code, w.Code, c.err)
		require.Equal(t, c.err.Error()+"\n", body(t, w))
		retry := w.Header().Get("Retry-After")
		if c.retry != "any" {
			require.Equal(t, c.retry, retry)
			continue
		}
		seconds, err := strconv.Atoi(retry)
		require.NoError(t, err)
		require.True(t, 1 <= seconds && seconds <= 10, retry)
	}
}

// TestWritePartial checks that the good part of a request is stored, and that the response names the rest.
func TestWritePartial(t *testing.T) {
	f := newFixture(t, nil)
	f.writer.response = func([]byte) (ingest.Result, error) {
		return ingest.Result{
			Accepted: 5, Rejected: 3, Reasons: map[string]int{"too_far_ahead": 1, "label_name": 2},
			First: `series {a=""}: empty label name`,
		}, nil
	}
	w := f.write(strings.NewReader("x"))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, `3 of 8 samples rejected (label_name: 2, too_far_ahead: 1); first: series {a=""}: empty label name`+
		"\n", body(t, w))
	require.NotContains(t, w.Header(), "X-Prometheus-Remote-Write-Samples-Written", "only 2.0 has it")

	w = f.write(strings.NewReader("x"), "Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "5", w.Header().Get("X-Prometheus-Remote-Write-Samples-Written"))

	f.writer.response = func([]byte) (ingest.Result, error) { return ingest.Result{}, ingest.ErrClosed }
	w = f.write(strings.NewReader("x"), "Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "0", w.Header().Get("X-Prometheus-Remote-Write-Samples-Written"))
}

// TestWriteOverload checks that a request beyond the memory for bodies waits and then gets a 503. Running requests finish.
func TestWriteOverload(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Limits.WriteQueueWait = time.Millisecond
		o.Limits.WriteBytesMax, o.Limits.WriteInflightBytesMax = 100, 150
	})
	entered, leave := make(chan struct{}), make(chan struct{})
	f.writer.response = func([]byte) (ingest.Result, error) {
		close(entered)
		<-leave
		return ingest.Result{Accepted: 1}, nil
	}
	first := make(chan int)
	go func() { first <- f.write(bytes.NewReader(make([]byte, 100))).Code }()
	<-entered
	for _, second := range []io.Reader{
		bytes.NewReader(make([]byte, 60)),  // no memory
		onlyReader{strings.NewReader("x")}, // no memory for a body of unknown length
	} {
		w := f.write(second)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
	}
	require.Equal(t, 2., f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": WritePath, "reason": "overload"}))
	close(leave)
	require.Equal(t, 204, <-first)
	f.writer.response = func([]byte) (ingest.Result, error) { return ingest.Result{}, nil }
	require.Equal(t, 204, f.write(strings.NewReader("x")).Code)
}

// TestWritePanic: the server refuses a request after it has caused some panics. Others are not affected.
func TestWritePanic(t *testing.T) {
	f := newFixture(t, nil)
	f.writer.response = func(body []byte) (ingest.Result, error) {
		if string(body) == "poison" {
			panic("fault in the writer")
		}
		return ingest.Result{}, nil
	}
	for range receiver.PanicsMax {
		require.Equal(t, http.StatusInternalServerError, f.write(strings.NewReader("poison")).Code)
		require.Equal(t, 204, f.write(strings.NewReader("good")).Code)
	}
	w := f.write(strings.NewReader("poison"))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "failed unexpectedly 3 times")
	require.Equal(t, float64(receiver.PanicsMax), f.metric(t, "tsdb_http_panics_total", map[string]string{}))
	require.True(t, f.writeBytes.TryAcquire(f.opts.Limits.WriteInflightBytesMax), "panics give memory back")
}

// TestWriteCrossOrigin: no page in a browser can write, unless its origin is allowed.
func TestWriteCrossOrigin(t *testing.T) {
	f := newFixture(t, nil)
	require.Equal(t, http.StatusForbidden,
		f.write(strings.NewReader("x"), "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site").Code)
	require.Empty(t, f.writer.bodies)
	require.Equal(t, 204, f.write(strings.NewReader("x"), "Sec-Fetch-Site", "same-origin").Code)
	f = newFixture(t, allowOrigin)
	require.Equal(t, 204,
		f.write(strings.NewReader("x"), "Origin", "https://good.example", "Sec-Fetch-Site", "cross-site").Code)
}

// BenchmarkWrite is what the handler adds to storing a request of 100 KB.
func BenchmarkWrite(b *testing.B) {
	f := newFixture(b, func(o *Options) { o.Writer = discardWriter{} })
	sent := make([]byte, 100<<10)
	b.SetBytes(int64(len(sent)))
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, WritePath, bytes.NewReader(sent))
		if w := f.do(r); w.Code != http.StatusNoContent {
			b.Fatal(w.Code)
		}
	}
}

type discardWriter struct{}

func (discardWriter) Write(context.Context, ingest.Input) (ingest.Result, error) {
	return ingest.Result{Accepted: 1}, nil
}
