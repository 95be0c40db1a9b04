package tenantadmin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/ingest"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/storage"
	"halite/storage/notes"
	"halite/storage/periodic"
	"halite/storage/tenants"
)

const (
	// retryInterval is the time between two tries of a drop that failed.
	retryInterval = time.Minute
	// sizesInterval is the time between two measurements of the tables.
	sizesInterval = time.Hour
)

// ErrDefault means that the default tenant cannot be dropped or added.
var ErrDefault = errors.New("the default tenant always exists; delete its series with `tsdb delete`")

// Writer knows and drops the data of tenants. *ingest.Ingester and *direct.Direct are Writers.
type Writer interface {
	// TenantUses returns what each tenant uses of its limits.
	TenantUses(others ...string) map[string]tenantlimits.Use
	// CountTenant counts what DropTenant would remove.
	CountTenant(ctx context.Context, tenant string) (ingest.TenantContent, error)
	// DropTenant removes all data of a tenant, and refuses its writes until ReopenTenant.
	DropTenant(ctx context.Context, tenant string) (series int, err error)
	// ReopenTenant takes writes of a tenant again.
	ReopenTenant(tenant string)
}

// Options configure an Admin. All fields but Registerer are required.
type Options struct {
	List   *tenants.Registry
	Writer Writer
	Notes  *notes.Store
	// DropMeta has the functions that remove the rest of a dropped tenant from table meta. Admin may repeat a call after it
	// succeeded.
	DropMeta []func(ctx context.Context, tenant string) error
	// Store is the engine. Its tables are measured.
	Store      storage.Store
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Admin manages tenants. Its methods may be called concurrently.
type Admin struct {
	opts   Options
	jobs   periodic.Jobs
	wake   chan struct{}
	sizes  sizes
	drops  prometheus.Counter
	failed prometheus.Counter

	mu      sync.Mutex
	waiting map[string][]chan result
}

// result is the outcome of a try to drop a tenant.
type result struct {
	series int
	err    error
}

// New makes an Admin, which drops nothing before Start.
func New(o Options) *Admin {
	f := promauto.With(o.Registerer)
	a := &Admin{
		opts: o, wake: make(chan struct{}, 1), waiting: map[string][]chan result{},
		drops: f.NewCounter(prometheus.CounterOpts{Name: "tsdb_tenant_drops_total", Help: "Tenants dropped."}),
		failed: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_tenant_drop_failures_total", Help: "Failed attempts to drop a tenant; the server repeats them.",
		}),
	}
	a.sizes.init(o.Store)
	if o.Registerer != nil {
		o.Registerer.MustRegister(&a.sizes)
	}
	return a
}

// Start runs the jobs until Close. The first one finishes drops that a crash has cut off.
func (a *Admin) Start() {
	a.jobs.Add(retryInterval, a.wake, a.finishDrops)
	a.jobs.AddNow(sizesInterval, a.measure)
	a.wakeUp()
}

// Close stops the jobs. It may be called on nil.
func (a *Admin) Close() {
	if a != nil {
		a.jobs.Stop()
		a.jobs.Wait()
	}
}

func (a *Admin) wakeUp() {
	select {
	case a.wake <- struct{}{}:
	default: // the job runs soon anyway
	}
}

// Add adds a tenant, also on a server where writes add none. The error is tenants.ErrTooMany, tenants.ErrDropping,
// keyschema.ErrBadTenant or ErrDefault.
func (a *Admin) Add(ctx context.Context, name string) error {
	if name == keyschema.DefaultTenant {
		return ErrDefault
	}
	return a.opts.List.Add(ctx, name)
}

// Content describes the data that a drop would remove.
type Content struct {
	Tenant      string `json:"tenant"`
	Series      int    `json:"series"`
	Metrics     int    `json:"describedMetrics"`
	Annotations int    `json:"annotations"`
	// Bytes estimates the space in the tables of samples and rollups, without unflushed samples.
	Bytes int64 `json:"bytes"`
}

// Preview describes the data that a drop would remove. The error may be tenants.ErrUnknown.
func (a *Admin) Preview(ctx context.Context, name string) (c Content, err error) {
	if _, err := a.find(ctx, name); err != nil {
		return c, err
	}
	content, err := a.opts.Writer.CountTenant(ctx, name)
	if err != nil {
		return c, err
	}
	c = Content{Tenant: name, Series: content.Series, Metrics: content.Metrics}
	if c.Annotations, err = a.notesOf(name).Count(ctx); err != nil {
		return c, err
	}
	bytes, err := a.sizes.measureOne(ctx, name)
	for _, n := range bytes {
		c.Bytes += n
	}
	return c, err
}

func (a *Admin) notesOf(name string) *notes.Store {
	return a.opts.Notes.ForTenant(keyschema.TenantPrefix(name))
}

// find returns the entry of a tenant that can be dropped.
func (a *Admin) find(ctx context.Context, name string) (t tenants.Tenant, err error) {
	if name == keyschema.DefaultTenant {
		return t, ErrDefault
	}
	if err := keyschema.CheckTenant(name); err != nil {
		return t, err
	}
	list, err := a.opts.List.List(ctx)
	if err != nil {
		return t, err
	}
	for _, t := range list {
		if t.Name == name {
			return t, nil
		}
	}
	return t, fmt.Errorf("%w: %q", tenants.ErrUnknown, name)
}

// Drop removes a tenant and all its data. It waits until nothing is left. If ctx ends or the removal fails, the
// server continues by itself, even after a restart. It returns the number of series.
func (a *Admin) Drop(ctx context.Context, name string) (series int, err error) {
	if _, err := a.find(ctx, name); err != nil {
		return 0, err
	}
	// A writer that drops no tenants refuses here, before the tenant is marked.
	if _, err := a.opts.Writer.CountTenant(ctx, name); err != nil {
		return 0, err
	}
	done := make(chan result, 1)
	a.mu.Lock()
	a.waiting[name] = append(a.waiting[name], done)
	a.mu.Unlock()
	defer a.leave(name, done)
	if err := a.opts.List.StartDrop(ctx, name); err != nil {
		return 0, err
	}
	a.wakeUp()
	select {
	case r := <-done:
		return r.series, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("the server continues to drop tenant %q: %w", name, context.Cause(ctx))
	}
}

// leave stops waiting for a drop.
func (a *Admin) leave(name string, done chan result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[name] = slices.DeleteFunc(a.waiting[name], func(c chan result) bool { return c == done })
	if len(a.waiting[name]) == 0 {
		delete(a.waiting, name)
	}
}

// finishDrops drops the tenants that are marked in the list.
func (a *Admin) finishDrops(ctx context.Context) {
	list, err := a.opts.List.List(ctx)
	if err != nil {
		a.opts.Logger.Error("cannot read the list of tenants; the server tries again in a minute", "err", err)
		return
	}
	for _, t := range list {
		if !t.Dropping || ctx.Err() != nil {
			continue
		}
		series, err := a.finishDrop(ctx, t.Name)
		if err != nil {
			a.failed.Inc()
			a.opts.Logger.Error("cannot drop a tenant yet; the server tries again in a minute", "tenant", t.Name, "err", err)
			err = fmt.Errorf("the server tries again in a minute: %w", err)
		}
		a.mu.Lock()
		for _, done := range a.waiting[t.Name] {
			done <- result{series, err}
		}
		delete(a.waiting, t.Name)
		a.mu.Unlock()
	}
}

// finishDrop removes the data of a tenant, and then its entry.
func (a *Admin) finishDrop(ctx context.Context, name string) (series int, err error) {
	began := time.Now() // a duration, not a time of the data
	if series, err = a.opts.Writer.DropTenant(ctx, name); err != nil {
		return 0, err
	}
	if err := a.notesOf(name).Drop(ctx); err != nil {
		return 0, err
	}
	for _, drop := range a.opts.DropMeta {
		if err := drop(ctx, name); err != nil {
			return 0, err
		}
	}
	if err := a.opts.List.Remove(ctx, name); err != nil {
		return 0, err
	}
	a.opts.Writer.ReopenTenant(name)
	a.sizes.remove(name)
	a.drops.Inc()
	a.opts.Logger.Info("dropped a tenant", "tenant", name, "series", series, "duration", time.Since(began).Round(time.Millisecond))
	return series, nil
}

// measure measures the tables of all tenants.
func (a *Admin) measure(ctx context.Context) {
	list, err := a.opts.List.List(ctx)
	if err == nil {
		err = a.sizes.measure(ctx, list)
	}
	if err != nil && ctx.Err() == nil {
		a.opts.Logger.Error("cannot measure the tables of tenants; the server tries again in an hour", "err", err)
	}
}

// Usage is the usage of a tenant.
type Usage struct {
	Tenant string `json:"tenant"`
	// Created is when the tenant was added; the default tenant has none.
	Created time.Time `json:"created,omitzero"`
	// Dropping says that the tenant is being dropped.
	Dropping bool `json:"dropping,omitempty"`
	// Series counts the active series, Samples the samples written since the start, and SamplesPerSecond the samples of
	// the last second.
	Series           int64 `json:"series"`
	Samples          int64 `json:"samples"`
	SamplesPerSecond int64 `json:"samplesPerSecond"`
	// Bytes estimates the space in each table, without unflushed samples. It is empty on an engine without such a figure.
	Bytes map[string]int64 `json:"bytes,omitempty"`
}

// List returns all tenants with their usage, by name. The sizes are at most an hour old.
func (a *Admin) List(ctx context.Context) ([]Usage, error) {
	list, err := a.opts.List.List(ctx)
	if err != nil {
		return nil, err
	}
	uses := a.opts.Writer.TenantUses()
	out := make([]Usage, 0, len(list)+1)
	for _, t := range append(list, tenants.Tenant{Name: keyschema.DefaultTenant}) {
		use := uses[t.Name]
		u := Usage{
			Tenant: t.Name, Dropping: t.Dropping, Series: use.Series.Used, Samples: use.Samples,
			SamplesPerSecond: use.SamplesPerSecond.Used, Bytes: a.sizes.last(t.Name),
		}
		if t.CreatedMs > 0 {
			u.Created = time.UnixMilli(t.CreatedMs).UTC()
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Usage) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out, nil
}

// UsageOf returns the usage of one tenant, and measures its sizes now. The error may be tenants.ErrUnknown.
func (a *Admin) UsageOf(ctx context.Context, name string) (u Usage, err error) {
	if name != keyschema.DefaultTenant {
		if _, err := a.find(ctx, name); err != nil {
			return u, err
		}
		if _, err := a.sizes.measureOne(ctx, name); err != nil {
			return u, err
		}
	}
	list, err := a.List(ctx)
	at := slices.IndexFunc(list, func(u Usage) bool { return u.Tenant == name })
	if err != nil || at < 0 {
		return u, cmp.Or(err, fmt.Errorf("%w: %q", tenants.ErrUnknown, name))
	}
	return list[at], nil
}
