package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent replaces Go's 100 until the first collection has measured the heap. Afterwards it is the maximum, unless the
// heap is small; see collector. GOGC overrides it.
const gcPercent = 35

// memoryShare is the part of the container's or machine's memory that the process may use. The rest is for the kernel's
// page cache and other processes. GOMEMLIMIT overrides it.
const memoryShare = 0.9

// memoryOf returns the memory of the container, or of the machine.
func memoryOf() (uint64, error) {
	return memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
}

// fitMemory derives the limits of head, caches and queries from the memory limit. The memory limit is GOMEMLIMIT, or a share
// of the memory of the container or machine. Go's limit gets the memory that the caches outside the heap leave. Without a
// memory limit, fitMemory changes nothing.
func (c *serveConfig) fitMemory(log *slog.Logger) {
	defer c.fitQueries()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	_, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memoryOf))
	if err != nil {
		log.Debug("no memory limit of a container or machine found", "err", err)
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
	c.fitSeries(limit)
}

// Half of the memory limit is for the head. A series takes 256 bytes of that: about 160 for labels of common length,
// registry and index, and 92 for a row with few samples. Rows with more samples are flushed when memory gets short.
const (
	headTotalShare = 2
	seriesBytes    = 256
	// inFlightShare is the share of the memory limit for bodies of write requests in progress. A decoded body is a few times
	// as large.
	inFlightShare   = 16
	inFlightDefault = 256 << 20
)

// fitSeries derives the limits of series and of write requests from the memory limit.
func (c *serveConfig) fitSeries(limit int64) {
	if !c.headTotalByUser {
		c.headTotalBytesMax = limit / headTotalShare
	}
	fits := int(limit / headTotalShare / seriesBytes)
	if !c.seriesMaxByUser {
		c.seriesMax = fits
	}
	c.monthSeriesMax = fits
	c.inFlightBytesMax = max(min(limit/inFlightShare, inFlightDefault), c.bodyBytesMax)
}

// A query may use a fifth of the heap, and all queries together two fifths. The remainder is for the garbage of queries and
// for the head.
const (
	queryMemoryShare  = 5
	queryBytesMin     = 64 << 20
	queryBytesMax     = 2 << 30
	queriesAtOnce     = 2
	engineSampleBytes = 16
)

// fitQueries derives the limits of queries that are 0 from the memory limit.
func (c *serveConfig) fitQueries() {
	limit := debug.SetMemoryLimit(-1)
	if c.queryBytesMax == 0 {
		c.queryBytesMax = min(max(limit/queryMemoryShare, queryBytesMin), queryBytesMax)
	}
	if c.queryTotalBytesMax == 0 {
		// A single large query must fit into the memory that is not reserved for small queries.
		c.queryTotalBytesMax = max(limit/queryMemoryShare*queriesAtOnce, c.queryBytesMax/4*5)
	}
	if c.engineSamplesMax == 0 {
		c.engineSamplesMax = min(c.querySamplesMax, int(c.queryBytesMax/2/engineSampleBytes))
	}
}

// Shares of the descriptors of the process.
const (
	// descriptorsReserved are for the log, the manifest, compactions and connections to other servers.
	descriptorsReserved = 128
	// openTablesMax is the number of table files that are kept open if there are enough descriptors.
	openTablesMax = 1000
	// connectionsMin is the smallest number of connections with which a server starts.
	connectionsMin = 16
)

// fitDescriptors derives the limits of connections and open table files from the limit of descriptors. If there are too few
// descriptors, connections get half of them.
func (c *serveConfig) fitDescriptors(limit uint64, log *slog.Logger) error {
	free := int(min(limit, math.MaxInt32)) - descriptorsReserved
	wanted := c.web.limits.Connections.ConnectionsMax
	connections := min(wanted, max(free-openTablesMax, free/2))
	if connections < min(wanted, connectionsMin) {
		return fmt.Errorf("--web.max-connections: the limit of %d open files (ulimit -n) leaves no room for %d connections "+
			"in addition to the log and the tables; it must be at least %d", limit, min(wanted, connectionsMin),
			descriptorsReserved+2*connectionsMin)
	}
	if connections < wanted {
		log.Warn("--web.max-connections is lowered to fit the limit of open files (ulimit -n)", "wanted", wanted,
			"connections", connections, "open_files_limit", limit)
	}
	c.web.limits.Connections.ConnectionsMax, c.openTablesMax = connections, min(openTablesMax, free-connections)
	return nil
}

// garbageBytesMin is the minimum garbage before a cycle. Otherwise the collector would run every few queries on a small heap
// and slow them down.
const garbageBytesMin = 32 << 20

// garbageShare is the minimum garbage before a cycle, as a part of the live heap: a sixteenth. So the sweep, which visits the
// whole heap, stays cheap.
const garbageShare = 16

// collector sets the percentage of the garbage collector after each cycle. The cost of a cycle grows with the memory that
// has pointers. A million series have a few dozen megabytes of it. Most of the heap is slabs of the head and the caches,
// which have no pointers. So a cycle waits for an amount of garbage equal to the memory with pointers. It waits for at most
// gcPercent of the live heap, and for at least garbageBytesMin and a garbageShare-th of the live heap. The memory limit of
// Go still applies.
type collector struct {
	stopped atomic.Bool
	percent int
	heap    []metrics.Sample // live bytes after the last collection, and the bytes that it scanned
}

// paceCollector sets the percentage until stop is called. GOGC overrides it.
func paceCollector() (stop func()) {
	c := &collector{percent: gcPercent, heap: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}}
	if os.Getenv("GOGC") == "" {
		c.afterNextCollection()
	}
	return func() { c.stopped.Store(true) }
}

// afterNextCollection calls a function after the next collection, by the cleanup of an unreferenced object.
func (c *collector) afterNextCollection() {
	type lost struct{ _ [2]*collector }
	runtime.AddCleanup(new(lost), (*collector).pace, c)
}

func (c *collector) pace() {
	if c.stopped.Load() {
		return
	}
	metrics.Read(c.heap)
	percent := percentFor(c.heap[0].Value.Uint64(), c.heap[1].Value.Uint64())
	if diff := percent - c.percent; diff*8 > c.percent || diff*8 < -c.percent {
		debug.SetGCPercent(percent) // SetGCPercent stops the world, so ignore small changes
		c.percent = percent
	}
	c.afterNextCollection()
}

// percentFor returns the percentage for a live heap of liveBytes. scanBytes of it may have pointers.
func percentFor(liveBytes, scanBytes uint64) int {
	liveBytes = max(liveBytes, 1<<20)
	garbage := min(max(scanBytes, liveBytes/garbageShare), liveBytes/100*gcPercent)
	return int(max(garbage, garbageBytesMin) / (liveBytes / 100))
}
