package retention_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/storage"
	"halite/storage/retention"
)

// clockRig is a Clock over a store, with a clock that the test sets.
type clockRig struct {
	*retention.Clock
	t     *testing.T
	store storage.Store
	at    time.Time
	gauge *prometheus.Registry
}

const hour = time.Hour

func newClockRig(t *testing.T) *clockRig {
	c := &clockRig{t: t, store: openStore(t, vfs.NewMem()), at: now()}
	t.Cleanup(func() { require.NoError(t, c.store.Close()) })
	return c.start(0)
}

// start starts the server after it was stopped for some time by its clock.
func (c *clockRig) start(stopped time.Duration) *clockRig {
	c.at = c.at.Add(stopped)
	c.gauge = prometheus.NewRegistry()
	var err error
	c.Clock, err = retention.NewClock(func() time.Time { return c.at }, 24*hour, slog.New(slog.DiscardHandler), c.gauge)
	require.NoError(c.t, err)
	require.Less(c.t, c.Now().UnixMilli(), int64(storage.DayMs), "nothing is dropped before the note is read")
	require.NoError(c.t, c.Load(c.t.Context(), c.store))
	return c
}

// run lets the server run while its clock goes right.
func (c *clockRig) run(d time.Duration) {
	for ; d > 0; d -= retention.ClockInterval {
		c.at = c.at.Add(retention.ClockInterval)
		require.NoError(c.t, c.Tick(c.t.Context()))
	}
}

// ahead demands that the Clock has stopped at a time, and reports the jump.
func (c *clockRig) ahead(stopped time.Time) {
	c.t.Helper()
	require.Equal(c.t, stopped.UnixMilli(), c.Now().UnixMilli())
	require.InDelta(c.t, c.at.Sub(stopped).Seconds(), c.value(), 1)
}

// accepted demands that the Clock shows the time of the server.
func (c *clockRig) accepted() {
	c.t.Helper()
	require.Equal(c.t, c.at, c.Now())
	require.Zero(c.t, c.value())
}

func (c *clockRig) value() float64 {
	families, err := c.gauge.Gather()
	require.NoError(c.t, err)
	require.Equal(c.t, "tsdb_retention_clock_ahead_seconds", families[0].GetName())
	return families[0].GetMetric()[0].GetGauge().GetValue()
}

func TestClockFollows(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	c.accepted()
	c.run(50 * hour)
	c.accepted()
	c.start(23 * hour)
	c.accepted()
}

// TestClockJumpsWhileRunning: the Clock stops at once, and accepts the jump after a day.
func TestClockJumpsWhileRunning(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	c.run(hour)
	before := c.at
	c.at = c.at.AddDate(10, 0, 0)
	c.ahead(before)
	c.run(24 * hour)
	c.ahead(before)
	c.run(hour)
	c.accepted()
	c.at = before.Add(26 * hour) // set back after all
	c.accepted()
	c.run(hour)
	c.at = c.at.AddDate(400, 0, 0) // longer than a time.Duration
	c.start(0)
	c.ahead(before.Add(27 * hour))
}

// TestClockIsSetBack: the wait ends when the clock is right again, and the next jump waits again for a day.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	for range 2 {
		c.run(hour)
		before := c.at
		c.at = c.at.AddDate(10, 0, 0)
		c.run(20 * hour)
		c.ahead(before)
		c.at = before.Add(20 * hour)
		c.accepted()
		c.run(retention.ClockInterval)
		c.accepted()
	}
}

// TestClockAfterLongStop: the server drops data after it has run for a day, also if it runs for eight hours a day.
func TestClockAfterLongStop(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	c.run(hour)
	before := c.at
	c.start(60 * 24 * hour)
	for range 2 {
		c.run(8 * hour)
		c.ahead(before)
		c.start(16 * hour)
		c.ahead(before)
	}
	c.run(8*hour + retention.ClockInterval)
	c.accepted()
	c.start(hour)
	c.accepted()
}

// TestClockJumpsDuringWait: a second jump waits for a whole day.
func TestClockJumpsDuringWait(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	c.run(hour)
	before := c.at
	c.start(60 * 24 * hour)
	c.run(23 * hour)
	c.at = c.at.AddDate(10, 0, 0)
	c.run(20 * hour)
	c.ahead(before)
	c.run(5 * hour)
	c.accepted()
}

// TestClockBootsIn1970: a machine without a battery has the time of 1970 until NTP sets it. That only delays drops.
func TestClockBootsIn1970(t *testing.T) {
	t.Parallel()
	c := newClockRig(t)
	c.run(hour)
	right := c.at
	c.at = time.UnixMilli(5000)
	c.start(0)
	c.accepted()
	c.at = right
	c.accepted() // the note is still the one of the last run
	c.at = time.UnixMilli(5000)
	c.start(0)
	c.run(hour)
	slow := c.at
	c.at = right
	c.ahead(slow)
	c.run(25 * hour)
	c.accepted()
}
