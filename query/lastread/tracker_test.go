package lastread

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLast(t *testing.T) {
	now := time.UnixMilli(1000)
	tracker, err := New(Options{MetricsMax: 20, Now: func() time.Time { return now }})
	require.NoError(t, err)
	tracker.Read("", "up")
	now = time.UnixMilli(2000)
	tracker.Read("&a&", "up")
	require.EqualValues(t, 1000, tracker.Last("up"))
	require.EqualValues(t, 2000, tracker.Last("&a&up"))
	require.Zero(t, tracker.Last("down"))
	require.EqualValues(t, 1000, tracker.SinceMs())

	for n := range 100 {
		now = time.UnixMilli(3000 + int64(n))
		tracker.Read("", fmt.Sprint("m", n))
	}
	require.LessOrEqual(t, len(tracker.lastMs), 20)
	require.EqualValues(t, 3099, tracker.Last("m99"))
	require.Zero(t, tracker.Last("up"), "it made room")
	for metric, ms := range tracker.lastMs {
		require.Greater(t, ms, tracker.SinceMs(), metric)
	}
	require.Greater(t, tracker.SinceMs(), int64(3000))
}

func TestNone(t *testing.T) {
	var tracker *Tracker
	tracker.Read("", "up")
	require.Zero(t, tracker.Last("up"))
	require.Zero(t, tracker.SinceMs())
	_, err := New(Options{MetricsMax: -1})
	require.ErrorContains(t, err, "MetricsMax")
}
