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

// collector gives the garbage collector, after each of its rounds, the percentage for the next: gcPercent, or more while
// that would be less than garbageBytesMin. The memory limit holds all the same.
type collector struct {
	stopped atomic.Bool
	percent int
	live    []metrics.Sample
}

// paceCollector does so until stop is called; GOGC overrules it.
func paceCollector() (stop func()) {
	c := &collector{percent: gcPercent, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
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
	metrics.Read(c.live)
	percent := percentFor(c.live[0].Value.Uint64())
	if diff := percent - c.percent; diff*8 > c.percent || diff*8 < -c.percent || percent == gcPercent && diff != 0 {
		debug.SetGCPercent(percent) // stops the world, so not for every byte
		c.percent = percent
	}
	c.afterNextRound()
}

// percentFor is the percentage of a live heap of so many bytes.
func percentFor(liveBytes uint64) int {
	return max(gcPercent, int(garbageBytesMin*100/max(liveBytes, 1<<20)))
}
