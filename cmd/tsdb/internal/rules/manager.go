package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"

	"halite/keyschema"
	"halite/storage/principal"
)

// Options configure a Manager. Those without a default are required.
type Options struct {
	// Evaluate answers the queries of rules.
	Evaluate Evaluate
	// Write stores the results of rules.
	Write Write
	// Queryable reads the state of alerts from before the start.
	Queryable storage.Queryable
	// ExternalURL is the address of the server in alerts.
	ExternalURL string
	// Principal returns the owner of the queries and writes of a tenant's rules. Nil, the default, is the server
	// itself. Then no group may name a tenant: see [Settings.RequireNoTenants].
	Principal func(tenant string) *principal.Principal
	// Flags are what the command line says about alerts.
	Flags Flags
	// StopTimeout bounds how long a stop waits for evaluations and notifications under way.
	StopTimeout time.Duration
	// Registerer and Logger are required.
	Registerer prometheus.Registerer
	Logger     *slog.Logger
}

// Manager evaluates rules from Run on, and sends their alerts.
type Manager struct {
	opts      Options
	notifier  *notifier.Manager
	discovery *discovery.Manager
	files     atomic.Pointer[Files]
	settings  atomic.Pointer[Settings]
	cancel    context.CancelFunc // of everything, at once

	ctx     context.Context // of evaluations
	address *url.URL
	metrics *promrules.Metrics
	started chan struct{}  // closed by Run
	work    sync.WaitGroup // of the managers of tenants

	mu       sync.Mutex                    // guards the fields below
	byTenant map[string]*promrules.Manager // a manager for the groups of each tenant, so that no rule has the rights of another
	stopped  bool
}

// New returns a Manager without rules. Close it, or Run it.
func New(o Options) (*Manager, error) {
	address, err := url.Parse(o.ExternalURL)
	if err != nil {
		return nil, fmt.Errorf("external URL: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{opts: o, cancel: cancel, ctx: ctx, address: address, metrics: promrules.NewGroupMetrics(o.Registerer),
		byTenant: map[string]*promrules.Manager{}, started: make(chan struct{})}
	sd, err := discovery.CreateAndRegisterSDMetrics(o.Registerer)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("metrics of service discovery: %w", err)
	}
	m.discovery = discovery.NewManager(ctx, o.Logger.With("component", "discovery"), o.Registerer, sd, discovery.Name("notify"),
		discovery.Updatert(discoveryDelay))
	if m.discovery == nil {
		cancel()
		return nil, errors.New("service discovery of Alertmanagers does not start; the log says why")
	}
	m.notifier = notifier.NewManager(&notifier.Options{
		QueueCapacity: o.Flags.QueueMax, DrainOnShutdown: true, Registerer: o.Registerer, Do: m.send(ctx),
	}, model.UTF8Validation, o.Logger.With("component", "notifier"))
	return m, nil
}

// ofTenant returns the manager of a tenant's rules. Its groups wait for Run. The caller holds mu.
func (m *Manager) ofTenant(tenant string) *promrules.Manager {
	if manager := m.byTenant[tenant]; manager != nil {
		return manager
	}
	o, ctx := &m.opts, m.ctx
	if o.Principal != nil {
		ctx = principal.With(ctx, o.Principal(tenant))
	}
	manager := promrules.NewManager(&promrules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation, ExternalURL: m.address, Context: ctx,
		QueryFunc: queryFunc(o.Evaluate), Appendable: &appendable{write: o.Write}, Queryable: o.Queryable,
		NotifyFunc: promrules.SendAlerts(m.notifier, o.ExternalURL),
		Logger:     o.Logger.With("component", "rule manager"), Registerer: o.Registerer, Metrics: m.metrics,
		OutageTolerance: o.Flags.OutageTolerance, ForGracePeriod: o.Flags.ForGracePeriod, ResendDelay: o.Flags.ResendDelay,
		DefaultRuleQueryOffset: func() time.Duration { return m.settings.Load().queryOffset },
		GroupLoader:            loader{m, tenant},
	})
	m.byTenant[tenant] = manager
	m.work.Go(func() {
		<-m.started
		manager.Run()
	})
	return manager
}

// discoveryDelay is the time in which changes of the Alertmanagers take effect together.
const discoveryDelay = time.Second

// loader gives the rule manager of a tenant the files that were read last, so that it loads the checked content.
type loader struct {
	m      *Manager
	tenant string
}

// Load returns the groups of a file.
func (l loader) Load(path string, _ bool, _ model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	return l.m.files.Load().Load(path, l.tenant)
}

// Parse parses an expression.
func (l loader) Parse(query string) (parser.Expr, error) { return l.m.files.Load().Parse(query) }

// send sends a notification. The notification fails when ctx ends, even if its own timeout has not passed.
func (m *Manager) send(ctx context.Context) func(context.Context, *http.Client, *http.Request) (*http.Response, error) {
	return func(own context.Context, client *http.Client, r *http.Request) (*http.Response, error) {
		own, cancel := context.WithCancel(own)
		stop := context.AfterFunc(ctx, cancel)
		resp, err := client.Do(r.WithContext(own))
		stop()
		if err != nil {
			cancel()
		}
		return resp, err
	}
}

// Apply applies settings. Groups that do not change keep running. If Apply fails, the previous rules stay. A second Apply
// that changes groups waits for Run.
func (m *Manager) Apply(s *Settings) error {
	if err := m.notifier.ApplyConfig(s.alerting); err != nil {
		return fmt.Errorf("alerting: %w", err)
	}
	sources := make(map[string]discovery.Configs)
	for name, a := range s.alerting.AlertingConfig.AlertmanagerConfigs.ToMap() {
		sources[name] = a.ServiceDiscoveryConfigs
	}
	if err := m.discovery.ApplyConfig(sources); err != nil {
		return fmt.Errorf("alerting: %w", err)
	}
	m.files.Store(s.Files)
	m.settings.Store(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return nil
	}
	m.ofTenant(keyschema.DefaultTenant)
	for _, tenant := range s.Files.Tenants() {
		m.ofTenant(tenant)
	}
	labels := s.alerting.GlobalConfig.ExternalLabels
	for _, tenant := range slices.Sorted(maps.Keys(m.byTenant)) {
		if err := m.byTenant[tenant].Update(s.interval, s.Files.Paths, labels, m.opts.ExternalURL, nil); err != nil {
			return fmt.Errorf("rule_files: tenant %s: %w", tenant, err)
		}
	}
	return nil
}

// stop ends the evaluations of all tenants, and waits for them.
func (m *Manager) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = true
	for _, manager := range m.byTenant {
		manager.Stop()
	}
}

// Run evaluates the rules of the last Apply until ctx ends. Then it finishes the evaluations and notifications under
// way, within the time of the options.
func (m *Manager) Run(ctx context.Context) {
	defer m.cancel()
	var work, notifications sync.WaitGroup
	work.Go(func() {
		if err := m.discovery.Run(); err != nil && !errors.Is(err, context.Canceled) {
			m.opts.Logger.Error("service discovery of Alertmanagers ended", "err", err)
		}
	})
	notifications.Go(func() { m.notifier.Run(m.discovery.SyncCh()) })
	close(m.started) // without mu, because an Apply that waits for Run holds it
	<-ctx.Done()
	late := time.AfterFunc(m.opts.StopTimeout, m.cancel)
	defer late.Stop()
	m.stop()
	m.notifier.Stop()
	notifications.Wait()
	m.cancel()
	work.Wait()
	m.work.Wait()
}

// Close ends a Manager that never runs.
func (m *Manager) Close() { m.cancel() }

// RuleGroups returns the groups, sorted by file and name.
func (m *Manager) RuleGroups() (groups []*promrules.Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, manager := range m.byTenant {
		groups = append(groups, manager.RuleGroups()...)
	}
	slices.SortFunc(groups, func(a, b *promrules.Group) int {
		return cmp.Or(cmp.Compare(a.File(), b.File()), cmp.Compare(a.Name(), b.Name()))
	})
	return groups
}

// Tenant returns the tenant of a group; empty if the server has no tenants.
func (m *Manager) Tenant(file, group string) string {
	if m.opts.Principal == nil {
		return ""
	}
	return m.files.Load().Tenant(file, group)
}

// Alertmanagers returns the addresses that alerts go to.
func (m *Manager) Alertmanagers() []*url.URL { return m.notifier.Alertmanagers() }

// DroppedAlertmanagers returns the addresses that relabelling has dropped.
func (m *Manager) DroppedAlertmanagers() []*url.URL { return m.notifier.DroppedAlertmanagers() }
