package ingest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	promrelabel "github.com/prometheus/prometheus/model/relabel"

	"halite/ingest/deletion"
	"halite/ingest/hatracker"
	"halite/ingest/head"
	"halite/ingest/relabel"
	"halite/ingest/tenantlimits"
	"halite/ingest/wal"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/changes"
	"halite/storage/index"
	"halite/storage/keyviz"
)

// Writer is the first half of a write, common to all modes. It admits a request, reads it, finds and creates its series, and
// keeps metadata. The second half stores the samples.
type Writer struct {
	limits     Limits
	floatsOnly bool
	retention  *keyschema.TierRetention
	index      *index.Index
	meta       storage.Table
	sync       func(context.Context) error
	now        func() time.Time
	logger     *slog.Logger
	metrics    *metrics
	registry   *head.Registry
	// rules relabel series; nil if there are none. They change only while seriesGCLock is locked for writing.
	rules    atomic.Pointer[relabel.Rules]
	rulesMu  sync.Mutex // serializes changes of rules with the removal of series
	metadata *metadataStore
	changes  changes.Clock
	heat     *keyviz.Collector

	admission    admission
	seriesLimits seriesLimits
	tenants      *tenantlimits.Control

	// head has a slot for each active series. log takes their records; it is nil in mode direct.
	head *head.Head
	log  *wal.Log

	// seriesGCLock is read-locked from the first series look-up of a request to its last append. No series is removed in
	// between.
	seriesGCLock sync.RWMutex
	// regMu serialises the registration of series.
	regMu   sync.Mutex
	nextLog uint32 // next series number in the log; guarded by regMu
	series  atomic.Int64

	gate    sync.Mutex // guards closed and the start of callers
	closed  bool
	callers sync.WaitGroup
}

// WriterOptions configure a Writer. Head's limits, Log and Registerer are optional.
type WriterOptions struct {
	Limits Limits
	// FloatsOnly refuses histograms and exemplars, and leaves out start times. Mode direct sets it.
	FloatsOnly bool
	Memory     HeadOptions
	Retention  *keyschema.TierRetention
	Index      *index.Index
	Schema     *keyschema.Schema
	Meta       storage.Table
	// Sync makes changes of Meta durable.
	Sync       func(context.Context) error
	Head       *head.Head
	Heat       *keyviz.Collector
	Now        func() time.Time
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Init prepares the writer and reads metadata from table meta. The caller sets the log afterwards, if there is one.
func (w *Writer) Init(ctx context.Context, o WriterOptions) error {
	w.limits = o.Limits.withDefaults(runtime.GOMAXPROCS(0))
	w.floatsOnly = o.FloatsOnly
	w.retention, w.index, w.meta, w.head, w.nextLog = o.Retention, o.Index, o.Meta, o.Head, 1
	w.sync, w.heat = o.Sync, o.Heat
	w.now, w.logger, w.metrics = o.Now, o.Logger, newMetrics(o.Registerer)
	w.registry = head.NewRegistry()
	w.metadata = newMetadataStore(o.Meta, w.limits, o.Logger)
	w.admission.init(w.limits, memoryBudget{
		index: w.index, registry: w.registry, rules: &w.rules, head: w.head,
		headBytesMax: o.Memory.BytesMax, totalBytesMax: o.Memory.TotalBytesMax, seriesWarn: w.limits.SeriesWarn,
	}, o.Logger, w.metrics)
	slots := cap(w.admission.slots)
	w.tenants = tenantlimits.New(tenantlimits.Options{
		SlotsMax: max(1, slots-slots/tenantShare), BytesMax: w.limits.InFlightBytesMax - w.limits.InFlightBytesMax/tenantShare,
		SharedMax: w.limits.SharedConcurrencyMax, SharedLogBytesMax: w.limits.SharedLogBytesMax,
		EachMetric: func(fn func(metric string, series int)) { w.index.EachMetric(1, fn) }, Now: w.now,
	})
	w.seriesLimits.init(o.Schema, w)
	if w.limits.Tenants && o.Registerer != nil {
		o.Registerer.MustRegister(w.tenants)
	}
	w.SetLimits(Limit{}, nil)
	promauto.With(o.Registerer).NewCounterFunc(prometheus.CounterOpts{
		Name: "tsdb_ingest_rate_limit_warnings_total", Help: "Seconds in which the rate of samples reached the warning of its limit.",
	}, func() float64 { return float64(w.admission.rate.Use(w.now()).Warnings) })
	return w.metadata.load(ctx)
}

// tenantShare bounds what one tenant uses of the request slots and the request memory. It leaves 1/tenantShare of them to
// other tenants.
const tenantShare = 4

// SetTenantLimits replaces the limits of tenants, by name. The name tenantlimits.Each stands for every other tenant.
func (w *Writer) SetTenantLimits(limits map[string]TenantLimits) {
	converted := make(map[string]tenantlimits.Limits, len(limits))
	for name, l := range limits {
		converted[name] = tenantlimits.Limits{SamplesPerSecond: l.SamplesPerSecond.options(), Series: l.Series.options()}
	}
	w.tenants.Set(converted)
}

// TenantUses returns the usage of the limits by tenant: for others, and for each tenant with series or with writes since the
// start.
func (w *Writer) TenantUses(others ...string) map[string]tenantlimits.Use {
	return w.tenants.Uses(others...)
}

// ReopenTenant accepts writes of a dropped tenant again.
func (w *Writer) ReopenTenant(tenant string) { w.tenants.Remove(keyschema.TenantPrefix(tenant)) }

// TenantLimits holds the limits of a tenant.
type TenantLimits struct{ SamplesPerSecond, Series Limit }

// SetLimits replaces the limit of samples per second and the limit of active series. If series is nil, Options.Limits apply.
func (w *Writer) SetLimits(samplesPerSecond Limit, series *Limit) {
	if series == nil {
		series = &Limit{Max: int64(w.limits.SeriesMax), Warn: w.limits.SeriesWarn, DryRun: w.limits.SeriesDryRun}
	}
	w.seriesLimits.total.Store(series)
	w.admission.rate.Set(samplesPerSecond.options())
}

// SetRelabelling replaces the relabelling rules and the options of HA pairs. Both must be valid. If ha is nil, the writer
// stores the samples of all replicas. The rules apply from the next request on, also to known series.
func (w *Writer) SetRelabelling(ctx context.Context, configs []*promrelabel.Config, ha *hatracker.Options) error {
	w.rulesMu.Lock()
	defer w.rulesMu.Unlock()
	current := w.rules.Load()
	tracker, err := w.trackerWith(ctx, current.Tracker(), ha)
	if err != nil {
		return err
	}
	next, err := relabel.New(configs, tracker)
	if err != nil {
		if tracker != current.Tracker() {
			tracker.Close()
		}
		return err
	}
	if next.Equal(current) {
		return nil
	}
	for rule := range next.Len() {
		w.metrics.dropped.WithLabelValues(strconv.Itoa(rule))
	}
	w.swapRules(next)
	if previous := current.Tracker(); previous != tracker {
		previous.Close()
	}
	return nil
}

// trackerWith returns a tracker with the options, which is the current one if it has them. Without options it returns nil.
func (w *Writer) trackerWith(
	ctx context.Context, current *hatracker.Tracker, ha *hatracker.Options,
) (*hatracker.Tracker, error) {
	switch {
	case current.Same(ha):
		return current, nil
	case ha == nil:
		return nil, nil
	}
	return hatracker.Open(ctx, *ha, hatracker.Deps{
		Meta: w.meta, Sync: w.sync, Now: w.now, Logger: w.logger, Metrics: w.metrics.ha,
	})
}

// HAClusters describes the elections of HA pairs.
func (w *Writer) HAClusters() []hatracker.ClusterStatus { return w.rules.Load().Tracker().Status() }

// swapRules replaces the rules between two requests.
func (w *Writer) swapRules(next *relabel.Rules) {
	w.seriesGCLock.Lock()
	defer w.seriesGCLock.Unlock()
	w.rules.Store(next)
}

// Enter registers a caller, so that Close waits for it. The caller must call Exit.
func (w *Writer) Enter() error {
	w.gate.Lock()
	defer w.gate.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.callers.Add(1)
	return nil
}

// Exit ends the caller of an Enter.
func (w *Writer) Exit() { w.callers.Done() }

// Shut refuses new callers. It returns ErrClosed if it was called before.
func (w *Writer) Shut() error {
	w.gate.Lock()
	defer w.gate.Unlock()
	if w.closed {
		return ErrClosed
	}
	w.closed = true
	w.rules.Load().Tracker().Close()
	return nil
}

// Drain waits for the running callers.
func (w *Writer) Drain(ctx context.Context) error {
	drained := make(chan struct{})
	go func() {
		w.callers.Wait()
		close(drained)
	}()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for running writes: %w", ctx.Err())
	}
}

// LockSeries prevents the removal of series from memory until UnlockSeries. A request holds it from its first look-up to its last
// append.
func (w *Writer) LockSeries() { w.seriesGCLock.RLock() }

// UnlockSeries ends LockSeries.
func (w *Writer) UnlockSeries() { w.seriesGCLock.RUnlock() }

// Block refuses all writes with a reason until Unblock.
func (w *Writer) Block(reason string) { w.admission.blocked.Store(&reason) }

// Unblock accepts writes again.
func (w *Writer) Unblock() { w.admission.blocked.Store(nil) }

// Overload returns an *OverloadError for a resource and counts it.
func (w *Writer) Overload(resource, reason string) error {
	return w.admission.overload(resource, reason)
}

// SeriesLimits returns the state of the series limits. most bounds the lists of metrics.
func (w *Writer) SeriesLimits(most int) SeriesLimitStatus {
	l := &w.seriesLimits
	out := SeriesLimitStatus{Series: l.all(), MemoryBytes: l.memory.seriesUse(), Metrics: l.nearMetrics()}
	slices.SortStableFunc(out.Metrics, func(a, b MetricLimitUse) int {
		return cmp.Compare(float64(b.Used)/float64(b.Max), float64(a.Used)/float64(a.Max))
	})
	out.Metrics = slices.Clip(out.Metrics[:min(most, len(out.Metrics))])
	l.mu.Lock()
	defer l.mu.Unlock()
	out.Refused, out.DryRun = l.refused.largest(most), l.dryRun.largest(most)
	rate := w.admission.rate.Use(w.now())
	out.SamplesPerSecond = LimitUse{Used: rate.Used, Warn: rate.Warn, Max: rate.Max, DryRun: rate.DryRun}
	return out
}

// Metadata returns the descriptions of a metric, newest first, or of all metrics if metric is empty. limit bounds the number of
// metrics; 0 means all.
func (w *Writer) Metadata(metric string, limit int) map[string][]Metadata {
	return w.metadata.get(metric, limit)
}

// TargetMetadata returns the description that a target sends for a metric. If the target sends none, it returns the newest
// description of the metric.
func (w *Writer) TargetMetadata(metric, job, instance string) (m Metadata, known bool) {
	return w.metadata.ofTarget(metric, job, instance)
}

// PersistMetadata writes changed descriptions to table meta.
func (w *Writer) PersistMetadata(ctx context.Context) error { return w.metadata.persist(ctx) }

// LoadMetadata reads the descriptions in table meta.
func (w *Writer) LoadMetadata(ctx context.Context) error { return w.metadata.load(ctx) }

// SeriesCount returns the number of active series.
func (w *Writer) SeriesCount() int { return int(w.series.Load()) }

// InFlightBytes returns the decoded bytes of requests in progress.
func (w *Writer) InFlightBytes() int64 { return w.admission.inFlight.Load() }

// CountMaintenanceFailure counts a failed maintenance run.
func (w *Writer) CountMaintenanceFailure() { w.metrics.maintFails.Inc() }

// DeletionMetrics returns the metrics of deletions.
func (w *Writer) DeletionMetrics() deletion.Metrics { return w.metrics.deletions }
