package hatracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/lease"
	"halite/storage/periodic"
)

const (
	// FailoverDefault and ClustersMaxDefault are defaults of Options.
	FailoverDefault    = 30 * time.Second
	ClustersMaxDefault = 1000
	// NameBytesMax bounds the name of a replica, which is the holder of a lease, and of a cluster.
	NameBytesMax = 256
	// ReplicasMax bounds the replicas of a cluster.
	ReplicasMax = 100
	// syncInterval is the time between two calls of Deps.Sync without an election.
	syncInterval = 5 * time.Minute
	// IdleAfter is the time without requests after which the Tracker removes a replica.
	IdleAfter = 24 * time.Hour
	// renewals is the number of renewals of a lease within its lifetime.
	renewals = 10
	// leasePrefix begins the names of the leases. The escaped tenant, '#' and the escaped cluster follow.
	leasePrefix = "ha#"
)

// Errors of a series whose replica is not tracked.
var (
	ErrClusters = errors.New("too many clusters")
	ErrReplicas = errors.New("too many replicas of a cluster")
	ErrName     = fmt.Errorf("the name of a cluster or replica has more than %d bytes", NameBytesMax)
)

// Options configure a Tracker. ClusterLabel and ReplicaLabel are required.
type Options struct {
	// ClusterLabel names the cluster, and ReplicaLabel the replica. A series without one of them takes part in no election.
	ClusterLabel, ReplicaLabel string
	// Failover is the time without requests of the elected replica after which another one is elected; 0 means 30 s.
	Failover time.Duration
	// ClustersMax bounds the clusters of each tenant; 0 means 1,000.
	ClustersMax int
}

func (o Options) withDefaults() Options {
	o.Failover = cmp.Or(o.Failover, FailoverDefault)
	o.ClustersMax = cmp.Or(o.ClustersMax, ClustersMaxDefault)
	return o
}

// Metrics count elections.
type Metrics struct{ elections, failures prometheus.Counter }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	return &Metrics{
		elections: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_ingest_ha_elections_total", Help: "Elections of a replica, with or without an earlier elected one.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "tsdb_ingest_ha_lease_failures_total", Help: "Elections and renewals that failed because table meta did not answer.",
		}),
	}
}

// Deps are the dependencies of a Tracker.
type Deps struct {
	Meta storage.Table
	// Sync makes changes of Meta durable.
	Sync    func(context.Context) error
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics *Metrics
}

// Tracker elects replicas. See the package comment.
type Tracker struct {
	Options
	Deps

	mu       sync.Mutex
	clusters map[clusterKey]*cluster
	// byTenant counts the clusters of each tenant.
	byTenant map[string]int

	jobs    periodic.Jobs
	changed chan struct{} // an election waits for Sync
}

// clusterKey names a cluster. tenant is the prefix of the stored names of the tenant's metrics, "" for the default tenant.
type clusterKey struct{ tenant, name string }

// lease returns the name of the cluster's lease. Escaped texts have no '#'.
func (k clusterKey) lease() string {
	name := append(keyschema.AppendEscaped([]byte(leasePrefix), k.tenant), '#')
	return string(keyschema.AppendEscaped(name, k.name))
}

// parseLease is the inverse of lease.
func parseLease(text string) (k clusterKey, err error) {
	tenant, name, ok := strings.Cut(strings.TrimPrefix(text, leasePrefix), "#")
	if !ok {
		return k, errors.New("it does not name tenant and cluster")
	}
	if k.tenant, err = keyschema.Unescape([]byte(tenant)); err != nil {
		return k, err
	}
	k.name, err = keyschema.Unescape([]byte(name))
	return k, err
}

// cluster is the election of one cluster.
type cluster struct {
	clusterKey
	replicas map[string]*Replica // guarded by the tracker's mutex

	mu        sync.Mutex // guards the fields below, and the times of the replicas
	elected   *Replica   // nil if none is known
	electedMs int64
	untilMs   int64 // last millisecond of the lease
	renewMs   int64 // when to renew it
	elections int
}

// Replica is one replica of a cluster.
type Replica struct {
	tracker *Tracker
	cluster *cluster
	name    string
	lease   *lease.Lease
	seenMs  int64 // time of the last request
	retryMs int64 // time of the next try to take the lease
}

// Open reads the elected replicas from table meta and returns a tracker. The replicas stay elected for one fail-over time, even
// if the server was down for long.
func Open(ctx context.Context, o Options, d Deps) (*Tracker, error) {
	t := &Tracker{Options: o.withDefaults(), Deps: d, clusters: map[clusterKey]*cluster{}, byTenant: map[string]int{},
		changed: make(chan struct{}, 1)}
	holders, err := lease.Holders(ctx, d.Meta, leasePrefix)
	if err != nil {
		return nil, err
	}
	nowMs := d.Now().UnixMilli()
	for _, h := range holders {
		if idleMs := nowMs - IdleAfter.Milliseconds(); h.EndMs < idleMs {
			if err := lease.Remove(ctx, d.Meta, h.Name, idleMs); err != nil {
				return nil, err
			}
			continue
		}
		key, err := parseLease(h.Name)
		if err != nil {
			return nil, fmt.Errorf("%w: lease %s: %w", storage.ErrCorrupt, h.Name, err)
		}
		r, err := t.Replica(key.tenant, key.name, h.Holder)
		if err != nil {
			d.Logger.Warn("skipping the stored election of a cluster", "cluster", key.name, "replica", h.Holder, "err", err)
			continue
		}
		c := r.cluster
		c.elected, c.electedMs, c.untilMs = r, nowMs, nowMs+t.Failover.Milliseconds()
	}
	t.jobs.Add(syncInterval, t.changed, t.sync)
	return t, nil
}

// sync makes elections durable, so that the server knows them after a kill -9.
func (t *Tracker) sync(ctx context.Context) {
	if err := t.Sync(ctx); err != nil && ctx.Err() == nil {
		t.Logger.Error("sync of the elected replicas failed; the next run retries", "err", err)
	}
}

// Close ends the background job. A nil tracker has none.
func (t *Tracker) Close() {
	if t == nil {
		return
	}
	t.jobs.Stop()
	t.jobs.Wait()
}

// Same reports whether the options equal the options of the tracker. A nil tracker and nil options are the same.
func (t *Tracker) Same(o *Options) bool {
	if t == nil || o == nil {
		return t == nil && o == nil
	}
	return t.Options == o.withDefaults()
}

// Replica returns the replica of a tenant with the values of the two labels. tenant is the prefix of the stored names of its
// metrics. The error is ErrClusters, ErrReplicas or ErrName.
func (t *Tracker) Replica(tenant, clusterName, replica string) (*Replica, error) {
	if len(clusterName) > NameBytesMax || len(replica) > NameBytesMax {
		return nil, ErrName
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.clusters[clusterKey{tenant, clusterName}]
	if c == nil {
		if t.byTenant[tenant] >= t.ClustersMax {
			return nil, fmt.Errorf("%w: more than max_clusters %d", ErrClusters, t.ClustersMax)
		}
		c = &cluster{clusterKey: clusterKey{strings.Clone(tenant), strings.Clone(clusterName)}, replicas: map[string]*Replica{}}
	}
	if r := c.replicas[replica]; r != nil {
		return r, nil
	}
	if len(c.replicas) >= ReplicasMax {
		return nil, fmt.Errorf("%w: more than %d", ErrReplicas, ReplicasMax)
	}
	r := &Replica{tracker: t, cluster: c, name: strings.Clone(replica)}
	var err error
	r.lease, err = lease.New(lease.Options{
		Meta: t.Meta, Name: c.lease(), Holder: r.name, TTL: t.Failover, Now: t.Now,
	})
	if err != nil {
		return nil, err
	}
	if len(c.replicas) == 0 {
		t.clusters[c.clusterKey] = c
		t.byTenant[c.tenant]++
	}
	c.replicas[r.name] = r
	return r, nil
}

// Elected reports whether the samples of a request of the replica are stored. If no replica is elected, it elects this replica.
// After an error the sender must repeat the request.
func (r *Replica) Elected(ctx context.Context) (bool, error) {
	c, t := r.cluster, r.tracker
	nowMs := t.Now().UnixMilli()
	c.mu.Lock()
	defer c.mu.Unlock()
	r.seenMs = nowMs
	failoverMs := t.Failover.Milliseconds()
	// A longer time is left only after the clock was set back.
	valid := nowMs <= c.untilMs && c.untilMs <= nowMs+failoverMs
	retries := nowMs < r.retryMs && r.retryMs <= nowMs+failoverMs
	holds := c.elected == r && valid
	switch {
	case holds && nowMs < c.renewMs:
		return true, nil
	case c.elected != r && (valid || retries):
		return false, nil
	}
	got, err := r.lease.Hold(ctx)
	if err != nil {
		t.Metrics.failures.Inc()
		if holds {
			return true, nil
		}
		return false, fmt.Errorf("elect a replica of cluster %q: %w", c.name, err)
	}
	step := failoverMs / renewals
	if !got { // another server has elected another replica
		r.retryMs = nowMs + step
		if c.elected == r {
			c.elected, c.untilMs = nil, 0
		}
		return false, nil
	}
	if c.elected != r {
		c.elect(r, nowMs)
	}
	c.untilMs, c.renewMs = nowMs+failoverMs, nowMs+step
	return true, nil
}

// elect records that a replica is elected.
func (c *cluster) elect(r *Replica, nowMs int64) {
	before := ""
	if c.elected != nil {
		before = c.elected.name
	}
	c.elected, c.electedMs = r, nowMs
	c.elections++
	r.tracker.Metrics.elections.Inc()
	select {
	case r.tracker.changed <- struct{}{}:
	default:
	}
	r.tracker.Logger.Info("a replica is elected", "cluster", c.name, "replica", r.name, "before", before,
		"tenant", c.tenant)
}

// HasIdle reports whether RemoveIdle would remove a replica.
func (t *Tracker) HasIdle() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := false
	t.forEachIdle(func(*cluster, *Replica) { idle = true })
	return idle
}

// RemoveIdle removes replicas that have sent nothing for IdleAfter, and clusters without replicas. The caller no longer holds
// any Replica.
func (t *Tracker) RemoveIdle() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forEachIdle(func(c *cluster, r *Replica) {
		delete(c.replicas, r.name)
		if c.elected == r {
			c.elected = nil
		}
		if len(c.replicas) == 0 {
			delete(t.clusters, c.clusterKey)
			if t.byTenant[c.tenant]--; t.byTenant[c.tenant] == 0 {
				delete(t.byTenant, c.tenant)
			}
		}
	})
}

// DropTenant removes the clusters of a tenant and removes their elections from table meta. prefix is the prefix of the
// tenant's stored names. The caller no longer holds a Replica of the tenant. A nil Tracker only removes elections.
func (t *Tracker) DropTenant(ctx context.Context, meta storage.Table, prefix string) error {
	if t != nil {
		t.mu.Lock()
		maps.DeleteFunc(t.clusters, func(k clusterKey, _ *cluster) bool { return k.tenant == prefix })
		delete(t.byTenant, prefix)
		t.mu.Unlock()
	}
	ended, err := lease.Holders(ctx, meta, clusterKey{tenant: prefix}.lease())
	if err != nil {
		return err
	}
	for _, h := range ended {
		if err := lease.Remove(ctx, meta, h.Name, math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// forEachIdle visits the idle replicas. The caller holds mu.
func (t *Tracker) forEachIdle(visit func(*cluster, *Replica)) {
	beforeMs := t.Now().Add(-IdleAfter).UnixMilli()
	for _, c := range t.clusters {
		c.mu.Lock()
		for _, r := range c.replicas {
			if r.seenMs < beforeMs && (r != c.elected || c.untilMs < beforeMs) {
				visit(c, r)
			}
		}
		c.mu.Unlock()
	}
}

// ClusterStatus describes the election of a cluster.
type ClusterStatus struct {
	// Tenant is "" for the default tenant.
	Tenant  string `json:"tenant,omitempty"`
	Cluster string `json:"cluster"`
	// Elected is the elected replica, "" if there is none.
	Elected string `json:"elected"`
	// ElectedTime is the time of the election, or of the server's start if that is later.
	ElectedTime time.Time `json:"electedTime"`
	// Elections counts the elections of this server since its start.
	Elections int             `json:"elections"`
	Replicas  []ReplicaStatus `json:"replicas"`
}

// ReplicaStatus describes a replica.
type ReplicaStatus struct {
	Replica string `json:"replica"`
	// LastTime is the time of its last request; zero if there was none.
	LastTime time.Time `json:"lastTime"`
}

// Status describes the clusters, sorted by tenant and name.
func (t *Tracker) Status() []ClusterStatus {
	out := []ClusterStatus{}
	if t == nil {
		return out
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.clusters {
		out = append(out, c.status())
	}
	slices.SortFunc(out, func(a, b ClusterStatus) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Cluster, b.Cluster))
	})
	return out
}

func (c *cluster) status() ClusterStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := ClusterStatus{Cluster: c.name, Elections: c.elections}
	if c.tenant != "" {
		s.Tenant = keyschema.TenantOf(c.tenant)
	}
	if c.elected != nil {
		s.Elected, s.ElectedTime = c.elected.name, time.UnixMilli(c.electedMs).UTC()
	}
	for _, r := range c.replicas {
		at := ReplicaStatus{Replica: r.name}
		if r.seenMs > 0 {
			at.LastTime = time.UnixMilli(r.seenMs).UTC()
		}
		s.Replicas = append(s.Replicas, at)
	}
	slices.SortFunc(s.Replicas, func(a, b ReplicaStatus) int { return strings.Compare(a.Replica, b.Replica) })
	return s
}
