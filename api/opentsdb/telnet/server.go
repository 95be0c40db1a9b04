package telnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halite/api/netlimit"
	"halite/api/receiver/opentsdb"
	"halite/api/senders"
	"halite/ingest"
)

// Writer stores requests.
type Writer interface {
	Write(ctx context.Context, in ingest.Input) (ingest.Result, error)
}

// Options configure a Server. Fields without a default are required.
type Options struct {
	Writer  Writer
	Senders *senders.Tracker
	Names   *opentsdb.Names
	// LineBytesMax bounds a line. Default 16 KiB.
	LineBytesMax int
	// WriteWait is the time for which the server retries to store lines while the writer is overloaded. After that the lines are
	// lost, and the client gets an error. Default 1 min.
	WriteWait time.Duration
	// ResponseDelay is the time without a line from the client after which it gets the responses to bad lines. A command and the end
	// of the lines release these responses at once. Default 100 ms.
	ResponseDelay time.Duration
	// Stats returns the response to stats, and Version the response to version.
	Stats   func() ([]byte, error)
	Version string
	// Registerer registers the metrics; nil means that they are counted but not registered.
	Registerer prometheus.Registerer
	// Logger logs panics; nil discards them.
	Logger *slog.Logger
}

// Default values of Options.
const (
	DefaultLineBytesMax  = 16 << 10
	DefaultWriteWait     = time.Minute
	DefaultResponseDelay = 100 * time.Millisecond
)

// Validate fills in defaults and reports every fault.
func (o *Options) Validate() error {
	var faults []error
	for name, set := range map[string]bool{
		"Writer": o.Writer != nil, "Senders": o.Senders != nil, "Names": o.Names != nil, "Stats": o.Stats != nil,
	} {
		if !set {
			faults = append(faults, fmt.Errorf("api/opentsdb/telnet: option %s is required", name))
		}
	}
	if o.LineBytesMax == 0 {
		o.LineBytesMax = DefaultLineBytesMax
	}
	if o.WriteWait == 0 {
		o.WriteWait = DefaultWriteWait
	}
	if o.ResponseDelay == 0 {
		o.ResponseDelay = DefaultResponseDelay
	}
	if o.LineBytesMax < 0 || o.WriteWait < 0 || o.ResponseDelay < 0 {
		faults = append(faults, errors.New("api/opentsdb/telnet: options LineBytesMax, WriteWait and ResponseDelay must be positive"))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

// Server serves connections.
type Server struct {
	opts    Options
	metrics metrics

	stop   context.Context // ends with Close
	cancel context.CancelFunc

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closing bool
	work    sync.WaitGroup
}

// New checks opts and registers the metrics.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: opts, open: map[net.Conn]struct{}{}}
	s.stop, s.cancel = context.WithCancel(context.Background())
	var err error
	if s.metrics, err = newMetrics(opts.Registerer, s.connections); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) connections() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(len(s.open))
}

// Serve serves a connection until the client closes it or the server closes.
func (s *Server) Serve(conn *netlimit.Conn) {
	if !s.add(conn) {
		_ = conn.Close() // the server closes
		return
	}
	defer s.remove(conn)
	c := newConnection(s, conn)
	defer c.recovered()
	c.serve()
}

func (s *Server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.open[conn] = struct{}{}
	s.work.Add(1)
	return true
}

func (s *Server) remove(conn net.Conn) {
	_ = conn.Close() // the client may have closed it
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
	s.work.Done()
}

// boundRead sets the time at which a read ends, unless Close has set it. The zero time means that it does not end.
func (s *Server) boundRead(conn net.Conn, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		_ = conn.SetReadDeadline(until) // fails on a closed connection only
	}
}

// Close stops reading. Connections store the lines that they have read, then they end. Close waits for that until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for conn := range s.open {
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("telnet connections still write: %w", ctx.Err())
	}
}
