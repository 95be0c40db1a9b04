package shortcut

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// States of a connection.
const (
	unused int32 = iota // waits for a request
	busy                // has one
	closed
)

// conn is a connection whose requests are taken.
type conn struct {
	server *Server
	handed *handed
	tcp    *net.TCPConn
	raw    syscall.RawConn
	socket *socket
	base   context.Context
	remote string
	state  atomic.Int32

	buf    []byte
	bytes  bytes.Reader
	reader *bufio.Reader
	readBy time.Time // the deadline of reads

	mu      sync.Mutex
	cancel  context.CancelFunc // of the request under way; nil without one
	watched bool               // the watch has seen the request before
}

func newConn(s *Server, h *handed, tcp *net.TCPConn) *conn {
	base := context.WithValue(context.Background(), http.ServerContextKey, s.opts.HTTP)
	c := &conn{
		server: s, handed: h, tcp: tcp, remote: tcp.RemoteAddr().String(),
		base: context.WithValue(base, http.LocalAddrContextKey, tcp.LocalAddr()),
		buf:  make([]byte, s.opts.RequestBytesMax),
	}
	c.reader = bufio.NewReader(&c.bytes)
	return c
}

// serve answers requests until one is not to be taken or the connection ends.
func (c *conn) serve() {
	defer c.server.remove(c)
	var err error
	if c.raw, err = c.tcp.SyscallConn(); err != nil {
		c.tcp.Close()
		return
	}
	c.socket = newSocket(c.tcp, c.raw)
	srv := c.server.opts.HTTP
	first := cmp.Or(srv.ReadHeaderTimeout, srv.ReadTimeout)
	next := cmp.Or(srv.IdleTimeout, srv.ReadTimeout)
	c.extend(first)
	for {
		n, err := c.socket.Read(c.buf)
		if err != nil || !c.state.CompareAndSwap(unused, busy) {
			c.tcp.Close()
			return
		}
		r := c.parse(c.buf[:n])
		if r == nil {
			c.handOver(n)
			return
		}
		if !c.answer(r) || !c.state.CompareAndSwap(busy, unused) || c.server.draining.Load() {
			c.tcp.Close()
			return
		}
		c.extend(next)
	}
}

// extend lets reads wait for d, or for at least three quarters of it: moving a deadline costs, and most requests are
// followed by another soon.
func (c *conn) extend(d time.Duration) {
	switch now := time.Now(); {
	case d <= 0 && !c.readBy.IsZero():
		c.readBy = time.Time{}
	case d > 0 && (c.readBy.IsZero() || c.readBy.Before(now.Add(d-d/4)) || c.readBy.After(now.Add(d))):
		c.readBy = now.Add(d)
	default:
		return
	}
	c.tcp.SetReadDeadline(c.readBy)
}

// handOver leaves the connection to the http.Server, with the n bytes that were read of it.
func (c *conn) handOver(n int) {
	c.tcp.SetReadDeadline(time.Time{})
	c.handed.give(&begun{Conn: c.tcp, read: c.buf[:n:n]}, nil)
}

// closeUnused closes the connection if it has no request; it reports whether it is closed.
func (c *conn) closeUnused() bool {
	if c.state.CompareAndSwap(unused, closed) {
		c.tcp.Close()
	}
	return c.state.Load() == closed
}

// answer has the handler answer a request; it reports whether the connection can be used on.
func (c *conn) answer(r *http.Request) (keep bool) {
	ctx, cancel := context.WithCancel(c.base)
	c.begin(cancel)
	w := newResponse(c, cancel)
	defer func() {
		c.end()
		cancel()
		w.free()
		if cause := recover(); cause != nil {
			keep = false
			if cause != http.ErrAbortHandler {
				c.server.logf("http: panic serving %s: %v\n%s", c.remote, cause, debug.Stack())
			}
		}
	}()
	handler := c.server.opts.HTTP.Handler
	if handler == nil {
		handler = http.DefaultServeMux
	}
	handler.ServeHTTP(w, r.WithContext(ctx))
	return w.finish()
}

// begin notes the request under way for the watch.
func (c *conn) begin(cancel context.CancelFunc) {
	c.mu.Lock()
	c.cancel, c.watched = cancel, false
	c.mu.Unlock()
	c.server.watch.wake()
}

// end says that there is no request under way any more.
func (c *conn) end() {
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
}

// look ends the request under way if its client has gone away. One that has only begun is left until the next time:
// most have ended by then. It reports whether there is a request.
func (c *conn) look() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel == nil {
		return false
	}
	if c.watched && gone(c.raw) {
		c.cancel()
	}
	c.watched = true
	return true
}
