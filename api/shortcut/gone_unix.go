//go:build unix

package shortcut

import "syscall"

// canLook: a socket can be looked at without reading from it.
const canLook = true

// gone reports whether the other side has closed the connection, or its sending half, which net/http takes for the same.
// Bytes of a further request hide that, as they do there.
func gone(raw syscall.RawConn) (closed bool) {
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			closed = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			closed = true
		}
	})
	return closed || err != nil
}
