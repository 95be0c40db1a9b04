package ingesttest

import (
	"sync/atomic"
	"time"

	"halite/keyschema"
)

// StartMs is the time of a new Clock: 20 minutes into an hour.
const StartMs = 472_222*keyschema.HourMs + 20*60_000

// Clock is a clock that tests move. Ms is its time in milliseconds since 1970.
type Clock struct{ Ms atomic.Int64 }

// NewClock returns a clock at StartMs.
func NewClock() *Clock {
	c := &Clock{}
	c.Ms.Store(StartMs)
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.UnixMilli(c.Ms.Load()) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.Ms.Add(d.Milliseconds()) }
