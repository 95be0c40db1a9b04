package loadtest

import (
	"syscall"
	"unsafe"
)

// processCPU reads the CPU clock of a process, which knows nanoseconds where /proc has hundredths of a second; it
// includes threads that have ended. It returns false for processes that are gone or not to be looked at.
func processCPU(pid int) (seconds float64, ok bool) {
	// The kernel numbers these clocks by the complement of the pid: three bits below it say which kind, 2 is the time
	// that the scheduler gave to all threads.
	clock := ^pid<<3 | 2
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
	return float64(ts.Nano()) / 1e9, errno == 0
}
