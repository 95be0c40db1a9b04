package telnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"halite/api/netlimit"
	"halite/api/receiver/opentsdb"
	"halite/api/senders"
	"halite/ingest"
	"halite/ingest/batch"
)

// fakeWriter keeps the keys of the series that it stores.
type fakeWriter struct {
	mu     sync.Mutex
	keys   []string
	refuse func() error
}

func (f *fakeWriter) Write(_ context.Context, in ingest.Input) (r ingest.Result, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(); err != nil {
			return r, err
		}
	}
	var b batch.Batch
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	if err := in.Parse(&b); err != nil {
		return r, err
	}
	for b.Next() {
		f.keys = append(f.keys, string(b.Series().Key[1:]))
		r.Accepted++
	}
	for _, left := range b.Rejections() {
		r.Rejected += left.Count
	}
	return r, nil
}

func (f *fakeWriter) stored() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.keys)
}

// started serves telnet and HTTP on one address. HTTP requests answer their path.
func started(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	names, err := opentsdb.NewNames("", 8)
	require.NoError(t, err)
	o.Names, o.Senders, o.Version = names, senders.New(senders.Options{}), "Halite 1\n"
	o.Stats = func() ([]byte, error) { return []byte("tsd.x 1 2 host=a\n"), nil }
	s, err := New(o)
	require.NoError(t, err)
	limiter, err := netlimit.New(netlimit.Options{SendTimeout: 2 * time.Second})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	split := NewSplit(limiter.Listener(l), s.Serve)
	web := limiter.HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) }))
	served := make(chan error, 1)
	go func() { served <- web.Serve(split) }()
	t.Cleanup(func() {
		require.NoError(t, web.Shutdown(context.Background()))
		require.NoError(t, s.Close(context.Background()))
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return s, l.Addr().String()
}

type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(text string) {
	c.t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(c.t, err)
}

func (c *client) line() string {
	c.t.Helper()
	text, err := c.r.ReadString('\n')
	require.NoError(c.t, err)
	return text
}

func TestConnection(t *testing.T) {
	t.Parallel()
	w := &fakeWriter{}
	s, addr := started(t, Options{Writer: w, LineBytesMax: 100})
	c := dial(t, addr)
	c.send("put a.b 1 1 x=y\r\nput a.b 1 1 x\nversion\nput c 1 1 x=")
	require.Equal(t, "put: illegal argument: invalid tag: x\n", c.line())
	require.Equal(t, "Halite 1\n", c.line())
	require.Equal(t, []string{"a.b x=y"}, w.stored()) // the response to a command comes after the responses to earlier lines
	c.send("z\nstats\nstatus\ndropcaches\nnonsense here\nhelp\n")
	require.Equal(t, "tsd.x 1 2 host=a\n", c.line())
	require.Equal(t, []string{"a.b x=y", "c x=z"}, w.stored())
	require.Equal(t, "ok\n", c.line())
	require.Equal(t, "Caches dropped.\n", c.line())
	require.Equal(t, "unknown command: nonsense.  Try `help'.\n", c.line())
	require.True(t, strings.HasPrefix(c.line(), "available commands: "))
	c.send("put " + strings.Repeat("a", 9000))
	require.Equal(t, "put: illegal argument: the line has more than 100 bytes\n", c.line())
	c.send(strings.Repeat("a", 9000) + " 1 1 x=y\nput d 1 1 x=y\nexit\n")
	_, err := c.r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"a.b x=y", "c x=z", "d x=y"}, w.stored())
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.lost.WithLabelValues(lostLong)))
	require.Eventually(t, func() bool { return s.connections() == 0 }, time.Minute, time.Millisecond)
}

// TestHTTPOnTelnetPort: requests go to the HTTP server, in the same and in later connections.
func TestHTTPOnTelnetPort(t *testing.T) {
	t.Parallel()
	_, addr := started(t, Options{Writer: &fakeWriter{}})
	for range 3 {
		resp, err := http.Get("http://" + addr + "/api/version")
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "/api/version", string(body))
	}
}

// TestManyLines: lines that arrive in pieces of any size are all stored, in their order.
func TestManyLines(t *testing.T) {
	t.Parallel()
	w := &fakeWriter{}
	_, addr := started(t, Options{Writer: w})
	c := dial(t, addr)
	var text strings.Builder
	var want []string
	for n := range 20_000 {
		fmt.Fprintf(&text, "put metric.%d 1 1 host=a\n", n)
		want = append(want, fmt.Sprintf("metric.%d host=a", n))
	}
	rest := text.String() + "status\n"
	for size := 1; len(rest) > 0; size = size*3 + 1 {
		n := min(size, len(rest))
		c.send(rest[:n])
		rest = rest[n:]
	}
	require.Equal(t, "ok\n", c.line())
	require.Equal(t, want, w.stored())
}

// TestDeafClient: the server also serves a client that reads no responses.
func TestDeafClient(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"put bad\n", "nonsense\n"} {
		t.Run(strings.Fields(bad)[0], func(t *testing.T) {
			t.Parallel()
			w := &fakeWriter{}
			s, addr := started(t, Options{Writer: w})
			c := dial(t, addr)
			for range 400 { // at least 15 MB of responses
				c.send(strings.Repeat(bad, 1000))
			}
			c.send("put good 1 1 a=b\n")
			require.Eventually(t, func() bool { return slices.Contains(w.stored(), "good a=b") }, time.Minute, time.Millisecond)
			require.Positive(t, testutil.ToFloat64(s.metrics.unsent))
		})
	}
}

// TestClosedUnread: all lines are stored of a client that sends bad lines, reads no responses and closes its connection.
func TestClosedUnread(t *testing.T) {
	t.Parallel()
	entered, leave, calls := make(chan struct{}), make(chan struct{}), 0
	w := &fakeWriter{}
	w.refuse = func() error {
		if calls++; calls == 2 {
			close(entered)
			<-leave
		}
		return nil
	}
	_, addr := started(t, Options{Writer: w, ResponseDelay: time.Hour})
	c := dial(t, addr)
	c.send("put bad\nput first 1 1 a=b\n")
	require.Eventually(t, func() bool { return len(w.stored()) == 1 }, time.Minute, time.Millisecond)
	c.send("put second 1 1 a=b\n")
	<-entered
	// These lines fill the buffers of both kernels.
	text := strings.Repeat("put more 1 1 a="+strings.Repeat("b", 1000)+"\n", 10_000)
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	sent, err := io.WriteString(c, text)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, c.Close())
	close(leave)
	want := 2 + strings.Count(text[:sent], "\n")
	require.Eventually(t, func() bool { return len(w.stored()) == want }, time.Minute, time.Millisecond)
}

// TestManyBadLines: a client that never pauses gets the responses to all of its bad lines.
func TestManyBadLines(t *testing.T) {
	t.Parallel()
	_, addr := started(t, Options{Writer: &fakeWriter{}, ResponseDelay: time.Hour})
	c := dial(t, addr)
	const bad = 2000
	for range bad / 10 {
		c.send(strings.Repeat(strings.Repeat("put good 1 1 a=b\n", 9)+"put bad\n", 10))
	}
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	text, err := io.ReadAll(c.r)
	require.NoError(t, err)
	answered := 0
	for line := range strings.Lines(string(text)) {
		more, lines := 0, 1 // a long response counts its last lines only
		if n, _ := fmt.Sscanf(line, "put: illegal argument: %d more lines have errors", &more); n == 1 {
			lines = more
		}
		answered += lines
	}
	require.Equal(t, bad, answered)
}

// TestOverload: lines wait in their order until the writer accepts them, and are lost after WriteWait.
func TestOverload(t *testing.T) {
	t.Parallel()
	refusals := 3
	w := &fakeWriter{}
	w.refuse = func() error {
		if refusals--; refusals >= 0 {
			return &ingest.OverloadError{Reason: "head_memory"}
		}
		return nil
	}
	s, addr := started(t, Options{Writer: w, Registerer: prometheus.NewRegistry()})
	c := dial(t, addr)
	c.send("put a 1 1 x=y\nstatus\n")
	require.Equal(t, "ok\n", c.line())
	require.Equal(t, []string{"a x=y"}, w.stored())
	require.Equal(t, 3.0, testutil.ToFloat64(s.metrics.throttled))

	full := &fakeWriter{refuse: func() error { return &ingest.OverloadError{Reason: "head_memory"} }}
	s, addr = started(t, Options{Writer: full, WriteWait: time.Millisecond})
	c = dial(t, addr)
	c.send("put a 1 1 x=y\nput b 1 1 x=y\nstatus\n")
	require.True(t, strings.HasPrefix(c.line(), "put: Please throttle writes: 2 lines are not stored: overloaded: head_memory"))
	require.Equal(t, "ok\n", c.line())
	require.Equal(t, 2.0, testutil.ToFloat64(s.metrics.lost.WithLabelValues(lostOverload)))

	broken := &fakeWriter{refuse: func() error { return errors.New("disk on fire") }}
	s, addr = started(t, Options{Writer: broken})
	c = dial(t, addr)
	c.send("put a 1 1 x=y\nstatus\n")
	require.Equal(t, "put: HBase error: 1 lines are not stored: disk on fire\n", c.line())
	require.Equal(t, "ok\n", c.line())
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.lost.WithLabelValues(lostError)))
}

// TestPanic: a panic ends its connection and no other.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := &fakeWriter{refuse: func() error { panic("fault") }}
	s, addr := started(t, Options{Writer: w})
	other := dial(t, addr)
	other.send("status\n")
	require.Equal(t, "ok\n", other.line())
	c := dial(t, addr)
	c.send("put a 1 1 x=y\n")
	_, err := c.r.ReadByte()
	require.Error(t, err)
	require.Equal(t, 1.0, testutil.ToFloat64(s.metrics.panics))
	other.send("status\n")
	require.Equal(t, "ok\n", other.line())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := New(Options{LineBytesMax: -1})
	for _, want := range []string{"Writer", "Senders", "Names", "Stats", "LineBytesMax", "ResponseDelay"} {
		require.ErrorContains(t, err, want)
	}
}
