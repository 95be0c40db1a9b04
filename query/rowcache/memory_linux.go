package rowcache

import "syscall"

// adviseHuge asks for pages of two megabytes. Look-ups go to any place in the memory, and each small page would need a look-up
// in the page table. A system without large pages uses small ones.
func adviseHuge(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
