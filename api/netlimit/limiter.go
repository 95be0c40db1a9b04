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
	// SendTimeout ends a connection if its client reads nothing of an answer for that time. Default 30 s.
	SendTimeout time.Duration
	// SlowAfter is the time that a client may take for 64 KiB of an answer. After that, a query that needs memory may end the
	// answer. Default 1 s.
	SlowAfter time.Duration
	// IdleAfter is the time that a connection may have no request. After that, the server may close it for a client that waits
	// for a connection. Default 1 s.
	IdleAfter time.Duration
	// HeaderBytesMax bounds the header of a request, its URL included. Default 1 MiB, so that queries of 100 KB in a URL fit.
	HeaderBytesMax int
	// Registerer registers the metrics; nil means they are counted but not registered.
	Registerer prometheus.Registerer
	// Logger logs errors of accept; nil discards them.
	Logger *slog.Logger
}

// Default values of Options.
const (
	DefaultConnectionsMax = 512
	DefaultSendTimeout    = 30 * time.Second
	DefaultSlowAfter      = time.Second
	DefaultIdleAfter      = time.Second
	DefaultHeaderBytesMax = 1 << 20
)

// Validate fills in defaults and reports every fault.
func (o *Options) Validate() error {
	var faults []error
	setPositive(&o.ConnectionsMax, DefaultConnectionsMax, "ConnectionsMax", &faults)
	setPositive(&o.SendTimeout, DefaultSendTimeout, "SendTimeout", &faults)
	setPositive(&o.SlowAfter, DefaultSlowAfter, "SlowAfter", &faults)
	setPositive(&o.IdleAfter, DefaultIdleAfter, "IdleAfter", &faults)
	setPositive(&o.HeaderBytesMax, DefaultHeaderBytesMax, "HeaderBytesMax", &faults)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

// Limiter bounds the connections of a process: their number, and how long a client may keep one waiting.
//
// If a client waits for a connection, the limiter closes the connection that has had no request for the longest time. So
// clients that send nothing, or a header byte by byte, do not keep others out.
type Limiter struct {
	opts    Options
	slots   chan struct{}
	metrics metricSet

	mu   sync.Mutex
	open map[*Conn]struct{}
}

type metricSet struct {
	ended        *prometheus.CounterVec
	acceptErrors prometheus.Counter
}

// Reasons of tsdb_http_connections_ended_total.
const (
	endedIdle   = "idle"
	endedStall  = "send_timeout"
	endedMemory = "memory"
)

// New checks opts and registers the metrics.
func New(opts Options) (*Limiter, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Limiter{opts: opts, slots: make(chan struct{}, opts.ConnectionsMax), open: map[*Conn]struct{}{}}
	c.metrics = metricSet{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdb_http_connections_ended_total",
			Help: "Connections that the server closed. They were idle while another client waited, made no progress " +
				"within the send timeout, or were slow while queries needed memory.",
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

// closeIdle closes the connection that has had no request for the longest time, if that is longer than IdleAfter.
func (c *Limiter) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var longest *Conn
	since := time.Now().Add(-c.opts.IdleAfter).UnixNano()
	for conn := range c.open {
		if at := conn.idleSince.Load(); at != 0 && at < since {
			longest, since = conn, at
		}
	}
	if longest != nil && !longest.closing.Swap(true) {
		c.metrics.ended.WithLabelValues(endedIdle).Inc()
		go longest.Close()
	}
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
