package ratelimit

import (
	"sync"
	"time"
)

// Options configure a Limiter. The zero value limits nothing.
type Options struct {
	// Max is the number of samples per second; 0 means no limit. Warn is the number at which the limiter warns.
	Max, Warn int64
	// DryRun accepts every request and only reports those over the limit.
	DryRun bool
}

// Use describes the usage of a limit.
type Use struct {
	Options
	// Used is the number of samples in the last whole second.
	Used int64
	// Warnings counts the seconds that reached Warn.
	Warnings uint64
}

// Limiter limits the rate of samples. It is safe for concurrent use; the zero value limits nothing.
type Limiter struct {
	mu       sync.Mutex
	opts     Options
	tokens   float64
	filled   time.Time
	second   int64 // unix
	current  int64 // samples of that second
	last     int64 // samples of the second before
	warnings uint64
}

// Set replaces the options. A limit with another Max begins with a full bucket.
func (l *Limiter) Set(o Options) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.Max != l.opts.Max {
		l.tokens, l.filled = float64(o.Max), time.Time{}
	}
	l.opts = o
}

// Check reports whether a request at a time is over the limit, and how long it should wait. A dry run reports the same.
func (l *Limiter) Check(now time.Time) (wait time.Duration, over, dryRun bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.Max <= 0 {
		return 0, false, false
	}
	l.fill(now)
	if l.tokens > 0 {
		return 0, false, false
	}
	return time.Duration((1 - l.tokens) / float64(l.opts.Max) * float64(time.Second)), true, l.opts.DryRun
}

// Add counts the samples of a request. A dry run would refuse a request that is over the limit, so such a request takes
// nothing from the bucket.
func (l *Limiter) Add(samples int, over bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	l.current += int64(samples)
	if l.opts.Max > 0 && !over {
		l.fill(now)
		l.tokens -= float64(samples)
	}
}

// Use returns the usage of the limit at a time.
func (l *Limiter) Use(now time.Time) Use {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	return Use{Options: l.opts, Used: l.last, Warnings: l.warnings}
}

// fill adds the tokens for the time since the last call.
func (l *Limiter) fill(now time.Time) {
	if passed := now.Sub(l.filled).Seconds(); l.filled.IsZero() {
		l.filled = now
	} else if passed > 0 {
		l.tokens = min(l.tokens+passed*float64(l.opts.Max), float64(l.opts.Max))
		l.filled = now
	}
}

// advance begins a new second if now is after the current one.
func (l *Limiter) advance(now time.Time) {
	second := now.Unix()
	if second == l.second {
		return
	}
	if l.opts.Max > 0 && l.current >= l.opts.Warn {
		l.warnings++
	}
	if l.last = l.current; second != l.second+1 {
		l.last = 0
	}
	l.second, l.current = second, 0
}
