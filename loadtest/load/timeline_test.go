package load

import (
	"halite/loadtest/fleet"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeline(t *testing.T) {
	now := timeOf(0)
	clock := func() time.Time { return now }
	live := newTestLoad(t, Options{
		Fleet: fleet.Options{Hosts: 10}, Rate: 500, Duration: time.Minute, RewrittenPercent: 50,
	}, clock)
	require.Equal(t, 3000.0, live.timeline.intervalMs, "1000 series and half of them again at 500/s")
	require.Equal(t, 20, live.timeline.Steps())
	require.Equal(t, timeOf(6000).UnixMilli(), live.timeline.TsMs(0, 2))
	require.Equal(t, timeOf(7500).UnixMilli(), live.timeline.TsMs(500, 2))
	require.Equal(t, timeOf(7500), live.timeline.Due(timeOf(7500).UnixMilli()))
	require.Equal(t, 3.0, live.fleet.Options().StepSeconds)

	past := newTestLoad(t, Options{
		Fleet: fleet.Options{Hosts: 10}, From: timeOf(-3_600_000), To: timeOf(0), Rate: 1000,
	}, clock)
	require.Equal(t, 240, past.timeline.Steps())
	require.Equal(t, timeOf(240_000), past.timeline.Due(timeOf(0).UnixMilli()), "240,000 samples at 1000/s take 240 s")

	flat := newTestLoad(t, Options{Fleet: fleet.Options{Hosts: 10}}, clock)
	a, b := flat.timeline.TsMs(0, 0), flat.timeline.TsMs(900, 1)
	require.Equal(t, a+1, b, "two steps have two timestamps even in one millisecond")
	now = timeOf(100)
	require.Equal(t, b, flat.timeline.TsMs(0, 1))
	require.Equal(t, timeOf(100).UnixMilli(), flat.timeline.TsMs(0, 2))
	require.Equal(t, 3, flat.timeline.StepsBegun())
}

// TestStepLimiter checks that no sender is too many steps ahead, and that a removed sender blocks no other.
func TestStepLimiter(t *testing.T) {
	l := NewStepLimiter(2, &Timeline{})
	l.Wait(0, l.aheadMax)
	entered := make(chan struct{})
	go func() {
		l.Wait(0, l.aheadMax+1)
		close(entered)
	}()
	select {
	case <-entered:
		t.Fatal("a sender is too many steps ahead")
	case <-time.After(20 * time.Millisecond):
	}
	l.Wait(1, 1)
	<-entered
	l.Remove(1)
	l.Wait(0, 1000)
}
