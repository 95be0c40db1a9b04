package measure

import (
	"math"
	"math/bits"
	"sync"
	"time"
)

const (
	// bucketBits is the number of leading bits of a duration that choose its bucket. Six bits give an error of 1.6 %.
	bucketBits = 6
	bucketsMax = (64 - bucketBits) << bucketBits
)

// Histogram counts durations from 1 µs on in buckets of about equal relative width. It is safe for concurrent use.
type Histogram struct {
	mu     sync.Mutex
	counts [bucketsMax]uint64
	n      uint64
	max    time.Duration
}

// bucketOf returns the bucket of a number of microseconds. Numbers below 2^7 have one bucket each; above, each power of
// two has 64.
func bucketOf(us uint64) int {
	shift := max(bits.Len64(us)-bucketBits-1, 0)
	return min(shift<<bucketBits+int(us>>shift), bucketsMax-1)
}

// bucketMiddle returns the middle of a bucket in microseconds.
func bucketMiddle(bucket int) float64 {
	shift := max(bucket>>bucketBits-1, 0)
	low := uint64(bucket-shift<<bucketBits) << shift
	return float64(low) + float64(uint64(1)<<shift-1)/2
}

// Observe adds a duration.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[bucketOf(uint64(d/time.Microsecond))]++
	h.n++
	h.max = max(h.max, d)
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(other *Histogram) {
	other.mu.Lock()
	defer other.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Quantiles describe a set of durations in milliseconds. The maximum is exact; the others are within 1.6 %.
type Quantiles struct {
	Count uint64  `json:"count"`
	P50Ms float64 `json:"p50_ms"`
	P95Ms float64 `json:"p95_ms"`
	P99Ms float64 `json:"p99_ms"`
	MaxMs float64 `json:"max_ms"`
}

// Quantiles returns the quantiles of all observed durations.
func (h *Histogram) Quantiles() Quantiles {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := Quantiles{Count: h.n, MaxMs: float64(h.max) / 1e6}
	q.P50Ms, q.P95Ms, q.P99Ms = h.quantile(0.5), h.quantile(0.95), h.quantile(0.99)
	return q
}

// quantile returns the smallest duration, in milliseconds, that a share q of all durations do not exceed.
func (h *Histogram) quantile(q float64) float64 {
	rank := uint64(math.Ceil(q * float64(h.n)))
	seen := uint64(0)
	for bucket, n := range h.counts {
		if seen += n; seen >= rank && n > 0 {
			return min(bucketMiddle(bucket)/1e3, float64(h.max)/1e6)
		}
	}
	return 0
}
