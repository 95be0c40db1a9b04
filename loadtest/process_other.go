//go:build !linux

package loadtest

// processCPU knows no clocks of other processes here.
func processCPU(int) (seconds float64, ok bool) { return 0, false }
