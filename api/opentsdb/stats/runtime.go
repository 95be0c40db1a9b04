package stats

import "runtime"

// Runtime describes the Go runtime in the place of Java's: memory in bytes, and collections of garbage.
func Runtime() map[string]any {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return map[string]any{
		"runtime": map[string]any{"vmName": "Go", "vmVersion": runtime.Version(), "availableProcessors": runtime.NumCPU()},
		"memory": map[string]any{
			"heapMemoryUsage": map[string]uint64{"used": m.HeapAlloc, "committed": m.HeapSys}, "objectsPendingFinalization": 0,
		},
		"gc":      map[string]any{"collectionCount": m.NumGC, "collectionTime": m.PauseTotalNs / 1e6},
		"threads": runtime.NumGoroutine(),
	}
}
