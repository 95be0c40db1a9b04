package netlimit

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// queuedBytes returns the number of bytes in the kernel that the peer of a TCP connection has not acknowledged. It returns
// -1 if the kernel does not say.
func queuedBytes(c net.Conn) int {
	s, ok := c.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return -1
	}
	bytes := -1
	if raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			bytes = n
		}
	}) != nil {
		return -1
	}
	return bytes
}
