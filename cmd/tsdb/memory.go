package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent replaces Go's 100. Nearly all of the heap is slabs without pointers, which cost nothing to mark, so that
// collecting more often costs little and keeps the garbage of a flush small. GOGC overrules it.
const gcPercent = 35

// memoryShare is the part of the container's memory that the heap may use; the rest is for the kernel's page cache and
// for what the runtime does not count. GOMEMLIMIT overrules it.
const memoryShare = 0.9

// limitMemory fits the garbage collector to the container, if there is one.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	if err != nil {
		log.Debug("no memory limit of a container found", "err", err)
	}
}

// The memory of a query is an eighth of what the process may use: several run at a time, each leaves garbage behind, and
// the head and the caches need their part.
const (
	queryMemoryShare = 8
	queryBytesLeast  = 64 << 20
	queryBytesMost   = 2 << 30
)

// bytesOfQuery is the memory that a query may use: as configured or, for 0, fitted to the memory limit. limitMemory must
// have run.
func bytesOfQuery(configured int64) int64 {
	if configured > 0 {
		return configured
	}
	return min(max(debug.SetMemoryLimit(-1)/queryMemoryShare, queryBytesLeast), queryBytesMost)
}
