package ratelimit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load sends a request of some samples at every step for some time. It returns the number of samples that passed.
func load(l *Limiter, from time.Time, span, step time.Duration, samples int) (passed, over int) {
	for at := time.Duration(0); at < span; at += step {
		now := from.Add(at)
		_, isOver, dryRun := l.Check(now)
		if isOver {
			over += samples
		}
		if !isOver || dryRun {
			passed += samples
			l.Add(samples, isOver, now)
		}
	}
	return passed, over
}

func TestRate(t *testing.T) {
	from := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		why     string
		opts    Options
		samples int // of a request, 100 requests a second
		passed  int // in ten seconds
		over    int
	}{
		{"no limit", Options{}, 50, 50_000, 0},
		{"below", Options{Max: 5_001}, 50, 50_000, 0},
		{"over", Options{Max: 1_000}, 50, 11_000, 39_000},
		{"dry run", Options{Max: 1_000, DryRun: true}, 50, 50_000, 39_000},
		{"requests larger than the bucket", Options{Max: 1_000}, 3_000, 12_000, 2_988_000},
	} {
		var l Limiter
		l.Set(c.opts)
		passed, over := load(&l, from, 10*time.Second, 10*time.Millisecond, c.samples)
		require.InDelta(t, c.passed, passed, float64(2*c.samples), c.why)
		require.InDelta(t, c.over, over, float64(2*c.samples), c.why)
	}
}

func TestWaitIsEnough(t *testing.T) {
	var l Limiter
	l.Set(Options{Max: 100})
	now := time.Unix(1_800_000_000, 0)
	_, over, _ := l.Check(now)
	require.False(t, over)
	l.Add(1_000, false, now)
	wait, over, _ := l.Check(now)
	require.True(t, over)
	require.InDelta(t, 9, wait.Seconds(), 0.1)
	_, over, _ = l.Check(now.Add(wait))
	require.False(t, over)
	now = now.Add(wait)
	l.Add(1_000, false, now)
	l.Set(Options{Max: 100, Warn: 3})
	_, over, _ = l.Check(now)
	require.True(t, over, "the same limit keeps its bucket")
	l.Set(Options{})
	_, over, _ = l.Check(now)
	require.False(t, over)
}

func TestUse(t *testing.T) {
	var l Limiter
	l.Set(Options{Max: 100, Warn: 80})
	now := time.Unix(1_800_000_000, 0)
	for i, samples := range []int{10, 80, 100, 20} {
		l.Add(samples, false, now.Add(time.Duration(i)*time.Second))
	}
	use := l.Use(now.Add(4 * time.Second))
	require.Equal(t, Use{Options: Options{Max: 100, Warn: 80}, Used: 20, Warnings: 2}, use)
	require.Zero(t, l.Use(now.Add(9*time.Second)).Used)
}
