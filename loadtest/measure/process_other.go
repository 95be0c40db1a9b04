//go:build !linux

package measure

// processCPU always returns false: this system offers no CPU clock of another process.
func processCPU(int) (seconds float64, ok bool) { return 0, false }
