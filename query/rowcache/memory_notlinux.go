//go:build unix && !linux

package rowcache

// adviseHuge does nothing: the system has no such advice.
func adviseHuge([]byte) {}
