package shortcut

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// socket reads and writes a connection without telling Go's scheduler of its system calls. They never block, and telling
// wakes the scheduler's monitor thread, which then looks for calls that do every 20 µs: while a request takes half a
// millisecond that is a tenth of all the CPU it costs. One goroutine may read and one may write at a time.
type socket struct {
	raw syscall.RawConn

	in      []byte // to be filled
	got     int
	readErr error
	tryRead func(fd uintptr) bool

	out      [2][]byte // left to be written
	vectors  [2]syscall.Iovec
	writeErr error
	tryWrite func(fd uintptr) bool
}

func newSocket(_ *net.TCPConn, raw syscall.RawConn) *socket {
	s := &socket{raw: raw}
	s.tryRead, s.tryWrite = s.read, s.write
	return s
}

// Read implements io.Reader.
func (s *socket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in, s.got, s.readErr = p, 0, nil
	err := s.raw.Read(s.tryRead)
	s.in = nil
	if err != nil {
		return 0, err
	}
	return s.got, s.readErr
}

// read reports false if there is nothing to read yet.
func (s *socket) read(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&s.in[0])), uintptr(len(s.in)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.readErr = os.NewSyscallError("read", errno)
		case n == 0:
			s.readErr = io.EOF
		default:
			s.got = int(n)
		}
		return true
	}
}

// writeBoth writes a and then b.
func (s *socket) writeBoth(a, b []byte) error {
	s.out, s.writeErr = [2][]byte{a, b}, nil
	err := s.raw.Write(s.tryWrite)
	s.out, s.vectors = [2][]byte{}, [2]syscall.Iovec{}
	if err != nil {
		return err
	}
	return s.writeErr
}

// write reports false if there is no room for the rest yet.
func (s *socket) write(fd uintptr) bool {
	for {
		count := s.fill()
		if count == 0 {
			return true
		}
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&s.vectors[0])), uintptr(count))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			s.writeErr = os.NewSyscallError("writev", errno)
			return true
		case n == 0:
			s.writeErr = io.ErrUnexpectedEOF
			return true
		default:
			first := min(int(n), len(s.out[0]))
			s.out[0], s.out[1] = s.out[0][first:], s.out[1][int(n)-first:]
		}
	}
}

// fill points the vectors to what is left to be written and says how many there are.
func (s *socket) fill() (count int) {
	for _, b := range s.out {
		if len(b) > 0 {
			s.vectors[count].Base = &b[0]
			s.vectors[count].SetLen(len(b))
			count++
		}
	}
	return count
}

// wakeMonitor has the scheduler's monitor look at what runs, as any call does that the scheduler is told of: without it
// nothing would take a processor away from requests that compute for long.
func wakeMonitor() { syscall.Syscall(syscall.SYS_GETPPID, 0, 0, 0) }
