package loadtest

import (
	"fmt"
	"math"
	"sync"
	"time"

	"halite/loadtest/fleet"
)

// timeline gives every step of every unit its timestamp, and says when it is due. Units are spread over the interval, as
// scrapes are.
type timeline struct {
	startMs    int64
	intervalMs float64 // 0: a step begins when the first sender is ready for it
	steps      int     // math.MaxInt if only the clock ends the load
	slots      int
	// pace is the seconds of real time for each second of timestamps; 0 means that nothing is waited for.
	pace float64
	wall time.Time // when startMs is due
	now  func() time.Time

	mu    sync.Mutex
	bases []int64 // of the steps begun, if intervalMs is 0
}

// newTimeline works out interval, steps and pace from the options. It sets the fleet options' StepSeconds.
func newTimeline(o *Options) (*timeline, error) {
	t := &timeline{now: o.Now, wall: o.Now()}
	probe, err := fleet.New(o.Fleet)
	if err != nil {
		return nil, err
	}
	t.slots = probe.Slots()
	perStep := float64(t.slots) * (1 + o.RewrittenPercent/100)
	t.intervalMs = float64(o.Interval) / 1e6
	span := o.Duration
	switch {
	case !o.live():
		t.startMs, span = o.From.UnixMilli(), o.To.Sub(o.From)
		if o.Rate > 0 {
			t.pace = perStep / (t.intervalMs / 1e3) / o.Rate
		}
	default:
		t.startMs, t.pace = t.wall.UnixMilli(), 1
		if o.Rate > 0 {
			t.intervalMs = perStep / o.Rate * 1e3
		}
		if t.intervalMs == 0 {
			t.pace = 0
		}
	}
	switch {
	case t.intervalMs == 0:
		t.steps = math.MaxInt
		o.Fleet.StepSeconds = 1
	case t.intervalMs < 1:
		return nil, fmt.Errorf("%w: %g samples/s are too many for %d series, at most 1000 for each", ErrOptions, o.Rate, t.slots)
	default:
		t.steps = max(int(float64(span)/1e6/t.intervalMs), 1)
		o.Fleet.StepSeconds = t.intervalMs / 1e3
	}
	if n := perStep * float64(t.steps); t.steps < math.MaxInt && n > float64(o.SamplesMax) {
		return nil, fmt.Errorf("%w: %.0f samples, SamplesMax is %d", ErrOptions, n, o.SamplesMax)
	}
	if t.steps == math.MaxInt {
		t.steps = int(max(o.SamplesMax/int64(perStep), 1))
	}
	return t, nil
}

// tsMs is the timestamp of a step for a unit that has slotsBefore slots before it.
func (t *timeline) tsMs(slotsBefore, step int) int64 {
	if t.intervalMs == 0 {
		return t.base(step)
	}
	return t.startMs + int64(t.intervalMs*(float64(step)+float64(slotsBefore)/float64(t.slots)))
}

// base begins a step of a load without an interval, or repeats when it was begun.
func (t *timeline) base(step int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.bases) <= step {
		next := t.now().UnixMilli()
		if n := len(t.bases); n > 0 {
			next = max(next, t.bases[n-1]+1)
		}
		t.bases = append(t.bases, next)
	}
	return t.bases[step]
}

// begun is the number of steps that senders may have begun.
func (t *timeline) begun() int {
	if t.intervalMs > 0 {
		return t.steps
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.bases)
}

// due is when a request may be sent whose newest sample is of tsMs.
func (t *timeline) due(tsMs int64) time.Time {
	return t.wall.Add(time.Duration(float64(tsMs-t.startMs) * t.pace * 1e6))
}

// gate keeps senders near each other in the timestamps they send, as those of one Prometheus are.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	at      []int // the step each sender is in
	ahead   int   // how many steps the first may be ahead of the last
}

// gateAheadMs is how far senders may be apart in timestamps; two steps are always allowed.
const gateAheadMs = 5 * 60 * 1000

func newGate(senders int, t *timeline) *gate {
	g := &gate{at: make([]int, senders), ahead: 2}
	if t.intervalMs > 0 {
		g.ahead = max(g.ahead, int(gateAheadMs/t.intervalMs))
	}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// enter waits until a sender may begin a step.
func (g *gate) enter(sender, step int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[sender] = step
	g.changed.Broadcast()
	for step-g.last() > g.ahead {
		g.changed.Wait()
	}
}

// leave lets the others go on without a sender.
func (g *gate) leave(sender int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[sender] = math.MaxInt
	g.changed.Broadcast()
}

func (g *gate) last() int {
	low := math.MaxInt
	for _, step := range g.at {
		low = min(low, step)
	}
	return low
}
