//go:build unix

package rowcache

import (
	"fmt"
	"syscall"
	"unsafe"
)

// newMemory maps words outside the Go heap. Rows on the Go heap would delay the garbage collector, so an equal amount of
// garbage would accumulate.
func newMemory(words int) ([]uint64, error) {
	b, err := syscall.Mmap(-1, 0, 8*words, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", 8*words, err)
	}
	adviseHuge(b)
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), words), nil
}

// freeMemory unmaps unused words.
func freeMemory(words []uint64) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
	_ = syscall.Munmap(b) // memory that cannot be unmapped is lost, without other harm
}
