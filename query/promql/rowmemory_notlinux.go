//go:build unix && !linux

package promql

// adviseHuge does nothing: there is no such advice.
func adviseHuge([]byte) {}
