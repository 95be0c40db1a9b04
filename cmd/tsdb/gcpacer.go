package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// garbageBytesMin is the garbage that a collection waits for at least. A heap of few bytes would otherwise be collected
// every few queries, whose time that shows in.
const garbageBytesMin = 32 << 20

// garbageShare is the part of the live heap that garbage may be at least: a sixteenth, so that sweeping it, which goes
// through all of it, stays cheap.
const garbageShare = 16

// collector gives the garbage collector, after each of its rounds, the percentage for the next. A round costs what it has
// to look into: memory with pointers, of which a million series have a few dozen megabytes, not the slabs of the head and
// the caches, which are most of the heap. So it waits for as much garbage as there is memory with pointers, but not for more
// than gcPercent of the heap, nor for less than garbageBytesMin. The memory limit holds all the same.
type collector struct {
	stopped atomic.Bool
	percent int
	heap    []metrics.Sample // bytes alive after the last round, and bytes that it looked into
}

// paceCollector does so until stop is called; GOGC overrules it.
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

// percentFor is the percentage of a live heap of so many bytes, of which so many may have pointers.
func percentFor(liveBytes, scanBytes uint64) int {
	liveBytes = max(liveBytes, 1<<20)
	garbage := min(max(scanBytes, liveBytes/garbageShare), liveBytes/100*gcPercent)
	return int(max(garbage, garbageBytesMin) / (liveBytes / 100))
}
