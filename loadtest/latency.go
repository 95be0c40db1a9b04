package loadtest

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

const (
	// latencyBits is the number of leading bits of a duration that a class tells apart: within 1/64, or 1.6 %.
	latencyBits    = 6
	latencyClasses = (64 - latencyBits) << latencyBits
)

// latencies counts durations in classes of about equal relative width, from 1 µs on. It is safe for concurrent use.
type latencies struct {
	mu     sync.Mutex
	counts [latencyClasses]uint64
	n      uint64
	max    time.Duration
}

// latencyClass is the class of a number of microseconds: numbers below 2^7 have one each, then 64 for each power of two.
func latencyClass(us uint64) int {
	shift := max(bits.Len64(us)-latencyBits-1, 0)
	return min(shift<<latencyBits+int(us>>shift), latencyClasses-1)
}

// latencyOf is the middle of a class in microseconds.
func latencyOf(class int) float64 {
	shift := max(class>>latencyBits-1, 0)
	low := uint64(class-shift<<latencyBits) << shift
	return float64(low) + float64(uint64(1)<<shift-1)/2
}

func (l *latencies) add(d time.Duration) {
	d = max(d, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[latencyClass(uint64(d/time.Microsecond))]++
	l.n++
	l.max = max(l.max, d)
}

// merge adds what another one counted.
func (l *latencies) merge(other *latencies) {
	other.mu.Lock()
	defer other.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range other.counts {
		l.counts[i] += n
	}
	l.n += other.n
	l.max = max(l.max, other.max)
}

// Quantiles describe a set of durations in milliseconds; all but the maximum are within 1.6 %.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50Ms float64 `json:"p50_ms"`
	P95Ms float64 `json:"p95_ms"`
	P99Ms float64 `json:"p99_ms"`
	MaxMs float64 `json:"max_ms"`
}

func (l *latencies) quantiles() Quantiles {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := Quantiles{Count: l.n, MaxMs: float64(l.max) / 1e6}
	q.P50Ms, q.P95Ms, q.P99Ms = l.quantile(0.5), l.quantile(0.95), l.quantile(0.99)
	return q
}

// quantile is the smallest duration, in milliseconds, that a share q of all do not exceed.
func (l *latencies) quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(l.n)))
	seen := uint64(0)
	for class, n := range l.counts {
		if seen += n; seen >= rank && n > 0 {
			return min(latencyOf(class)/1e3, float64(l.max)/1e6)
		}
	}
	return 0
}
