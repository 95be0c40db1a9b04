package measure

import (
	"syscall"
	"unsafe"
)

// processCPU reads the CPU clock of a process. The clock counts nanoseconds, where /proc counts hundredths of a second,
// and includes threads that have ended. It returns false if the process has ended or may not be inspected.
func processCPU(pid int) (seconds float64, ok bool) {
	// The kernel's number of this clock is the complement of the pid, shifted by three bits. The low bits choose the
	// clock: 2 is the time that the scheduler gave to all threads.
	clock := ^pid<<3 | 2
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
	return float64(ts.Nano()) / 1e9, errno == 0
}
