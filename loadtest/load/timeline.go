package load

import (
	"fmt"
	"math"
	"sync"
	"time"

	"halite/loadtest/fleet"
)

// Timeline gives every step of every unit a timestamp and a time at which it is due. Like scrapes, units are spread evenly
// over the interval.
type Timeline struct {
	startMs    int64
	intervalMs float64 // 0: a step begins when the first sender reaches it
	steps      int
	slots      int
	pace       float64   // seconds of real time for each second of timestamps; 0: nothing waits
	wall       time.Time // when startMs is due
	now        func() time.Time

	mu     sync.Mutex
	stepMs []int64 // timestamps of the steps begun, if intervalMs is 0
}

// NewTimeline computes interval, steps and pace from valid options. It sets StepSeconds of the fleet options.
func NewTimeline(o *Options, now func() time.Time) (*Timeline, error) {
	t := &Timeline{now: now, wall: now()}
	f, err := fleet.New(o.Fleet)
	if err != nil {
		return nil, err
	}
	t.slots = f.Slots()
	samplesPerStep := float64(t.slots) * (1 + o.RewrittenPercent/100)
	t.intervalMs = float64(o.Interval) / 1e6
	span := o.Duration
	switch {
	case !o.Live():
		t.startMs, span = o.From.UnixMilli(), o.To.Sub(o.From)
		if o.Rate > 0 {
			t.pace = samplesPerStep / (t.intervalMs / 1e3) / o.Rate
		}
	default:
		t.startMs, t.pace = t.wall.UnixMilli(), 1
		if o.Rate > 0 {
			t.intervalMs = samplesPerStep / o.Rate * 1e3
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
	if n := samplesPerStep * float64(t.steps); t.steps < math.MaxInt && n > float64(o.SamplesMax) {
		return nil, fmt.Errorf("%w: the load has %.0f samples, SamplesMax is %d", ErrOptions, n, o.SamplesMax)
	}
	if t.steps == math.MaxInt {
		t.steps = int(max(o.SamplesMax/int64(samplesPerStep), 1))
	}
	return t, nil
}

// Start sets the time at which the load begins. A live load takes its timestamps from it.
func (t *Timeline) Start(wall time.Time, live bool) {
	t.wall = wall
	if live {
		t.startMs = wall.UnixMilli()
	}
}

// StartMs returns the timestamp of the first step.
func (t *Timeline) StartMs() int64 { return t.startMs }

// IntervalMs returns the time between two steps, or 0 if senders begin a step when they reach it.
func (t *Timeline) IntervalMs() float64 { return t.intervalMs }

// Slots returns the number of series that exist at any one time.
func (t *Timeline) Slots() int { return t.slots }

// Steps returns the number of steps. If only the clock ends the load, it returns the largest number within SamplesMax.
func (t *Timeline) Steps() int { return t.steps }

// TsMs returns the timestamp of a step for a unit with slotsBefore slots before it.
func (t *Timeline) TsMs(slotsBefore, step int) int64 {
	if t.intervalMs == 0 {
		return t.beginStep(step)
	}
	return t.startMs + int64(t.intervalMs*(float64(step)+float64(slotsBefore)/float64(t.slots)))
}

// beginStep returns the timestamp of a step in a load without an interval. The first call for a step sets it to the time
// of the call, or to 1 ms after the previous step if that is later.
func (t *Timeline) beginStep(step int) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.stepMs) <= step {
		next := t.now().UnixMilli()
		if n := len(t.stepMs); n > 0 {
			next = max(next, t.stepMs[n-1]+1)
		}
		t.stepMs = append(t.stepMs, next)
	}
	return t.stepMs[step]
}

// StepsBegun returns the number of steps that senders may have begun.
func (t *Timeline) StepsBegun() int {
	if t.intervalMs > 0 {
		return t.steps
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.stepMs)
}

// Due returns when to send a request whose newest sample has the timestamp tsMs. It returns the zero time if the load
// does not wait.
func (t *Timeline) Due(tsMs int64) time.Time {
	if t.pace == 0 {
		return time.Time{}
	}
	return t.wall.Add(time.Duration(float64(tsMs-t.startMs) * t.pace * 1e6))
}
