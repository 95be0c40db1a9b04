package netlimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// patience is a generous limit for waits in tests.
const patience = time.Minute

// narrow is a listener whose connections have small kernel buffers, so that a client that does not read soon blocks the
// server.
type narrow struct{ net.Listener }

func (l narrow) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// serveConns serves h within limits and returns the address.
func serveConns(t *testing.T, o Options, h http.Handler) (*Limiter, string) {
	t.Helper()
	conns, err := New(o)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := conns.HTTPServer(h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(conns.Listener(narrow{l}))
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-done
	})
	return conns, l.Addr().String()
}

// send opens a connection with a small buffer and sends text.
func send(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	return sendWith(t, addr, text, 8<<10)
}

func sendWith(t *testing.T, addr, text string, bufferBytes int) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(bufferBytes))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// get sends a request on a connection of its own.
func get(addr, path string) (int, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func ended(c *Limiter, reason string) float64 {
	return testutil.ToFloat64(c.metrics.ended.WithLabelValues(reason))
}

// TestSendTimeout checks that the server ends a response if the client reads nothing. It does not end a response that makes
// progress, however long that takes.
func TestSendTimeout(t *testing.T) {
	const timeout, sizeBytes = 400 * time.Millisecond, 2 << 20
	result := make(chan error, 1)
	conns, addr := serveConns(t, Options{SendTimeout: timeout}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(sizeBytes))
		_, err := w.Write(make([]byte, sizeBytes))
		result <- err
	}))
	c := send(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-result:
		require.ErrorIs(t, err, errStalled)
		require.ErrorContains(t, err, "web.send-timeout")
	case <-time.After(patience):
		t.Fatal("a stalled response goes on")
	}
	require.Equal(t, 1., ended(conns, endedStall))
	_, err := io.Copy(io.Discard, c)
	require.ErrorIs(t, err, syscall.ECONNRESET, "what the kernel holds is discarded")

	began := time.Now()
	// With a window smaller than a packet, the connection would stall by itself.
	c = sendWith(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 256<<10)
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
	require.NoError(t, err)
	read := 0
	for buf := make([]byte, 64<<10); ; time.Sleep(timeout / 8) {
		n, err := io.ReadFull(resp.Body, buf)
		read += n
		if err != nil {
			break
		}
	}
	require.Equal(t, sizeBytes, read)
	require.Greater(t, time.Since(began), 3*timeout)
	require.NoError(t, <-result)
	require.Equal(t, 1., ended(conns, endedStall))
}

// TestConnectionsMax: one connection more than allowed waits until another is closed; listeners share the limit.
func TestConnectionsMax(t *testing.T) {
	var answered atomic.Int64
	leave := make(chan struct{})
	conns, addr := serveConns(t, Options{ConnectionsMax: 2}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		answered.Add(1)
		<-leave
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	second := conns.HTTPServer(http.NotFoundHandler())
	defer second.Close()
	go func() { _ = second.Serve(conns.Listener(l)) }()

	const request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	send(t, addr, request)
	send(t, addr, request)
	require.Eventually(t, func() bool { return answered.Load() == 2 }, patience, time.Millisecond)
	third, other := send(t, addr, request), send(t, l.Addr().String(), request)
	for _, c := range []net.Conn{third, other} {
		require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		_, err := c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout")
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	}
	require.EqualValues(t, 2, answered.Load())
	close(leave)
	for _, c := range []net.Conn{third, other} {
		_, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
	}
	require.Zero(t, ended(conns, endedIdle), "a connection with a request is not idle")
}

// TestSlowHeaders: 1,000 clients that send nothing, or a header byte by byte, or keep an idle connection, do not block
// others.
func TestSlowHeaders(t *testing.T) {
	conns, addr := serveConns(t, Options{ConnectionsMax: 64, IdleAfter: 10 * time.Millisecond},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for i := range 1000 {
		send(t, addr, []string{"", "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"}[i%3])
	}
	code, err := get(addr, "/")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.GreaterOrEqual(t, ended(conns, endedIdle), 1000.-64)
}

// TestSlowBodies: clients that stop in their bodies hold all connections. Another client gets one of them, and its slow client an
// error that permits another try.
func TestSlowBodies(t *testing.T) {
	failures := make(chan error, 4)
	conns, addr := serveConns(t, Options{ConnectionsMax: 4, SlowAfter: 10 * time.Millisecond},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body := MakeBody(w, r, time.Hour)
				_, err := io.ReadAll(&body)
				failures <- err
			}
		}))
	for range 4 {
		send(t, addr, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
	}
	code, err := get(addr, "/")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.GreaterOrEqual(t, ended(conns, endedSlowBody), 1.)
	err = <-failures
	require.ErrorIs(t, err, errSlowBody)
	var network net.Error
	require.ErrorAs(t, err, &network)
	require.True(t, network.Timeout())
}

// TestUnreadBodiesAndResponses: clients hold all connections. They do not send a body that the handler does not read, or do not
// read a response. Another client gets a connection.
func TestUnreadBodiesAndResponses(t *testing.T) {
	for request, reason := range map[string]string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc": endedIdle,
		"GET /large HTTP/1.1\r\nHost: x\r\n\r\n":                        endedResponse,
	} {
		conns, addr := serveConns(t, Options{ConnectionsMax: 4, SlowAfter: 10 * time.Millisecond},
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/large" {
					_, _ = w.Write(make([]byte, 4<<20))
				}
			}))
		for range 4 {
			send(t, addr, request)
		}
		code, err := get(addr, "/")
		require.NoError(t, err, reason)
		require.Equal(t, http.StatusOK, code)
		require.GreaterOrEqual(t, ended(conns, reason), 1., reason)
	}
}

// TestSlowBodiesOfStreams: a request that waits for memory ends the body of a slow stream, and no body that has arrived.
func TestSlowBodiesOfStreams(t *testing.T) {
	failures, read := make(chan error, 2), make(chan struct{})
	_, client, at := serveStreams(t, Options{SlowAfter: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		body := MakeBody(w, r, time.Hour)
		switch r.URL.Path {
		case "/waits":
			ctx, stop := context.WithCancel(r.Context())
			defer stop()
			go EndSlowBodies(ctx)
			failures <- <-failures // until a body ends
		case "/slow":
			close(read)
			fallthrough
		default:
			_, err := io.ReadAll(&body)
			failures <- err
		}
	})
	unsent, sender := io.Pipe()
	defer sender.Close()
	slow := make(chan error, 1)
	go func() {
		resp, err := client.Post(at+"/slow", "", unsent)
		if err == nil {
			err = resp.Body.Close()
		}
		slow <- err
	}()
	<-read
	resp, err := client.Get(at + "/waits")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.ErrorIs(t, <-failures, errSlowBody)
	require.NoError(t, <-slow)
	resp, err = client.Post(at+"/fast", "", strings.NewReader("abc"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, <-failures)
}

// failingListener fails some times before it accepts.
type failingListener struct {
	net.Listener
	failures atomic.Int64
}

func (l *failingListener) Accept() (net.Conn, error) {
	switch l.failures.Add(-1) {
	case 2:
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	case 1:
		return nil, &net.OpError{Op: "accept", Err: syscall.ENOBUFS} // not temporary for net/http
	case 0:
		return nil, &net.OpError{Op: "accept", Err: syscall.EPERM}
	}
	return l.Listener.Accept()
}

// TestAcceptErrors: the server survives errors of accept.
func TestAcceptErrors(t *testing.T) {
	registry := prometheus.NewRegistry()
	conns, err := New(Options{Registerer: registry})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	failing := &failingListener{Listener: l}
	failing.failures.Store(3)
	server := conns.HTTPServer(http.NotFoundHandler())
	defer server.Close()
	go func() { _ = server.Serve(conns.Listener(failing)) }()
	code, err := get(l.Addr().String(), "/")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, 3., testutil.ToFloat64(conns.metrics.acceptErrors))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP tsdb_http_connections_max Maximum number of open connections.
# TYPE tsdb_http_connections_max gauge
tsdb_http_connections_max 512
`), "tsdb_http_connections_max"))

	_, err = New(Options{ConnectionsMax: -1})
	require.ErrorContains(t, err, "ConnectionsMax")
}

// TestHTTPServer: the server has time limits for slow clients, but none that would end a long response.
func TestHTTPServer(t *testing.T) {
	limiter, err := New(Options{})
	require.NoError(t, err)
	server := limiter.HTTPServer(http.NotFoundHandler())
	require.Equal(t, DefaultHeaderTimeout, server.ReadHeaderTimeout)
	require.Equal(t, DefaultReadTimeout, server.ReadTimeout)
	require.Zero(t, server.WriteTimeout)
	require.Equal(t, DefaultHeaderBytesMax, server.MaxHeaderBytes)
}

// serveStreams serves h with HTTP/2 within limits. It returns a client and the address.
func serveStreams(t *testing.T, o Options, h http.HandlerFunc) (*Limiter, *http.Client, string) {
	t.Helper()
	conns, err := New(o)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(nil)
	server.Config = conns.HTTPServer(h)
	server.Listener = conns.Listener(server.Listener)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return conns, server.Client(), server.URL
}

// TestStreamsMax: a connection of HTTP/2 has a limit of requests. A client with more requests opens another connection.
func TestStreamsMax(t *testing.T) {
	arrived, leave := make(chan string), make(chan struct{})
	_, client, at := serveStreams(t, Options{StreamsMax: 2}, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- r.RemoteAddr
			<-leave
		}
	})
	get := func(path string) {
		response, err := client.Get(at + path)
		if err == nil {
			err = response.Body.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	get("/") // the client knows the limit afterwards
	var requests sync.WaitGroup
	for range 3 {
		requests.Go(func() { get("/wait") })
	}
	byConnection := map[string]int{<-arrived: 1}
	byConnection[<-arrived]++
	byConnection[<-arrived]++
	close(leave)
	requests.Wait()
	require.ElementsMatch(t, []int{1, 2}, slices.Collect(maps.Values(byConnection)))
}

// TestStalledStream: a response of HTTP/2 ends if its client reads the connection, but not the response.
func TestStalledStream(t *testing.T) {
	failures := make(chan error, 1)
	conns, client, at := serveStreams(t, Options{SendTimeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/short" {
			return
		}
		var err error
		for part := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(part)
		}
		failures <- err
	})
	unread, err := client.Get(at)
	require.NoError(t, err)
	defer unread.Body.Close()
	require.Equal(t, 2, unread.ProtoMajor)
	require.ErrorIs(t, <-failures, errStalled)
	require.Equal(t, 1., testutil.ToFloat64(conns.metrics.ended.WithLabelValues(endedStall)))
	_, err = io.Copy(io.Discard, unread.Body)
	require.Error(t, err, "the client does not take a part for the whole")
	short, err := client.Get(at + "/short")
	require.NoError(t, err)
	short.Body.Close()
	require.Equal(t, http.StatusOK, short.StatusCode)
}

// TestEndStream: a query that needs memory ends the slow response of a stream.
func TestEndStream(t *testing.T) {
	responses, failures := make(chan Response, 1), make(chan error, 1)
	_, client, at := serveStreams(t, Options{SlowAfter: time.Nanosecond}, func(w http.ResponseWriter, r *http.Request) {
		responses <- ResponseOf(r.Context())
		var err error
		for part := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(part)
		}
		failures <- err
	})
	unread, err := client.Get(at)
	require.NoError(t, err)
	defer unread.Body.Close()
	slow := <-responses
	require.Eventually(t, slow.Slow, patience, time.Millisecond)
	slow.End()
	require.ErrorIs(t, <-failures, errEnded)
	require.False(t, slow.Slow())
	slow.End()
}
