package netlimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure a Limiter. Zero fields take the default that their comment names.
type Options struct {
	// ConnectionsMax bounds the open connections of all listeners together. Default 512, as in Prometheus. The next
	// client waits until one is closed.
	ConnectionsMax int
	// StreamsMax bounds the concurrent requests of one connection of HTTP/2. Default 32. For more requests, clients wait or open
	// another connection.
	StreamsMax int
	// HeaderTimeout bounds the time in which a client sends the header of a request. Default 10 s.
	HeaderTimeout time.Duration
	// ReadTimeout bounds the time in which a client sends a request, and the time for which an unused connection is kept. Default
	// 5 min, as in Prometheus.
	ReadTimeout time.Duration
	// SendTimeout ends a connection if its client reads nothing of a response for that time. Default 30 s.
	SendTimeout time.Duration
	// SlowAfter is the time that a client may take for 64 KiB of a response. After that, a query that needs memory may end the
	// response. Default 1 s.
	SlowAfter time.Duration
	// IdleAfter is the time that a connection may have no request. After that, the server may close it for a client that waits
	// for a connection. Default 1 s.
	IdleAfter time.Duration
	// BodyRateMin is the rate in bytes a second at which a client sends a body. If others wait for a connection or for memory, the
	// server may end the body of a slower client. Default 256 KiB.
	BodyRateMin int64
	// HeaderBytesMax bounds the header of a request, its URL included. Default 1 MiB, so that queries of 100 KB in a URL fit.
	HeaderBytesMax int64
	// Registerer registers the metrics; nil means they are counted but not registered.
	Registerer prometheus.Registerer
	// Logger logs errors of accept; nil discards them.
	Logger *slog.Logger
}

// Default values of Options.
const (
	DefaultConnectionsMax = 512
	DefaultStreamsMax     = 32
	DefaultHeaderTimeout  = 10 * time.Second
	DefaultReadTimeout    = 5 * time.Minute
	DefaultSendTimeout    = 30 * time.Second
	DefaultSlowAfter      = time.Second
	DefaultIdleAfter      = time.Second
	DefaultBodyRateMin    = 256 << 10
	DefaultHeaderBytesMax = 1 << 20
)

// Validate fills in defaults and reports every fault.
func (o *Options) Validate() error {
	var faults []error
	setPositive(&o.ConnectionsMax, DefaultConnectionsMax, "ConnectionsMax", &faults)
	setPositive(&o.StreamsMax, DefaultStreamsMax, "StreamsMax", &faults)
	setPositive(&o.HeaderTimeout, DefaultHeaderTimeout, "HeaderTimeout", &faults)
	setPositive(&o.ReadTimeout, DefaultReadTimeout, "ReadTimeout", &faults)
	setPositive(&o.SendTimeout, DefaultSendTimeout, "SendTimeout", &faults)
	setPositive(&o.SlowAfter, DefaultSlowAfter, "SlowAfter", &faults)
	setPositive(&o.IdleAfter, DefaultIdleAfter, "IdleAfter", &faults)
	setPositive(&o.BodyRateMin, DefaultBodyRateMin, "BodyRateMin", &faults)
	setPositive(&o.HeaderBytesMax, DefaultHeaderBytesMax, "HeaderBytesMax", &faults)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

// Limiter bounds the connections of a process: their number, and how long a client may keep one waiting.
//
// If a client waits for a connection, the limiter closes the connection that has had no request for the longest time. So
// clients that send nothing, or a header byte by byte, do not keep others out. If none is without a request, it ends the slowest
// body, or the slowest response of HTTP/1.
type Limiter struct {
	opts    Options
	slots   chan struct{}
	metrics metricSet

	mu      sync.Mutex
	open    map[*Conn]struct{}
	reading map[*Body]time.Time // bodies that wait for their client, and when that much was due
}

type metricSet struct {
	ended        *prometheus.CounterVec
	acceptErrors prometheus.Counter
}

// Reasons of tsdb_http_connections_ended_total.
const (
	endedIdle     = "idle"
	endedStall    = "send_timeout"
	endedMemory   = "memory"
	endedSlowBody = "slow_body"
	endedResponse = "slow_response"
)

// New checks opts and registers the metrics.
func New(opts Options) (*Limiter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Limiter{opts: opts, slots: make(chan struct{}, opts.ConnectionsMax), open: map[*Conn]struct{}{},
		reading: map[*Body]time.Time{}}
	c.metrics = metricSet{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_http_connections_ended_total",
			Help: "Connections that the server closed. They were idle or slow while another client waited, made no progress within " +
				"the send timeout, or were slow while queries needed memory.",
		}, []string{"reason"}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_http_accept_errors_total", Help: "Failures to accept a connection. The server tries again.",
		}),
	}
	for _, reason := range []string{endedIdle, endedStall, endedMemory, endedSlowBody, endedResponse} {
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
		}, func() float64 { return float64(len(c.slots)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tsdb_http_connections_max", Help: "Maximum number of open connections.",
		}, func() float64 { return float64(cap(c.slots)) }),
	} {
		faults = append(faults, opts.Registerer.Register(m))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("register metrics of connections: %w", err)
	}
	return c, nil
}

// Listener bounds the connections that l accepts. All listeners of c share one bound. The listener logs errors of accept,
// such as EMFILE, and tries again.
func (c *Limiter) Listener(l net.Listener) net.Listener {
	return &listener{Listener: l, limiter: c, closed: make(chan struct{})}
}

// closeIdle closes the connection that has had no request for the longest time, if that is longer than IdleAfter. It returns
// false if there is none.
func (c *Limiter) closeIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := c.longest(c.opts.IdleAfter, func(conn *Conn) int64 { return conn.idleSince.Load() })
	if longest == nil {
		return false
	}
	if !longest.closing.Swap(true) {
		c.metrics.ended.WithLabelValues(endedIdle).Inc()
		go longest.Close()
	}
	return true
}

// endSlowResponse ends the response of HTTP/1 whose client takes the longest time for a part of it. It returns false if none is
// slow.
func (c *Limiter) endSlowResponse() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	slowest := c.longest(c.opts.SlowAfter, func(conn *Conn) int64 {
		if conn.ended.Load() {
			return 0
		}
		return conn.writing.Load()
	})
	if slowest == nil {
		return false
	}
	slowest.end(endedResponse)
	return true
}

// longest returns the connection that has been in a state for the longest time; nil if no connection has been in it for limit.
// since returns the start of the state in nanoseconds since 1970, and 0 for a connection in another state. The caller holds mu.
func (c *Limiter) longest(limit time.Duration, since func(conn *Conn) int64) (longest *Conn) {
	first := time.Now().Add(-limit).UnixNano()
	for conn := range c.open {
		if at := since(conn); at != 0 && at < first {
			longest, first = conn, at
		}
	}
	return longest
}

func (c *Limiter) add(nc net.Conn) *Conn {
	out := &Conn{Conn: nc, limiter: c}
	out.setState(http.StateNew)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[out] = struct{}{}
	return out
}

// remove frees the slot of a closed connection.
func (c *Limiter) remove(conn *Conn) {
	c.mu.Lock()
	delete(c.open, conn)
	c.mu.Unlock()
	<-c.slots
}

func setPositive[T ~int | ~int64](v *T, def T, name string, faults *[]error) {
	if *v == 0 {
		*v = def
	}
	if *v < 0 {
		*faults = append(*faults, fmt.Errorf("api/netlimit: option %s is %d; it must be positive, or 0 for its default", name, *v))
	}
}
