package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent replaces Go's 100 until a collection has shown what the heap is made of, and is the most afterwards unless the
// heap is small; see collector. GOGC overrules it.
const gcPercent = 35

// memoryShare is the part of the container's memory, or of the machine's, that the process may use; the rest is for the
// kernel's page cache and for others.
// GOMEMLIMIT overrules it.
const memoryShare = 0.9

// memoryOf is the memory of the container, or of the machine.
func memoryOf() (uint64, error) {
	return memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
}

// fitMemory fits head, caches and queries to the memory limit, which is GOMEMLIMIT or a part of the container's memory or,
// without one, of the machine's, and the garbage collector to what the caches outside its heap leave. Where there is no
// limit either, it changes nothing.
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

// Half of the memory limit is for the head. A series needs 256 bytes of that: about 160 for labels of common length,
// registry and index, and 92 for a row with few samples. Rows with more samples are flushed when memory gets short.
const (
	headTotalShare = 2
	seriesBytes    = 256
	// inFlightShare of the memory limit is for the bodies of write requests under way. What is made of a body is a few times
	// as large.
	inFlightShare   = 16
	inFlightDefault = 256 << 20
)

// fitSeries fits the limits of series and of requests that bring them to the memory limit.
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

// A query may use a fifth of the heap, and all queries together two fifths. Each query leaves garbage behind, and the head needs
// its part.
const (
	queryMemoryShare  = 5
	queryBytesLeast   = 64 << 20
	queryBytesMost    = 2 << 30
	queriesAtOnce     = 2
	engineSampleBytes = 16
)

// fitQueries fits limits of queries that were left at 0 to the memory limit.
func (c *serveConfig) fitQueries() {
	limit := debug.SetMemoryLimit(-1)
	if c.queryBytesMax == 0 {
		c.queryBytesMax = min(max(limit/queryMemoryShare, queryBytesLeast), queryBytesMost)
	}
	if c.queryTotalBytesMax == 0 {
		// A single large query must fit into what small queries do not keep for themselves.
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
	// openTablesMost is the number of tables that are kept open if there are enough descriptors.
	openTablesMost = 1000
	// connectionsLeast is the number of connections below which a server is of no use.
	connectionsLeast = 16
)

// fitDescriptors fits the most connections and open tables to the limit of descriptors. If there are too few, connections
// get half of them.
func (c *serveConfig) fitDescriptors(limit uint64, log *slog.Logger) error {
	free := int(min(limit, math.MaxInt32)) - descriptorsReserved
	wanted := c.web.connectionsMax
	connections := min(wanted, max(free-openTablesMost, free/2))
	if connections < min(wanted, connectionsLeast) {
		return fmt.Errorf("--web.max-connections: the limit of %d open files (ulimit -n) leaves no room for %d connections "+
			"beside the log and the tables; it must be %d at least", limit, min(wanted, connectionsLeast),
			descriptorsReserved+2*connectionsLeast)
	}
	if connections < wanted {
		log.Warn("--web.max-connections is lowered to fit the limit of open files (ulimit -n)", "wanted", wanted,
			"connections", connections, "open_files_limit", limit)
	}
	c.web.connectionsMax, c.openTablesMax = connections, min(openTablesMost, free-connections)
	return nil
}
