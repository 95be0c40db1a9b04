package telnet

import (
	"errors"
	"net"
	"sync"

	"halite/api/netlimit"
)

// Split is a listener of the HTTP connections among all connections that another listener accepts. It passes the other
// connections to a function.
type Split struct {
	net.Listener
	http   chan net.Conn
	closed chan struct{}
	once   sync.Once
	err    error // of Accept, set before closed
}

// NewSplit accepts connections of l, which a netlimit.Limiter made, until it is closed. It calls serve in a goroutine for each
// connection that is not HTTP.
func NewSplit(l net.Listener, serve func(*netlimit.Conn)) *Split {
	s := &Split{Listener: l, http: make(chan net.Conn), closed: make(chan struct{})}
	go s.accept(serve)
	return s
}

func (s *Split) accept(serve func(*netlimit.Conn)) {
	for {
		nc, err := s.Listener.Accept()
		if err != nil {
			s.end(err)
			return
		}
		conn, ok := nc.(*netlimit.Conn)
		if !ok {
			s.end(errors.Join(errors.New("a netlimit.Limiter must make the listener"), nc.Close()))
			return
		}
		go s.direct(conn, serve)
	}
}

// direct reads the first byte of a connection. OpenTSDB's commands begin with a lower-case letter, and methods of HTTP
// with an upper-case letter. A connection with TLS carries HTTP.
func (s *Split) direct(conn *netlimit.Conn, serve func(*netlimit.Conn)) {
	var first [1]byte
	if _, err := conn.Read(first[:]); err != nil {
		_ = conn.Close() // the client has gone
		return
	}
	conn.Unread(first[:])
	const handshake = 0x16
	if c := first[0]; (c < 'A' || c > 'Z') && c != handshake {
		serve(conn)
		return
	}
	select {
	case s.http <- conn:
	case <-s.closed:
		_ = conn.Close() // nobody serves it
	}
}

// Accept implements net.Listener.
func (s *Split) Accept() (net.Conn, error) {
	select {
	case conn := <-s.http:
		return conn, nil
	case <-s.closed:
		return nil, s.err
	}
}

func (s *Split) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.closed)
	})
}

// Close implements net.Listener.
func (s *Split) Close() error {
	err := s.Listener.Close()
	s.end(net.ErrClosed)
	return err
}
