//go:build unix && !linux

package rowcache

// adviseHuge does nothing: there is no such advice.
func adviseHuge([]byte) {}
