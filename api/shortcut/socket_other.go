//go:build !linux

package shortcut

import (
	"net"
	"syscall"
)

// socket reads and writes a connection.
type socket struct{ net.Conn }

func newSocket(c *net.TCPConn, _ syscall.RawConn) *socket { return &socket{c} }

// writeBoth writes a and then b.
func (s *socket) writeBoth(a, b []byte) error {
	both := net.Buffers{a, b}
	_, err := both.WriteTo(s.Conn)
	return err
}

// wakeMonitor is not needed: the scheduler is told of every call.
func wakeMonitor() {}
