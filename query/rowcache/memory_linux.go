package rowcache

import "syscall"

// adviseHuge asks for pages of two megabytes: what is looked up lies anywhere, and each small page would have to be looked
// up as well. A system that has none to give goes on with small ones.
func adviseHuge(b []byte) { _ = syscall.Madvise(b, syscall.MADV_HUGEPAGE) }
