package rowcache

import "syscall"

// adviseHuge asks for pages of two megabytes. Look-ups are spread over the memory, so that small pages would cause a TLB miss
// each. A system without huge pages ignores the advice.
func adviseHuge(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
