package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	readers "halite/query/promql"
)

// ConnOptions configure Conns. Zero fields take the default that their comment names.
type ConnOptions struct {
	// ConnectionsMax bounds the open connections of all listeners together. Default 512, as in Prometheus. The next
	// client waits until one is closed.
	ConnectionsMax int
	// SendTimeout ends a connection whose client takes nothing of an answer for that long. Default 30 s.
	SendTimeout time.Duration
	// SlowAfter is how long a client may take for a piece of an answer, of 64 KiB at most, before other queries that need
	// memory may end the answer. Default 1 s.
	SlowAfter time.Duration
	// IdleAfter is how long a connection without a request is safe from being closed when all connections are taken and
	// a client waits. Default 1 s.
	IdleAfter time.Duration
	// Registerer takes the metrics; nil means they are counted but not registered.
	Registerer prometheus.Registerer
	// Logger takes errors of accept; nil discards them.
	Logger *slog.Logger
}

// Default values of ConnOptions.
const (
	DefaultConnectionsMax = 512
	DefaultSendTimeout    = 30 * time.Second
	DefaultSlowAfter      = time.Second
	DefaultIdleAfter      = time.Second
)

// Validate fills in defaults and reports every fault.
func (o *ConnOptions) Validate() error {
	var faults []error
	setPositive(&o.ConnectionsMax, DefaultConnectionsMax, "ConnectionsMax", &faults)
	setPositive(&o.SendTimeout, DefaultSendTimeout, "SendTimeout", &faults)
	setPositive(&o.SlowAfter, DefaultSlowAfter, "SlowAfter", &faults)
	setPositive(&o.IdleAfter, DefaultIdleAfter, "IdleAfter", &faults)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

// Conns bounds the connections of a process: how many there are, and how long a client may keep one waiting.
//
// When all connections are taken and a client waits, the connection that has been without a request for the longest time
// is closed. So clients that send nothing, or a header byte by byte, do not keep others out.
type Conns struct {
	opts    ConnOptions
	places  chan struct{}
	metrics connMetrics

	mu   sync.Mutex
	open map[*conn]struct{}
}

type connMetrics struct {
	ended        *prometheus.CounterVec
	acceptErrors prometheus.Counter
}

// Reasons of tsdb_http_connections_ended_total.
const (
	endedIdle   = "idle"
	endedStall  = "send_timeout"
	endedMemory = "memory"
)

// NewConns checks opts and registers the metrics.
func NewConns(opts ConnOptions) (*Conns, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Conns{opts: opts, places: make(chan struct{}, opts.ConnectionsMax), open: map[*conn]struct{}{}}
	c.metrics = connMetrics{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_http_connections_ended_total",
			Help: "Connections that the server has ended: idle while another client waited for a connection, no progress of an " +
				"answer within the send timeout, or a slow client while queries needed memory.",
		}, []string{"reason"}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_http_accept_errors_total", Help: "Failures to accept a connection. The server tries again.",
		}),
	}
	for _, reason := range []string{endedIdle, endedStall, endedMemory} {
		c.metrics.ended.WithLabelValues(reason)
	}
	if opts.Registerer == nil {
		return c, nil
	}
	var faults []error
	for _, m := range []prometheus.Collector{
		c.metrics.ended, c.metrics.acceptErrors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_http_connections", Help: "Open connections.",
		}, func() float64 { return float64(len(c.places)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_http_connections_max", Help: "Most open connections.",
		}, func() float64 { return float64(cap(c.places)) }),
	} {
		faults = append(faults, opts.Registerer.Register(m))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("api: register metrics of connections: %w", err)
	}
	return c, nil
}

// Listener bounds the connections that l accepts. All listeners of c share one bound. The listener logs errors of accept,
// such as EMFILE, and tries again.
func (c *Conns) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, conns: c, closed: make(chan struct{})}
}

// closeIdle closes the connection that has been without a request for the longest time, if for longer than IdleAfter.
func (c *Conns) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var idlest *conn
	since := time.Now().Add(-c.opts.IdleAfter).UnixNano()
	for conn := range c.open {
		if at := conn.idleSince.Load(); at != 0 && at < since {
			idlest, since = conn, at
		}
	}
	if idlest != nil && !idlest.closing.Swap(true) {
		c.metrics.ended.WithLabelValues(endedIdle).Inc()
		go idlest.Close()
	}
}

// listener is a net.Listener whose connections count.
type listener struct {
	net.Listener
	conns  *Conns
	once   sync.Once
	closed chan struct{}
}

// Bounds of the pause after a failure to accept.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// placeLook is how often a client that waits for a connection looks for an idle one.
const placeLook = 20 * time.Millisecond

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for pause := acceptPauseMin; ; pause = min(2*pause, acceptPauseMax) {
		nc, err := l.Listener.Accept()
		if err == nil {
			return l.place(nc)
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		l.conns.metrics.acceptErrors.Inc()
		l.conns.opts.Logger.Warn("cannot accept a connection; trying again", "err", err, "after", pause)
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// place waits until an accepted connection has its place.
func (l *listener) place(nc net.Conn) (net.Conn, error) {
	c := l.conns
	for {
		select {
		case c.places <- struct{}{}:
			return c.add(nc), nil
		default:
			c.closeIdle()
		}
		select {
		case c.places <- struct{}{}:
			return c.add(nc), nil
		case <-l.closed:
			return nil, errors.Join(net.ErrClosed, nc.Close())
		case <-time.After(placeLook):
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

func (c *Conns) add(nc net.Conn) *conn {
	out := &conn{Conn: nc, conns: c}
	out.setState(http.StateNew)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[out] = struct{}{}
	return out
}

// remove gives the place of a closed connection back.
func (c *Conns) remove(conn *conn) {
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	<-c.places
}

type connKey struct{}

// answerOf is the transfer of the answer to a request; nil if the request did not come through Conns.
func answerOf(r *http.Request) readers.Answer {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		return c
	}
	return nil
}

// conn is a connection whose client must take what is sent to it. It is the readers.Answer of its request.
type conn struct {
	net.Conn
	conns     *Conns
	idleSince atomic.Int64 // Unix time in ns; 0 while a request is answered
	waiting   atomic.Int64 // Unix time in ns at which the write under way began; 0 if there is none
	ended     atomic.Bool  // by End
	closing   atomic.Bool  // by closeIdle
	closed    sync.Once
}

func (c *conn) setState(s http.ConnState) {
	switch s {
	case http.StateNew, http.StateIdle:
		c.idleSince.Store(time.Now().UnixNano())
	default:
		c.idleSince.Store(0)
	}
}

// Slow implements readers.Answer.
func (c *conn) Slow() bool {
	began := c.waiting.Load()
	return began != 0 && time.Since(time.Unix(0, began)) > c.conns.opts.SlowAfter
}

// End implements readers.Answer: the write under way, and all others, fail.
func (c *conn) End() {
	if c.ended.Swap(true) {
		return
	}
	c.conns.metrics.ended.WithLabelValues(endedMemory).Inc()
	c.reset()
	// An error means that the connection is closed already.
	_ = c.SetWriteDeadline(time.Unix(1, 0))
}

// reset has Close discard what the client has not taken, so that the kernel does not keep it.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a closed connection only
	}
}

// errEnded is the error of writes after End.
var errEnded = errors.New("connection ended: the client is slow and other queries need the memory of the answer")

// errStalled is the error of a write if the client reads nothing within the send timeout.
var errStalled = errors.New("connection ended: the client takes nothing of the answer")

// pieceBytes is the size of a piece of an answer for Slow.
const pieceBytes = 64 << 10

// Write implements net.Conn.
func (c *conn) Write(p []byte) (n int, err error) {
	defer c.waiting.Store(0)
	for n < len(p) && err == nil {
		c.waiting.Store(time.Now().UnixNano())
		var m int
		m, err = c.writePiece(p[n:min(n+pieceBytes, len(p))])
		n += m
	}
	return n, err
}

// stallLooks is how often a stalled write looks for progress within the send timeout.
const stallLooks = 8

// writePiece writes p, and fails when the client has taken nothing for the send timeout. The kernel takes more of p only
// when a good part of its buffer is free. So acknowledged bytes count as progress, too.
func (c *conn) writePiece(p []byte) (n int, err error) {
	timeout := c.conns.opts.SendTimeout
	var progress time.Time // zero until the first look
	acknowledged := 0
	for {
		now := time.Now()
		if err := c.SetWriteDeadline(now.Add(timeout / stallLooks)); err != nil {
			return n, err
		}
		if c.ended.Load() { // End may have set its deadline before
			return n, errEnded
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		switch {
		case err == nil || !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case c.ended.Load():
			return n, errEnded
		}
		if taken := n - queuedBytes(c.Conn); progress.IsZero() || m > 0 || taken > acknowledged {
			progress, acknowledged = time.Now(), taken
		}
		if time.Since(progress) >= timeout {
			c.conns.metrics.ended.WithLabelValues(endedStall).Inc()
			c.reset()
			return n, fmt.Errorf("%w within %s (web.send-timeout)", errStalled, timeout)
		}
	}
}

// CloseWrite lets net/http end an answer before the connection.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() { c.conns.remove(c) })
	return err
}
