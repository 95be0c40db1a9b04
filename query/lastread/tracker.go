package lastread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configures a Tracker. A zero field means the default that its comment names.
type Options struct {
	// MetricsMax is the number of metrics with a time; 50,000. An entry takes about 100 bytes.
	MetricsMax int
	Now        func() time.Time // time.Now
}

// Tracker records times of reads. A nil *Tracker records none. It is safe for concurrent use.
type Tracker struct {
	opts Options

	mu      sync.Mutex
	lastMs  map[string]int64
	sinceMs int64
}

// evictedShare sets how many metrics a full Tracker evicts at once: 1/evictedShare of them.
const evictedShare = 10

// New returns an empty Tracker.
func New(o Options) (*Tracker, error) {
	if o.MetricsMax < 0 {
		return nil, fmt.Errorf("last reads: MetricsMax is %d; it must not be negative", o.MetricsMax)
	}
	o.MetricsMax = cmp.Or(o.MetricsMax, 50_000)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Tracker{opts: o, lastMs: map[string]int64{}, sinceMs: o.Now().UnixMilli()}, nil
}

// Read records that a query reads a metric now. The metric has its stored name, with the prefix of its tenant.
func (t *Tracker) Read(prefix, metric string) {
	if t == nil {
		return
	}
	nowMs := t.opts.Now().UnixMilli()
	if prefix != "" {
		metric = prefix + metric
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.lastMs[metric]; !known {
		if len(t.lastMs) >= t.opts.MetricsMax {
			t.evict()
		}
		metric = strings.Clone(metric) // The name may be a part of a large text.
	}
	t.lastMs[metric] = nowMs
}

// evict removes the metrics whose last read is the oldest. Afterwards a metric without a time may have been read before
// the newest evicted time.
func (t *Tracker) evict() {
	times := make([]int64, 0, len(t.lastMs))
	for _, ms := range t.lastMs {
		times = append(times, ms)
	}
	slices.Sort(times)
	t.sinceMs = max(t.sinceMs, times[len(times)/evictedShare])
	for metric, ms := range t.lastMs {
		if ms <= t.sinceMs {
			delete(t.lastMs, metric)
		}
	}
}

// Last returns the unix milliseconds of the last read of a metric; 0 means that no query has read it since SinceMs.
func (t *Tracker) Last(metric string) int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastMs[metric]
}

// SinceMs returns the time since which the Tracker has every read; 0 if it has none.
func (t *Tracker) SinceMs() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sinceMs
}
