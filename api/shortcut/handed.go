package shortcut

import (
	"net"
	"sync"
)

// handed is the listener of an http.Server that gets the connections which were not taken.
type handed struct {
	net.Listener
	queue chan arrival
	once  sync.Once
	done  chan struct{}
}

// arrival is what Accept returns.
type arrival struct {
	conn net.Conn
	err  error
}

func newHanded(l net.Listener) *handed {
	return &handed{Listener: l, queue: make(chan arrival), done: make(chan struct{})}
}

// give has Accept return c or err once it is called; a connection that nobody will accept any more is closed.
func (h *handed) give(c net.Conn, err error) bool {
	select {
	case h.queue <- arrival{c, err}:
		return true
	case <-h.done:
		if c != nil {
			c.Close()
		}
		return false
	}
}

// Accept implements net.Listener.
func (h *handed) Accept() (net.Conn, error) {
	select {
	case a := <-h.queue:
		return a.conn, a.err
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handed) Close() error {
	h.once.Do(func() { close(h.done) })
	return h.Listener.Close()
}

// begun is a connection of which something was read before.
type begun struct {
	net.Conn
	read []byte
}

// CloseWrite is used by net/http before it closes a connection with bytes unread.
func (b *begun) CloseWrite() error { return b.Conn.(*net.TCPConn).CloseWrite() }

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.read) == 0 || len(p) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.read)
	if b.read = b.read[n:]; len(b.read) == 0 {
		b.read = nil
	}
	return n, nil
}
