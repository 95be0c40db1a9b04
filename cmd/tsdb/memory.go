package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/alecthomas/kingpin/v2"
)

// gcPercent replaces Go's 100 until a collection has shown what the heap is made of, and is the most afterwards unless the
// heap is small; see collector. GOGC overrules it.
const gcPercent = 35

// memoryShare is the part of the container's memory that the process may use; the rest is for the kernel's page cache.
// GOMEMLIMIT overrules it.
const memoryShare = 0.9

// sharedBytes is a flag for memory that must leave room for other things: unless the user sets it, it is at most a part of
// the memory limit.
type sharedBytes struct {
	sizeBytes *int64
	part      int64 // 8 for an eighth
	offHeap   bool  // not counted by the Go runtime
	byUser    bool
}

// addShared declares such a flag.
func (c *serveConfig) addShared(flag *kingpin.FlagClause, s sharedBytes) {
	shared := &s
	flag.IsSetByUser(&shared.byUser).BytesVar(asBytes(s.sizeBytes))
	c.shared = append(c.shared, shared)
}

// fitMemory fits head and caches to the memory limit, which is GOMEMLIMIT or a part of the container's memory, and the
// garbage collector to what the caches outside its heap leave. Without a limit it changes nothing.
func (c *serveConfig) fitMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	if err != nil {
		log.Debug("no memory limit of a container found", "err", err)
	}
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return
	}
	heapBytes := limit
	for _, s := range c.shared {
		if !s.byUser {
			*s.sizeBytes = min(*s.sizeBytes, limit/s.part)
		}
		if s.offHeap {
			heapBytes -= *s.sizeBytes
		}
	}
	debug.SetMemoryLimit(max(heapBytes, limit/2))
}

// The memory of a query is an eighth of what the heap may use: several run at a time, each leaves garbage behind, and
// the head needs its part.
const (
	queryMemoryShare = 8
	queryBytesLeast  = 64 << 20
	queryBytesMost   = 2 << 30
)

// bytesOfQuery is the memory that a query may use: as configured or, for 0, fitted to the memory limit. fitMemory must
// have run.
func bytesOfQuery(configured int64) int64 {
	if configured > 0 {
		return configured
	}
	return min(max(debug.SetMemoryLimit(-1)/queryMemoryShare, queryBytesLeast), queryBytesMost)
}
