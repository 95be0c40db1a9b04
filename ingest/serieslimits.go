package ingest

import (
	"cmp"
	"container/heap"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/storage/index"
)

// Kinds of series limits; the values of the label limit of their metrics.
const (
	limitSeries = "series" // of all metrics together
	limitMetric = "metric"
	limitMemory = "memory"
	limitTenant = "tenant"
)

const (
	// limitLogInterval is the minimum time between two log lines about one event at one kind of limit.
	limitLogInterval = time.Minute
	// refusedMetricsMax bounds the metrics with a count of their own.
	refusedMetricsMax = 1000
)

// MetricLimitUse is the limit of a metric and its usage. Pattern is the pattern of the rule that sets the limit.
type MetricLimitUse struct {
	Metric  string `json:"metric"`
	Pattern string `json:"pattern"`
	LimitUse
}

// SeriesLimitStatus reports the usage of the series limits and the refusals since the start.
type SeriesLimitStatus struct {
	// Series is the limit of active series of all metrics, and MemoryBytes is the limit of their memory.
	Series      LimitUse `json:"series"`
	MemoryBytes LimitUse `json:"memoryBytes"`
	// Metrics lists metrics whose limits warn, highest use first.
	Metrics []MetricLimitUse `json:"metrics"`
	// SamplesPerSecond is the limit of the rate of samples. Used counts the samples of the last whole second.
	SamplesPerSecond LimitUse `json:"samplesPerSecond"`
	// Refused counts samples of new series that a limit refused, by metric, largest first.
	Refused []RefusedSamples `json:"refused"`
	// DryRun counts samples that a limit with a dry run would have refused, by metric, largest first. It counts only samples
	// in the same request as the new series.
	DryRun []RefusedSamples `json:"dryRun"`
}

// seriesLimits decides which new series are accepted. It never refuses known series.
type seriesLimits struct {
	total   atomic.Pointer[Limit] // of all metrics together
	schema  *keyschema.Schema
	index   *index.Index
	series  *atomic.Int64
	now     func() time.Time
	logger  *slog.Logger
	metrics *metrics
	memory  *memoryBudget
	tenants *tenantlimits.Control // nil on a server without tenants

	mu      sync.Mutex
	refused metricCounts
	dryRun  metricCounts // samples that a limit in a dry run would have refused
	events  map[limitEvent]*limitEvents
}

// init makes the limits of a writer, which has all but its limits.
func (l *seriesLimits) init(schema *keyschema.Schema, w *Writer) {
	l.schema, l.index, l.memory, l.series = schema, w.index, &w.admission.memory, &w.series
	l.now, l.logger, l.metrics, l.events = w.now, w.logger, w.metrics, map[limitEvent]*limitEvents{}
	l.refused, l.dryRun = newMetricCounts(refusedMetricsMax), newMetricCounts(refusedMetricsMax)
	if w.limits.Tenants {
		l.tenants = w.tenants
	}
}

// limitEvent is an event at a kind of limit: a warning, a refusal or a dry run.
type limitEvent struct{ limit, event string }

// limitEvents counts the events since the last log line.
type limitEvents struct {
	loggedAt time.Time
	count    int
}

// check decides whether a new series of a metric is accepted. If so, it returns the zero value. samples is the number of samples
// of the series in the request. The caller holds regMu.
func (l *seriesLimits) check(metric string, samples int) rejection {
	if use := l.memory.seriesUse(); l.over(limitMemory, metric, samples, use) {
		return l.refuse(metric, samples, rejectf(ReasonSeriesMemory,
			"the memory of active series has reached its limit: %d of %d bytes", use.Used, use.Max))
	}
	if use := l.all(); l.over(limitSeries, metric, samples, use) {
		return l.refuse(metric, samples, rejectf(ReasonSeriesLimit, "the limit of %d active series is reached", use.Max))
	}
	if use := l.forMetric(metric, 0); use.Max > 0 {
		use.Used = int64(l.index.ActiveSeries(metric))
		if l.over(limitMetric, metric, samples, use.LimitUse) {
			_, name := keyschema.SplitTenant(metric)
			return l.refuse(metric, samples, rejectf(ReasonMetricSeriesLimit,
				"metric %s has reached its limit of %d active series, set by the rule with the pattern %q",
				printable(name), use.Max, use.Pattern))
		}
	}
	if l.tenants == nil {
		return rejection{}
	}
	prefix, _ := keyschema.SplitTenant(metric)
	tenant := l.tenants.ForPrefix(prefix)
	limit, used := tenant.Series()
	use := LimitUse{Used: used, Warn: limit.Warn, Max: limit.Max, DryRun: limit.DryRun}
	if limit.Max > 0 && l.over(limitTenant, metric, samples, use) {
		return l.refuse(metric, samples, rejectf(ReasonTenantSeriesLimit,
			"tenant %s has reached its limit of %d active series", tenant.Name, limit.Max))
	}
	tenant.AddSeries()
	return rejection{}
}

// all returns the use of the limit for all metrics together.
func (l *seriesLimits) all() LimitUse {
	limit := l.total.Load()
	return LimitUse{Used: l.series.Load(), Warn: limit.warnAt(), Max: limit.Max, DryRun: limit.DryRun}
}

// forMetric returns the limit of a metric. series becomes its usage.
func (l *seriesLimits) forMetric(metric string, series int) MetricLimitUse {
	limit := l.schema.SeriesLimit(metric)
	return MetricLimitUse{Metric: metric, Pattern: limit.Pattern, LimitUse: LimitUse{
		Used: int64(series), Warn: int64(limit.Warn), Max: int64(limit.Max), DryRun: limit.DryRun,
	}}
}

// over reports whether a limit refuses one more series. samples is the number of its samples. over logs for operators.
func (l *seriesLimits) over(limit, metric string, samples int, use LimitUse) bool {
	switch {
	case !use.warns():
		return false
	case use.Used < use.Max:
		l.log(limit, "near the limit of active series", metric, use)
		return false
	case use.DryRun:
		l.metrics.seriesDryRun.WithLabelValues(limit).Inc()
		l.countDryRun(metric, samples)
		l.log(limit, "accepting series beyond the limit of active series: the limit is a dry run", metric, use)
		return false
	}
	l.log(limit, "refusing new series: the limit of active series is reached; known series continue", metric, use)
	return true
}

// log logs an event unless it logged the event a short time ago.
func (l *seriesLimits) log(limit, event, metric string, use LimitUse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.events[limitEvent{limit, event}]
	if e == nil {
		e = &limitEvents{}
		l.events[limitEvent{limit, event}] = e
	}
	e.count++
	now := l.now()
	if now.Sub(e.loggedAt) < limitLogInterval {
		return
	}
	l.logger.Warn(event, "limit", limit, "used", use.Used, "warn", use.Warn, "max", use.Max, "metric", metric, "series", e.count)
	e.loggedAt, e.count = now, 0
}

// refuse counts the samples of a refused series and returns why.
func (l *seriesLimits) refuse(metric string, samples int, why rejection) rejection {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused.add(metric, uint64(samples))
	return why
}

// countDryRun counts samples that a limit with a dry run would have refused.
func (l *seriesLimits) countDryRun(metric string, samples int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dryRun.add(metric, uint64(samples))
}

// near reports whether a limit warns.
func (l *seriesLimits) near() bool {
	all, memory := l.all(), l.memory.seriesUse()
	return all.warns() || memory.warns() || len(l.nearMetrics()) > 0
}

// nearMetrics lists the metrics whose limits warn.
func (l *seriesLimits) nearMetrics() []MetricLimitUse {
	out := []MetricLimitUse{}
	least := l.schema.SeriesWarnMin()
	if least == 0 {
		return out
	}
	l.index.EachMetric(least, func(metric string, series int) {
		if use := l.forMetric(metric, series); use.warns() {
			out = append(out, use)
		}
	})
	return out
}

// watch registers the gauges of the limits.
func (l *seriesLimits) watch(reg prometheus.Registerer) {
	f := promauto.With(reg)
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdb_ingest_" + name, Help: help, ConstLabels: labels}, value)
	}
	gauge("series_limit", "Maximum number of active series; 0 means no limit.", nil, func() float64 {
		return float64(l.total.Load().Max)
	})
	gauge("series_bytes", "Memory of active series without their samples: labels, registry and open days of the index.", nil,
		func() float64 { return float64(l.memory.seriesUse().Used) })
	gauge("series_bytes_limit", "Maximum memory of active series; 0 means no limit.", nil,
		func() float64 { return float64(l.memory.seriesUse().Max) })
	for limit, warnings := range map[string]func() int{
		limitSeries: func() int { use := l.all(); return oneIf(use.warns()) },
		limitMemory: func() int { use := l.memory.seriesUse(); return oneIf(use.warns()) },
		limitMetric: func() int { return len(l.nearMetrics()) },
	} {
		gauge("series_limit_warnings", "Limits of series that have reached their warning, by kind. The kind metric counts metrics.",
			prometheus.Labels{"limit": limit}, func() float64 { return float64(warnings()) })
		l.metrics.seriesDryRun.WithLabelValues(limit)
	}
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

// RefusedSamples counts the refused samples of a metric.
type RefusedSamples struct {
	Metric  string `json:"metric"`
	Samples uint64 `json:"samples"`
	// Uncounted bounds the error of Samples. Too many metrics were refused to count each one from its first sample.
	Uncounted uint64 `json:"uncounted,omitempty"`
}

// metricCounts counts by metric in bounded memory, with the Space-Saving algorithm. A new metric replaces the metric with
// the smallest sum of Samples and Uncounted, and inherits this sum as Uncounted. So metrics with large counts stay.
type metricCounts struct {
	most     int
	byMetric map[string]*metricCount
	heap     countHeap
}

type metricCount struct {
	RefusedSamples
	at int // index in the heap
}

func (e *metricCount) sum() uint64 { return e.Samples + e.Uncounted }

func newMetricCounts(most int) metricCounts {
	return metricCounts{most: most, byMetric: map[string]*metricCount{}}
}

func (c *metricCounts) add(metric string, n uint64) {
	e := c.byMetric[metric]
	switch {
	case e != nil:
	case len(c.heap) < c.most:
		e = &metricCount{RefusedSamples: RefusedSamples{Metric: strings.Clone(metric)}}
		c.byMetric[e.Metric] = e
		heap.Push(&c.heap, e)
	default:
		e = c.heap[0]
		delete(c.byMetric, e.Metric)
		e.Metric, e.Samples, e.Uncounted = strings.Clone(metric), 0, e.sum()
		c.byMetric[e.Metric] = e
	}
	e.Samples += n
	heap.Fix(&c.heap, e.at)
}

// largest returns at most the given number of the largest counts.
func (c *metricCounts) largest(most int) []RefusedSamples {
	out := make([]RefusedSamples, 0, len(c.heap))
	for _, e := range c.heap {
		out = append(out, e.RefusedSamples)
	}
	slices.SortFunc(out, func(a, b RefusedSamples) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Metric, b.Metric))
	})
	return slices.Clip(out[:min(most, len(out))])
}

// countHeap has the smallest sum first. It implements heap.Interface.
type countHeap []*metricCount

func (h countHeap) Len() int           { return len(h) }
func (h countHeap) Less(i, j int) bool { return h[i].sum() < h[j].sum() }
func (h countHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *countHeap) Push(x any) {
	e := x.(*metricCount)
	e.at = len(*h)
	*h = append(*h, e)
}

// Pop is never called, because metrics are replaced and not removed.
func (h *countHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
