//go:build !unix

package rowcache

// newMemory allocates words on the heap.
func newMemory(words int) ([]uint64, error) { return make([]uint64, words), nil }

// freeMemory leaves the words to the garbage collector.
func freeMemory([]uint64) {}
