package netlimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type connKey struct{}

// Response is the transfer of a response: a *Conn for HTTP/1, and a stream for HTTP/2.
type Response interface {
	// Slow reports whether the client has taken longer than Options.SlowAfter for a part of the response.
	Slow() bool
	// End makes the current write, and all later ones, fail.
	End()
}

// ResponseOf returns the transfer of the response to a request. It is nil if a Limiter did not accept the connection.
func ResponseOf(ctx context.Context) Response {
	response, _ := ctx.Value(connKey{}).(Response)
	return response
}

// Conn is a connection that fails if its client does not read what the server sends. Queries that need memory use Slow and End to
// find and end the response of a slow client.
type Conn struct {
	net.Conn
	limiter   *Limiter
	idleSince atomic.Int64 // Unix time in ns; 0 while a request is answered
	writing   atomic.Int64 // Unix time in ns at which the current write began; 0 if there is none
	ended     atomic.Bool  // by End
	closing   atomic.Bool  // by closeIdle
	closed    sync.Once
	unread    []byte
}

// Unread makes the next reads return p first. It must not run during a read.
func (c *Conn) Unread(p []byte) { c.unread = append(c.unread, p...) }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// Touch records that the client of a protocol other than HTTP has just sent something. If connections are short, the limiter
// closes the one that was silent longest.
func (c *Conn) Touch() { c.setState(http.StateIdle) }

func (c *Conn) setState(s http.ConnState) {
	switch s {
	case http.StateNew, http.StateIdle:
		c.idleSince.Store(time.Now().UnixNano())
	default:
		c.idleSince.Store(0)
	}
}

// Slow reports whether the client has taken longer than Options.SlowAfter for a part of a response.
func (c *Conn) Slow() bool {
	return slowSince(c.writing.Load(), c.limiter.opts.SlowAfter)
}

// slowSince reports whether a write has taken longer than a limit. It began at a Unix time in ns; 0 means that there is none.
func slowSince(began int64, limit time.Duration) bool {
	return began != 0 && time.Since(time.Unix(0, began)) > limit
}

// End makes the current write, and all later ones, fail.
func (c *Conn) End() { c.end(endedMemory) }

func (c *Conn) end(reason string) {
	if c.ended.Swap(true) {
		return
	}
	c.limiter.metrics.ended.WithLabelValues(reason).Inc()
	c.discardUnsent()
	// An error means that the connection is closed already.
	_ = c.SetWriteDeadline(time.Unix(1, 0))
}

// discardUnsent makes Close discard the bytes that the client has not read. Otherwise the kernel would keep them.
func (c *Conn) discardUnsent() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
}

// errEnded is the error of writes after End.
var errEnded = errors.New("connection ended: the client is slow, and others need its connection or the memory of the response")

// errStalled is the error of a write after the client read nothing within the send timeout.
var errStalled = errors.New("connection ended: the client does not read the response")

// sliceBytes bounds the part of a response that Slow measures.
const sliceBytes = 64 << 10

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	defer c.writing.Store(0)
	for n < len(p) && err == nil {
		c.writing.Store(time.Now().UnixNano())
		var m int
		m, err = c.writeSlice(p[n:min(n+sliceBytes, len(p))])
		n += m
	}
	return n, err
}

// stallChecks is the number of times that a stalled write checks for progress within the send timeout.
const stallChecks = 8

// writeSlice writes p. It fails when the client has read nothing for the send timeout. The kernel accepts more of p only when a
// good part of its buffer is free. So bytes that the client has acknowledged count as progress too.
func (c *Conn) writeSlice(p []byte) (n int, err error) {
	timeout := c.limiter.opts.SendTimeout
	var progress time.Time // zero until the first check
	acknowledged := 0
	for {
		now := time.Now()
		if err := c.SetWriteDeadline(now.Add(timeout / stallChecks)); err != nil {
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
			c.limiter.metrics.ended.WithLabelValues(endedStall).Inc()
			c.discardUnsent()
			return n, fmt.Errorf("%w within %s (web.send-timeout)", errStalled, timeout)
		}
	}
}

// CloseWrite ends the response but not the connection. net/http calls it.
func (c *Conn) CloseWrite() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.closed.Do(func() { c.limiter.remove(c) })
	return err
}
