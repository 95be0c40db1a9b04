//go:build unix

package main

import (
	"math"
	"syscall"
)

// descriptorLimit is the number of files and connections that the process may have open. Go has raised the soft limit to
// the hard limit at the start.
func descriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
