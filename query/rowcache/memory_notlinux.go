//go:build unix && !linux

package rowcache

// adviseHuge does nothing, because the system takes no such advice.
func adviseHuge([]byte) {}
