package load

import (
	"math"
	"sync"
)

// StepLimiter keeps the timestamps of the senders close together, as in requests of one Prometheus. It blocks senders that
// are too many steps ahead of the slowest one.
type StepLimiter struct {
	mu       sync.Mutex
	changed  *sync.Cond
	steps    []int // current step of each sender
	aheadMax int   // steps
}

// aheadMaxMs bounds the distance of senders in timestamps. Two steps are always allowed.
const aheadMaxMs = 5 * 60 * 1000

// NewStepLimiter returns a limiter for the given number of senders.
func NewStepLimiter(senders int, t *Timeline) *StepLimiter {
	l := &StepLimiter{steps: make([]int, senders), aheadMax: 2}
	if t.intervalMs > 0 {
		l.aheadMax = max(l.aheadMax, int(aheadMaxMs/t.intervalMs))
	}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Wait blocks until a sender may begin a step.
func (l *StepLimiter) Wait(sender, step int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps[sender] = step
	l.changed.Broadcast()
	for step-l.slowest() > l.aheadMax {
		l.changed.Wait()
	}
}

// Remove removes a sender that has ended, so that the others do not wait for it.
func (l *StepLimiter) Remove(sender int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps[sender] = math.MaxInt
	l.changed.Broadcast()
}

func (l *StepLimiter) slowest() int {
	low := math.MaxInt
	for _, step := range l.steps {
		low = min(low, step)
	}
	return low
}
