package facts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"halite/api/doctor"
	"halite/api/senders"
	"halite/ingest"
	"halite/keyschema"
	"halite/storage/index"
	"halite/storage/keyviz"
	"halite/storage/widerows"
)

// Options of a Collector. Gatherer and Now are required. A missing source leaves its facts out.
type Options struct {
	// Gatherer gathers the server's own metrics.
	Gatherer prometheus.Gatherer
	// Ready says whether the server answers requests and accepts writes, and why not.
	Ready func() (ready bool, reason string)
	// SeriesLimits reports the limits of series and samples.
	SeriesLimits func(most int) ingest.SeriesLimitStatus
	// Senders knows who writes and what was refused.
	Senders *senders.Tracker
	// Keyviz has the load by key; nil means that the server counts none.
	Keyviz *keyviz.Collector
	// RuleAt returns the schema rule of a metric.
	RuleAt func(metric string, hour int64) *keyschema.Rule
	// Sizes ranks the metrics and labels of the index.
	Sizes func(limit int) index.Sizes
	// WideRows lists the widest rows.
	WideRows func(most int) []widerows.Row
	// Disk measures the disk of the data.
	Disk func() (freeBytes, totalBytes int64, err error)
	// Now is the clock.
	Now func() time.Time
	// Thresholds are the thresholds of the checks. Default doctor.DefaultOptions.
	Thresholds *doctor.Options
	// Logger logs sources that fail; nil discards the lines.
	Logger *slog.Logger
}

// Sizes of the rings.
const (
	// minutesMax is the number of samples of the counters, one a minute.
	minutesMax = 61
	// diskHours is the number of samples of the disk, one an hour: a week.
	diskHours = 7*24 + 1
	// sizesMax is the number of samples of the index, one each sizesInterval.
	sizesMax      = 13
	sizesInterval = 5 * time.Minute
	// rankingMax bounds the metrics and labels of one sample of the index.
	rankingMax = 1000
)

// Collector collects facts. Its methods may be called concurrently.
type Collector struct {
	opts       Options
	thresholds doctor.Options
	started    time.Time

	mu        sync.Mutex // guards what follows
	minutes   []minute
	disk      []doctor.Disk
	sizes     []sizes
	flushedMs int64
	flushed   float64
}

// minute has the counters of a minute.
type minute struct {
	tsMs   int64
	values map[string]float64
}

// sizes has the sizes of the index at a time.
type sizes struct {
	tsMs            int64
	series          int
	metrics, labels map[string]int
}

// New returns a Collector. Its first sample is taken at once.
func New(o Options) (*Collector, error) {
	if o.Gatherer == nil || o.Now == nil {
		return nil, errors.New("doctor: Gatherer and Now are required")
	}
	c := &Collector{opts: o, thresholds: doctor.DefaultOptions(), started: o.Now()}
	if o.Thresholds != nil {
		c.thresholds = *o.Thresholds
	}
	if o.Logger == nil {
		c.opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := c.thresholds.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// Sample remembers the counters. Call it once a minute.
func (c *Collector) Sample(context.Context) {
	if _, err := c.sample(); err != nil {
		c.opts.Logger.Warn("cannot sample the server's metrics for its verdicts", "err", err)
	}
}

// sample returns the metrics now, and remembers them if the last minute is over.
func (c *Collector) sample() (map[string]float64, error) {
	values, err := c.gather()
	if err != nil {
		return nil, err
	}
	now := c.opts.Now()
	nowMs := now.UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := values[doctor.FlushedRows]; n != c.flushed || c.flushedMs == 0 {
		c.flushed, c.flushedMs = n, nowMs
	}
	if n := len(c.minutes); n == 0 || nowMs-c.minutes[n-1].tsMs >= (time.Minute-5*time.Second).Milliseconds() {
		c.minutes = push(c.minutes, minute{nowMs, values}, minutesMax)
	}
	if n := len(c.sizes); c.opts.Sizes != nil && (n == 0 || nowMs-c.sizes[n-1].tsMs >= sizesInterval.Milliseconds()) {
		c.sizes = push(c.sizes, c.measureIndex(nowMs), sizesMax)
	}
	if n := len(c.disk); c.opts.Disk != nil && (n == 0 || nowMs-c.disk[n-1].TsMs >= time.Hour.Milliseconds()) {
		if d, ok := c.measureDisk(nowMs); ok {
			c.disk = push(c.disk, d, diskHours)
		}
	}
	return values, nil
}

// push appends an item to a ring of at most the given size.
func push[T any](ring []T, item T, most int) []T {
	if len(ring) == most {
		copy(ring, ring[1:])
		ring = ring[:most-1]
	}
	return append(ring, item)
}

func (c *Collector) measureDisk(nowMs int64) (doctor.Disk, bool) {
	free, total, err := c.opts.Disk()
	if err != nil {
		c.opts.Logger.Warn("cannot measure the disk for the verdicts", "err", err)
		return doctor.Disk{}, false
	}
	return doctor.Disk{TsMs: nowMs, FreeBytes: free, TotalBytes: total}, true
}

func (c *Collector) measureIndex(nowMs int64) sizes {
	s := c.opts.Sizes(rankingMax)
	out := sizes{nowMs, s.Series, make(map[string]int, len(s.SeriesByMetric)), make(map[string]int, len(s.ValuesByLabel))}
	for _, m := range s.SeriesByMetric {
		out.metrics[m.Name] = int(m.Count)
	}
	for _, l := range s.ValuesByLabel {
		out.labels[l.Name] = int(l.Count)
	}
	return out
}

// gather returns the metrics that the checks read. It adds up the values of all labels.
func (c *Collector) gather() (map[string]float64, error) {
	families, err := c.opts.Gatherer.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the server's metrics: %w", err)
	}
	wanted := map[string]bool{}
	for _, name := range append(doctor.Gauges(), doctor.Counters()...) {
		wanted[name] = true
	}
	values := make(map[string]float64, len(wanted))
	for _, family := range families {
		if !wanted[family.GetName()] {
			continue
		}
		sum := 0.0
		for _, m := range family.GetMetric() {
			sum += valueOf(m)
		}
		values[family.GetName()] = sum
	}
	return values, nil
}

func valueOf(m *dto.Metric) float64 {
	n := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

// Report collects the facts and judges them.
func (c *Collector) Report(ctx context.Context) (doctor.Report, error) {
	f, err := c.Facts(ctx)
	if err != nil {
		return doctor.Report{}, err
	}
	return doctor.Diagnose(f, &c.thresholds), nil
}
