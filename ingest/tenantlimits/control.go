package tenantlimits

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"halite/ingest/ratelimit"
	"halite/keyschema"
)

// Each stands for the tenants without limits of their own. No tenant has this name.
const Each = "*"

// Limits are the limits of a tenant. Max 0 means no limit. Series limits active series; it uses the options of a rate limit.
type Limits struct{ SamplesPerSecond, Series ratelimit.Options }

// Control has the state of each tenant that writes. It is safe for concurrent use.
type Control struct {
	opts                      Options
	samples, series, warnings *prometheus.Desc

	mu      sync.Mutex
	limits  map[string]Limits
	tenants map[string]*Tenant // by the prefix of stored names
}

// Options configure a Control.
type Options struct {
	// SlotsMax bounds the concurrent requests of one tenant, and BytesMax bounds their memory.
	SlotsMax int
	// SharedMax bounds the concurrent requests while other tenants are active.
	SharedMax int
	BytesMax  int64
	// SharedLogBytesMax bounds the requests that are not durable while other tenants are active. A larger request waits until
	// it is the only one.
	SharedLogBytesMax int64
	// EachMetric calls fn with the stored name of each metric and the number of its active series.
	EachMetric func(fn func(metric string, series int))
	// Now is the clock.
	Now func() time.Time
}

// New returns a Control without limits.
func New(o Options) *Control {
	name := []string{"tenant"}
	return &Control{
		opts: o, tenants: map[string]*Tenant{},
		samples: prometheus.NewDesc("tsdb_tenant_samples_total", "Samples and histograms that a tenant has written.", name, nil),
		warnings: prometheus.NewDesc("tsdb_tenant_rate_limit_warnings_total",
			"Seconds in which a tenant's rate of samples reached the warning of its limit.", name, nil),
		series: prometheus.NewDesc("tsdb_tenant_series", "Active series of a tenant.", name, nil),
	}
}

// Set replaces the limits, by the names of tenants.
func (c *Control) Set(limits map[string]Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits = limits
	for _, t := range c.tenants {
		c.apply(t)
	}
}

// apply gives a tenant its limits. The caller holds mu.
func (c *Control) apply(t *Tenant) {
	l := c.limitsOf(t.Name)
	t.rate.Set(l.SamplesPerSecond)
	t.seriesLimit.Store(&l.Series)
}

// limitsOf returns the limits of a tenant. The caller holds mu.
func (c *Control) limitsOf(name string) Limits {
	if l, own := c.limits[name]; own {
		return l
	}
	return c.limits[Each]
}

// ForPrefix returns the tenant whose stored names begin with a prefix.
func (c *Control) ForPrefix(prefix string) *Tenant {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tenants[prefix]
	if t == nil {
		t = &Tenant{Name: keyschema.TenantOf(prefix), control: c, slots: make(chan struct{}, c.opts.SlotsMax),
			shared: make(chan struct{}, c.opts.SharedMax), undurable: semaphore.NewWeighted(c.opts.SharedLogBytesMax)}
		c.tenants[prefix] = t
		c.apply(t)
	}
	return t
}

// Remove removes the state of a tenant. The next write makes a new one.
func (c *Control) Remove(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tenants, prefix)
}

// Use is a tenant's usage of its limits.
type Use struct {
	// Series and SamplesPerSecond have the use of a limit; their Max is 0 if there is none.
	Series, SamplesPerSecond ratelimit.Use
	// Samples counts samples and histograms since the start.
	Samples int64
}

// Uses returns the usage by tenant name: for others, and for each tenant with series or with writes since the start.
func (c *Control) Uses(others ...string) map[string]Use {
	series := c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]Use, len(series))
	add := func(name string) {
		if _, has := out[name]; !has {
			l, prefix := c.limitsOf(name), keyschema.TenantPrefix(name)
			out[name] = Use{
				Series:           ratelimit.Use{Options: l.Series, Used: series[prefix]},
				SamplesPerSecond: ratelimit.Use{Options: l.SamplesPerSecond},
			}
		}
	}
	for prefix := range series {
		add(keyschema.TenantOf(prefix))
	}
	for _, name := range others {
		add(name)
	}
	for _, t := range c.tenants {
		add(t.Name)
		u := out[t.Name]
		u.SamplesPerSecond, u.Samples = t.rate.Use(c.opts.Now()), t.samples.Load()
		out[t.Name] = u
	}
	return out
}

// countEvery is the age above which the counts of active series are stale.
const countEvery = time.Second

// count counts the active series of all tenants.
func (c *Control) count() map[string]int64 {
	series := map[string]int64{}
	c.opts.EachMetric(func(metric string, n int) {
		prefix, _ := keyschema.SplitTenant(metric)
		series[prefix] += int64(n)
	})
	return series
}

// Describe implements prometheus.Collector.
func (c *Control) Describe(out chan<- *prometheus.Desc) {
	out <- c.samples
	out <- c.series
	out <- c.warnings
}

// Collect implements prometheus.Collector.
func (c *Control) Collect(out chan<- prometheus.Metric) {
	series := c.count()
	c.mu.Lock()
	defer c.mu.Unlock()
	for prefix, t := range c.tenants {
		out <- prometheus.MustNewConstMetric(c.samples, prometheus.CounterValue, float64(t.samples.Load()), t.Name)
		out <- prometheus.MustNewConstMetric(c.warnings, prometheus.CounterValue,
			float64(t.rate.Use(c.opts.Now()).Warnings), t.Name)
		if series[prefix] == 0 {
			out <- prometheus.MustNewConstMetric(c.series, prometheus.GaugeValue, 0, t.Name)
		}
	}
	for prefix, n := range series {
		out <- prometheus.MustNewConstMetric(c.series, prometheus.GaugeValue, float64(n), keyschema.TenantOf(prefix))
	}
}

// Tenant is the state of one tenant's writes. A nil Tenant, on a server without tenants, has no limits.
type Tenant struct {
	Name    string
	control *Control

	rate        ratelimit.Limiter
	seriesLimit atomic.Pointer[ratelimit.Options]
	samples     atomic.Int64
	slots       chan struct{}
	shared      chan struct{}       // slots while other tenants are active
	undurable   *semaphore.Weighted // bytes of requests since Enter, while other tenants are active; first come, first served
	bytes       atomic.Int64
	closed      atomic.Bool

	mu      sync.Mutex // guards the fields below
	series  int64
	counted time.Time
}

// CheckRate calls Check of the limit of samples per second.
func (t *Tenant) CheckRate(now time.Time) (wait time.Duration, over, dryRun bool) {
	if t == nil {
		return 0, false, false
	}
	return t.rate.Check(now)
}

// Add counts the samples of a request; over is the result of CheckRate.
func (t *Tenant) Add(samples int, over bool, now time.Time) {
	if t == nil {
		return
	}
	t.samples.Add(int64(samples))
	t.rate.Add(samples, over, now)
}

// Slot is the part of a tenant's share that a request uses. The zero value uses nothing.
type Slot struct {
	tenant    *Tenant
	sizeBytes int
	logBytes  int64 // of undurable
	shared    bool
	entered   bool
}

// Enter reserves a slot and memory in the tenant's share. The share is smaller if shares is set, because other tenants are
// active. ok is false if the memory is used up, if no slot becomes free within wait, if ctx ends first, or after Close. The
// caller calls Leave, then Done.
func (t *Tenant) Enter(ctx context.Context, sizeBytes int, wait time.Duration, shares bool) (slot Slot, ok bool) {
	if t == nil {
		return Slot{}, true
	}
	slot = Slot{tenant: t, sizeBytes: sizeBytes}
	if t.bytes.Add(int64(sizeBytes)) <= t.control.opts.BytesMax && t.reserve(ctx, &slot, wait, shares) {
		return slot, true
	}
	slot.Leave()
	slot.Done()
	return Slot{}, false
}

// reserve takes what a request needs besides memory. It returns false if it cannot take all.
func (t *Tenant) reserve(ctx context.Context, slot *Slot, wait time.Duration, shares bool) bool {
	if shares {
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		logBytes := min(int64(slot.sizeBytes), t.control.opts.SharedLogBytesMax)
		if t.undurable.Acquire(ctx, logBytes) != nil {
			return false
		}
		slot.logBytes = logBytes
		if slot.shared = takeSlot(ctx, t.shared, wait); !slot.shared {
			return false
		}
	}
	slot.entered = takeSlot(ctx, t.slots, wait)
	return slot.entered && !t.closed.Load()
}

// takeSlot returns false if no slot becomes free within wait, or if ctx ends first.
func takeSlot(ctx context.Context, slots chan struct{}, wait time.Duration) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Leave frees the slot and its memory. The request may still wait for the log.
func (s Slot) Leave() {
	t := s.tenant
	if t == nil {
		return
	}
	if s.entered {
		<-t.slots
	}
	if s.shared {
		<-t.shared
	}
	t.bytes.Add(int64(-s.sizeBytes))
}

// Done frees the tenant's share of the log, once the request is durable or has failed.
func (s Slot) Done() {
	if s.tenant != nil {
		s.tenant.undurable.Release(s.logBytes)
	}
}

// Close refuses new requests and waits until all have left. After an error some may still run.
func (t *Tenant) Close(ctx context.Context) error {
	t.closed.Store(true)
	taken := 0
	defer func() {
		for range taken {
			<-t.slots
		}
	}()
	for range cap(t.slots) {
		select {
		case t.slots <- struct{}{}:
			taken++
		case <-ctx.Done():
			return fmt.Errorf("wait for running writes of tenant %q: %w", t.Name, context.Cause(ctx))
		}
	}
	return nil
}

// Series returns the limit of active series and their number: the last count plus the series added since.
func (t *Tenant) Series() (limit ratelimit.Options, used int64) {
	limit = *t.seriesLimit.Load()
	if limit.Max == 0 {
		return limit, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.control.opts.Now(); now.Sub(t.counted) >= countEvery {
		t.series, t.counted = t.control.count()[keyschema.TenantPrefix(t.Name)], now
	}
	return limit, t.series
}

// AddSeries counts a new series.
func (t *Tenant) AddSeries() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.series++
}
