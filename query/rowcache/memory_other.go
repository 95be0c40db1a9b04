//go:build !unix

package rowcache

// newMemory makes words on the heap.
func newMemory(words int) ([]uint64, error) { return make([]uint64, words), nil }

// freeMemory leaves the words to the collector.
func freeMemory([]uint64) {}
