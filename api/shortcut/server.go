package shortcut

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Default values of Options.
const (
	DefaultRequestBytesMax = 8 << 10
	DefaultWatchEvery      = 20 * time.Millisecond
)

// Options configure a Server.
type Options struct {
	// HTTP answers what is not taken, and says how: its handler and timeouts hold for all requests. Required.
	HTTP *http.Server
	// Paths are the beginnings of the paths of requests that are taken. Default none.
	Paths []string
	// RequestBytesMax bounds a request that is taken, head and body; larger ones are handed over. It is what a connection
	// takes in memory. Default 8 KiB.
	RequestBytesMax int
	// WatchEvery is how often clients of requests under way are looked at. Default 20 ms.
	WatchEvery time.Duration
}

// Validate fills in defaults and reports every fault of the options at once.
func (o *Options) Validate() error {
	var faults []error
	if o.HTTP == nil {
		faults = append(faults, errors.New("shortcut: option HTTP is required"))
	} else if o.HTTP.WriteTimeout != 0 {
		faults = append(faults, errors.New("shortcut: option HTTP must have no WriteTimeout"))
	}
	o.RequestBytesMax = cmp.Or(o.RequestBytesMax, DefaultRequestBytesMax)
	o.WatchEvery = cmp.Or(o.WatchEvery, DefaultWatchEvery)
	if o.RequestBytesMax < 0 || o.WatchEvery < 0 {
		faults = append(faults, fmt.Errorf("shortcut: options RequestBytesMax %d and WatchEvery %s must not be negative",
			o.RequestBytesMax, o.WatchEvery))
	}
	return errors.Join(faults...)
}

// Server accepts connections and answers what it takes. Make one with New. It is safe for concurrent use.
type Server struct {
	opts     Options
	watch    *watch
	start    sync.Once // of the watch
	stop     sync.Once
	stopped  chan struct{} // ends the watch
	draining atomic.Bool

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// New checks opts and makes a Server, which does nothing before Serve.
func New(opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: opts, conns: map[*conn]struct{}{}, stopped: make(chan struct{})}
	s.watch = newWatch(opts.WatchEvery, s.open)
	return s, nil
}

// Serve answers requests until the Server is closed or shut down, and returns http.ErrServerClosed then. It closes l.
// Whatever it returns, Close or Shutdown have to be called.
func (s *Server) Serve(l net.Listener) error {
	h := newHanded(l)
	go s.accept(h)
	s.start.Do(func() { go s.watch.run(s.stopped) })
	return s.opts.HTTP.Serve(h)
}

// accept takes connections until the listener is closed.
func (s *Server) accept(h *handed) {
	for {
		c, err := h.Listener.Accept()
		if err != nil {
			// The http.Server knows which errors pass, and how long to wait; it asks again after that.
			if !h.give(nil, err) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok || !canLook {
			h.give(c, nil)
			continue
		}
		if mine := newConn(s, h, tcp); s.add(mine) {
			go mine.serve()
		}
	}
}

// add takes a connection in, unless the server is closed already.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining.Load() {
		c.tcp.Close()
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// open lists the connections there are.
func (s *Server) open() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// drainPoll is how often Shutdown looks whether requests have ended.
const drainPoll = 5 * time.Millisecond

// Shutdown closes listeners and unused connections and waits until the requests under way have ended, or for the end of
// ctx, whose error it returns then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
	defer s.unwatch()
	s.closeUnused()
	if err := s.opts.HTTP.Shutdown(ctx); err != nil {
		return err
	}
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for s.closeUnused() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
	return nil
}

// closeUnused closes connections without a request and says how many others there are.
func (s *Server) closeUnused() (left int) {
	for _, c := range s.open() {
		if !c.closeUnused() {
			left++
		}
	}
	return left
}

// Close closes listeners and all connections at once.
func (s *Server) Close() error {
	s.draining.Store(true)
	s.unwatch()
	err := s.opts.HTTP.Close()
	for _, c := range s.open() {
		c.tcp.Close()
	}
	return err
}

// unwatch ends the watch.
func (s *Server) unwatch() { s.stop.Do(func() { close(s.stopped) }) }

// logf logs where the http.Server does.
func (s *Server) logf(format string, args ...any) {
	if l := s.opts.HTTP.ErrorLog; l != nil {
		l.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}
