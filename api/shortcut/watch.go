package shortcut

import (
	"sync/atomic"
	"time"
)

// watch looks at the clients of requests under way. It sleeps while there are none.
type watch struct {
	every  time.Duration
	open   func() []*conn
	asleep atomic.Bool
	calls  atomic.Int64 // requests begun
	call   chan struct{}
}

// lingerTicks is how often the watch looks in vain before it sleeps: waking it wakes a processor.
const lingerTicks = 50

func newWatch(every time.Duration, open func() []*conn) *watch {
	w := &watch{every: every, open: open, call: make(chan struct{}, 1)}
	w.asleep.Store(true)
	return w
}

// wake is told of every request. While the watch is awake its ticks bound the sleep of the scheduler's monitor thread too,
// which takes processors away from requests that compute for long; so it has to be woken only with the watch.
func (w *watch) wake() {
	w.calls.Add(1)
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		wakeMonitor()
		w.call <- struct{}{} // taken before it can be asleep again
	}
}

// run looks until stop is closed.
func (w *watch) run(stop <-chan struct{}) {
	for {
		select {
		case <-w.call:
		case <-stop:
			return
		}
		if !w.look(stop) {
			return
		}
	}
}

// look looks until nothing has happened for a while; it returns false if it was stopped.
func (w *watch) look(stop <-chan struct{}) bool {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	seen := w.calls.Load()
	for vain := 0; vain < lingerTicks; vain++ {
		select {
		case <-tick.C:
		case <-stop:
			return false
		}
		for _, c := range w.open() {
			if c.look() {
				vain = -1
			}
		}
		if calls := w.calls.Load(); calls != seen {
			seen, vain = calls, -1
		}
	}
	// A request that began before this is seen has counted itself and not found the watch asleep.
	w.asleep.Store(true)
	if w.calls.Load() != seen && w.asleep.CompareAndSwap(true, false) {
		w.call <- struct{}{}
	}
	return true
}
