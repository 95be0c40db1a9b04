//go:build unix

package rowcache

import (
	"fmt"
	"syscall"
	"unsafe"
)

// newMemory asks the system for words outside of the collected heap: what is kept decoded should not make the
// collector let garbage of the same size stand.
func newMemory(words int) ([]uint64, error) {
	b, err := syscall.Mmap(-1, 0, 8*words, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", 8*words, err)
	}
	adviseHuge(b)
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), words), nil
}

// freeMemory gives words back that nobody uses any more.
func freeMemory(words []uint64) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	_ = syscall.Munmap(b) // what fails to be given back is lost and does no other harm
}
