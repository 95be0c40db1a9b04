package topqueries

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// upper normalises a text to upper case. It counts its calls.
func upper(text string, calls *int) func() (string, string) {
	return func() (string, string) {
		*calls++
		return strings.ToUpper(text), "print of " + strings.ToUpper(text)
	}
}

func newTracker(t *testing.T, o Options) *Tracker {
	t.Helper()
	tracker, err := New(o)
	require.NoError(t, err)
	return tracker
}

// TestSums: runs with equal normalised text count together, but each tenant separately.
func TestSums(t *testing.T) {
	tracker, calls := newTracker(t, Options{TextBytesMax: 4}), 0
	add := func(tenant, text string, seconds, samples int, failed bool) {
		tracker.Add(Run{
			Tenant: tenant, Kind: "range", Text: text, Began: time.Unix(int64(seconds), 0), Took: time.Duration(seconds) * time.Second,
			Samples: int64(samples), PeakBytes: int64(samples) * 10, Failed: failed, StartMs: int64(seconds), EndMs: 9, StepMs: 1,
		}, upper(text, &calls))
	}
	add("", "up", 1, 5, false)
	add("", "UP", 3, 7, true)
	add("", "up", 2, 1, false)
	require.Equal(t, 2, calls, "a known text is not normalised again")
	add("a", "up", 1, 1, false)
	add("", "längere", 1, 100, false)
	add("", "", 9, 9, false)
	list, evicted, err := tracker.List(ByTime, 2)
	require.NoError(t, err)
	require.Zero(t, evicted)
	require.Equal(t, Query{
		Kind: "range", Query: "UP", Fingerprint: "print of UP", Count: 3, Errors: 1, TotalSeconds: 6, MeanSeconds: 2, MaxSeconds: 3,
		Samples: 13, PeakBytes: 70, FirstSeenMs: 1000, LastSeenMs: 3000,
		Slowest: Slowest{TimeMs: 3000, Seconds: 3, StartMs: 3, EndMs: 9, StepMs: 1},
	}, list[0])
	for by, first := range map[By]string{ByTime: "UP", ByMaxTime: "UP", ByCount: "UP", ByMemory: "LÄN"} {
		list, _, err = tracker.List(by, 9)
		require.NoError(t, err)
		require.Len(t, list, 3)
		require.Equal(t, first, list[0].Query, by)
	}
	list, _, err = tracker.List(ByMemory, 1)
	require.NoError(t, err)
	require.Equal(t, len("LÄNGERE"), list[0].QueryBytes)
	_, _, err = tracker.List("x", 1)
	require.ErrorIs(t, err, ErrBadOrder)
}

// TestEviction: beyond its bound, a Tracker drops the queries with the least total time.
func TestEviction(t *testing.T) {
	tracker, calls := newTracker(t, Options{QueriesMax: 20}), 0
	for n := range 1000 {
		text := fmt.Sprintf("q%d", n)
		tracker.Add(Run{Text: text, Took: time.Duration(1000-n) * time.Second}, upper(text, &calls))
	}
	require.LessOrEqual(t, len(tracker.queries), 20)
	require.LessOrEqual(t, len(tracker.texts), 80)
	list, evicted, err := tracker.List(ByTime, 100)
	require.NoError(t, err)
	require.EqualValues(t, 1000, int(evicted)+len(list))
	require.Equal(t, "Q0", list[0].Query)
	require.Equal(t, "Q999", list[len(list)-1].Query, "the newest query has a chance")
}

// TestNone: a nil Tracker counts nothing, and Validate names bad options.
func TestNone(t *testing.T) {
	var tracker *Tracker
	tracker.Add(Run{Text: "up"}, nil)
	list, _, err := tracker.List(ByTime, 1)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = New(Options{QueriesMax: -1, TextBytesMax: -1})
	require.ErrorContains(t, err, "QueriesMax")
	require.ErrorContains(t, err, "TextBytesMax")
}
