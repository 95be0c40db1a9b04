package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// garbageBytesMin is the least garbage that a cycle waits for. Otherwise the collector would run every few queries on a small
// heap, and slow them down.
const garbageBytesMin = 32 << 20

// garbageShare is the least part of the live heap that a cycle waits for: a sixteenth. So the sweep, which goes through the whole
// heap, stays cheap.
const garbageShare = 16

// collector sets the percentage of the garbage collector after each cycle. The cost of a cycle grows with the memory that has
// pointers. A million series have a few dozen megabytes of it. Most of the heap is slabs of the head and the caches, which have
// no pointers. So a cycle waits for as much garbage as there is memory with pointers. It waits for at most gcPercent of the live
// heap, and for at least garbageBytesMin and the part garbageShare. The memory limit of Go still holds.
type collector struct {
	stopped atomic.Bool
	percent int
	heap    []metrics.Sample // bytes alive after the last round, and bytes that it looked into
}

// paceCollector sets the percentage until stop is called. GOGC overrides it.
func paceCollector() (stop func()) {
	c := &collector{percent: gcPercent, heap: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/total:bytes"}}}
	if os.Getenv("GOGC") == "" {
		c.afterNextRound()
	}
	return func() { c.stopped.Store(true) }
}

// afterNextRound waits with an object that nobody refers to for a round that finds it.
func (c *collector) afterNextRound() {
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
		debug.SetGCPercent(percent) // stops the world, so not for every byte
		c.percent = percent
	}
	c.afterNextRound()
}

// percentFor returns the percentage for a live heap of liveBytes. scanBytes of it may have pointers.
func percentFor(liveBytes, scanBytes uint64) int {
	liveBytes = max(liveBytes, 1<<20)
	garbage := min(max(scanBytes, liveBytes/garbageShare), liveBytes/100*gcPercent)
	return int(max(garbage, garbageBytesMin) / (liveBytes / 100))
}
