package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"halite/storage/principal"
)

// Limit is a limit of queries.
type Limit struct {
	// Max is the limit; 0 means no limit.
	Max int64
	// Warn is the value at which a query counts as a warning. A value up to 1 is a share of Max; 0 means WarnDefault.
	Warn float64
	// DryRun counts queries beyond Max but refuses none.
	DryRun bool
}

// WarnDefault is the default share of a limit at which a query counts as a warning.
const WarnDefault = 0.8

func (l *Limit) warnAt() int64 {
	warn := cmp.Or(l.Warn, WarnDefault)
	if warn <= 1 {
		warn = math.Ceil(warn * float64(l.Max))
	}
	return int64(min(warn, float64(l.Max)))
}

// enforced returns Max, or 0 in a dry run.
func (l *Limit) enforced() int64 {
	if l.DryRun {
		return 0
	}
	return l.Max
}

// Options are the limits and rules of queries. The zero value bounds nothing.
type Options struct {
	// TimeMs is the duration of a query in milliseconds, including its waits.
	TimeMs Limit
	// Bytes is the memory of a query.
	Bytes Limit
	// Concurrency is the number of running and waiting queries.
	Concurrency Limit
	// Tenants holds additional limits by tenant. EachTenant is the entry of tenants without their own entry. Only TimeMs, Bytes
	// and Concurrency of an entry are used.
	Tenants map[string]*Options
	// Rules are tried in order; the first matching rule decides.
	Rules []Rule
	// AddedRulesMax bounds the rules of [Control.AddRule], because a query may have to try all of them. Default 100.
	AddedRulesMax int
	// AddedRuleBytesMax bounds the strings of one added rule. Default 16 KiB.
	AddedRuleBytesMax int
}

// RefusedError says that a rule refuses a query.
type RefusedError struct{ ID, Reason string }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the query is refused by the query rule %q: %s", e.ID, e.Reason)
}

// EachTenant is the entry of all tenants without their own limits. No tenant has this name.
const EachTenant = "*"

// ErrConcurrency means that the limit of concurrent queries is reached. ErrSlowLane means that the slow lane did not become free
// in time.
var (
	ErrConcurrency = errors.New("the limit of concurrent queries is reached (limits.query_concurrency)")
	ErrSlowLane    = errors.New("the slow lane did not become free in time")
)

// Kinds of limits. They are values of the metric label "limit".
const (
	kindTime        = "time"
	kindBytes       = "bytes"
	kindConcurrency = "concurrency"
)

// Control applies limits and rules. It is safe for concurrent use.
type Control struct {
	opts    atomic.Pointer[Options]
	running atomic.Int64
	lane    chan struct{} // holds a value while a query is in the slow lane

	warnings, dryRuns, refused *prometheus.CounterVec
	matched                    *prometheus.CounterVec

	mu     sync.Mutex
	limits map[string]*LimitCounts
	// tenants counts the current queries of each tenant.
	tenants map[string]int64
	rules   map[string]*ruleCounts
	// added are the rules of AddRule. Match reads them without mu.
	added     atomic.Pointer[[]Rule]
	lastAdded int // number in the id of the newest added rule
}

// ruleCounts counts queries of a rule since the start.
type ruleCounts struct {
	matches          uint64
	waiting, running int
}

// New returns a Control that bounds nothing yet. reg may be nil.
func New(reg prometheus.Registerer) *Control {
	f := promauto.With(reg)
	counter := func(name, help, label string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "tsdb_query_" + name, Help: help}, []string{label})
	}
	c := &Control{
		lane:     make(chan struct{}, 1),
		warnings: counter("limit_warnings_total", "Queries that reached the warning of a limit, by limit.", "limit"),
		dryRuns:  counter("limit_dry_run_total", "Queries beyond a limit with a dry run, by limit.", "limit"),
		refused:  counter("limit_refused_total", "Queries that a limit refused or ended, by limit.", "limit"),
		matched:  counter("rule_matches_total", "Queries that a query rule matched, by rule.", "rule"),
		limits:   map[string]*LimitCounts{}, rules: map[string]*ruleCounts{}, tenants: map[string]int64{},
	}
	for _, kind := range []string{kindTime, kindBytes, kindConcurrency} {
		c.limits[kind] = &LimitCounts{}
		for _, v := range []*prometheus.CounterVec{c.warnings, c.dryRuns, c.refused} {
			v.WithLabelValues(kind)
		}
	}
	c.added.Store(&[]Rule{})
	c.Set(Options{})
	return c
}

// Set replaces limits and rules. Running queries keep the previous ones. Rules keep their counts by id. The rules of AddRule
// remain.
func (c *Control) Set(o Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Store(&o)
	c.keepCounts()
}

// keepCounts adds counts for new rules and drops the counts of removed rules. The caller holds mu.
func (c *Control) keepCounts() {
	previous := c.rules
	c.rules = make(map[string]*ruleCounts)
	for _, rules := range [][]Rule{*c.added.Load(), c.opts.Load().Rules} {
		for i := range rules {
			id := rules[i].ID
			if c.rules[id] == nil {
				c.rules[id] = cmp.Or(previous[id], &ruleCounts{})
			}
			c.matched.WithLabelValues(id)
		}
	}
	for id := range previous {
		if c.rules[id] == nil {
			c.matched.DeleteLabelValues(id)
		}
	}
}

// forTenant returns the limits of a tenant; nil if it has none.
func (o *Options) forTenant(tenant string) *Options {
	if l := o.Tenants[tenant]; l != nil {
		return l
	}
	return o.Tenants[EachTenant]
}

// appendLimits appends the limits that apply to the principal in ctx: the global limits, and the limits of each of its tenants.
func (c *Control) appendLimits(ctx context.Context, out []*Options) []*Options {
	o := c.opts.Load()
	out = append(out, o)
	if who := principal.From(ctx); who != nil && len(o.Tenants) > 0 {
		for _, tenant := range who.Tenants {
			if l := o.forTenant(tenant); l != nil {
				out = append(out, l)
			}
		}
	}
	return out
}

// Match returns the rule that applies to a query; nil if there is none. The error is a *RefusedError if the rule refuses it.
// fingerprint is called at most once.
func (c *Control) Match(ctx context.Context, text string, fingerprint func() string) (*Rule, error) {
	added, rules := *c.added.Load(), c.opts.Load().Rules
	if len(added) == 0 && len(rules) == 0 {
		return nil, nil
	}
	text, once, who := strings.TrimSpace(text), sync.OnceValue(fingerprint), principal.From(ctx)
	r := firstMatch(added, who, text, once)
	if r == nil {
		r = firstMatch(rules, who, text, once)
	}
	if r == nil {
		return nil, nil
	}
	c.matched.WithLabelValues(r.ID).Inc()
	c.count(r, func(n *ruleCounts) { n.matches++ })
	if r.Action == Refuse {
		return nil, &RefusedError{ID: r.ID, Reason: r.Reason}
	}
	return r, nil
}

// firstMatch returns the first rule that matches, or nil.
func firstMatch(rules []Rule, who *principal.Principal, text string, fingerprint func() string) *Rule {
	for i := range rules {
		if r := &rules[i]; r.matches(who, text, fingerprint) {
			return r
		}
	}
	return nil
}

// count changes the counts of a rule, unless the rule was removed.
func (c *Control) count(r *Rule, change func(n *ruleCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.rules[r.ID]; n != nil {
		change(n)
	}
}

// Enter admits a query. A rule r from Match sends it through the slow lane; r may be nil. The caller calls leave when the query
// ends. The error is ErrSlowLane if the lane is busy for longer than wait, ErrConcurrency, or the error of ctx.
func (c *Control) Enter(ctx context.Context, r *Rule, wait time.Duration) (leave func(), err error) {
	leaveLane := func() {}
	if r != nil {
		if leaveLane, err = c.enterLane(ctx, r, wait); err != nil {
			return nil, err
		}
	}
	leaveRunning, err := c.enterRunning(principal.From(ctx))
	if err != nil {
		leaveLane()
		return nil, err
	}
	return func() {
		leaveRunning()
		leaveLane()
	}, nil
}

// enterRunning counts a query, and checks the limits of concurrent queries.
func (c *Control) enterRunning(who *principal.Principal) (leave func(), err error) {
	o, now := c.opts.Load(), c.running.Add(1)
	if err := c.checkRunning(&o.Concurrency, now); err != nil {
		c.running.Add(-1)
		return nil, err
	}
	leaveTenants, err := c.enterTenants(o, who)
	if err != nil {
		c.running.Add(-1)
		return nil, err
	}
	return func() {
		c.running.Add(-1)
		leaveTenants()
	}, nil
}

// checkRunning returns an error if a limit of concurrent queries refuses one more. now is the number of current queries,
// including this one.
func (c *Control) checkRunning(limit *Limit, now int64) error {
	if limit.Max == 0 {
		return nil
	}
	if now >= limit.warnAt() {
		c.event(kindConcurrency, c.warnings)
	}
	switch {
	case now <= limit.Max:
		return nil
	case limit.DryRun:
		c.event(kindConcurrency, c.dryRuns)
		return nil
	}
	c.event(kindConcurrency, c.refused)
	return fmt.Errorf("%w: %d", ErrConcurrency, limit.Max)
}

// enterTenants counts a query for each tenant of a principal, and checks their limits.
func (c *Control) enterTenants(o *Options, who *principal.Principal) (leave func(), err error) {
	if who == nil || len(who.Tenants) == 0 {
		return func() {}, nil
	}
	add := func(tenants []string, n int64) (now []int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, tenant := range tenants {
			if c.tenants[tenant] += n; c.tenants[tenant] == 0 {
				delete(c.tenants, tenant)
			}
			now = append(now, c.tenants[tenant])
		}
		return now
	}
	for i, now := range add(who.Tenants, 1) {
		l := o.forTenant(who.Tenants[i])
		if l == nil {
			continue
		}
		if err := c.checkRunning(&l.Concurrency, now); err != nil {
			add(who.Tenants, -1)
			return nil, fmt.Errorf("tenant %s: %w", who.Tenants[i], err)
		}
	}
	return func() { add(who.Tenants, -1) }, nil
}

// enterLane waits for the slow lane.
func (c *Control) enterLane(ctx context.Context, r *Rule, wait time.Duration) (leave func(), err error) {
	c.count(r, func(n *ruleCounts) { n.waiting++ })
	defer c.count(r, func(n *ruleCounts) { n.waiting-- })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case c.lane <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, fmt.Errorf("%w: the query rule %q sends this query there: %s", ErrSlowLane, r.ID, r.Reason)
	}
	c.count(r, func(n *ruleCounts) { n.running++ })
	return func() {
		c.count(r, func(n *ruleCounts) { n.running-- })
		<-c.lane
	}, nil
}

// Timeout returns the shortest of d and the time limits of the principal in ctx.
func (c *Control) Timeout(ctx context.Context, d time.Duration) time.Duration {
	var some [4]*Options // keeps the list off the heap if there are few tenants
	for _, o := range c.appendLimits(ctx, some[:0]) {
		if most := o.TimeMs.enforced(); most > 0 {
			d = min(d, time.Duration(most)*time.Millisecond)
		}
	}
	return d
}

// BytesMax returns the smallest memory limit of the principal in ctx, or 0 if there is none.
func (c *Control) BytesMax(ctx context.Context) (least int64) {
	var some [4]*Options // keeps the list off the heap if there are few tenants
	for _, o := range c.appendLimits(ctx, some[:0]) {
		if most := o.Bytes.enforced(); most > 0 && (least == 0 || most < least) {
			least = most
		}
	}
	return least
}

// Usage is what a finished query used.
type Usage struct {
	Took      time.Duration
	PeakBytes int64
	// TimedOut says that a time limit ended the query. ExceededBytes is the memory limit that it exceeded, 0 if none.
	TimedOut      bool
	ExceededBytes int64
}

// Ended counts the usage of a query by the principal in ctx.
func (c *Control) Ended(ctx context.Context, u Usage) {
	var some [4]*Options // keeps the list off the heap if there are few tenants
	for _, o := range c.appendLimits(ctx, some[:0]) {
		c.use(kindTime, &o.TimeMs, u.Took.Milliseconds(), u.TimedOut && u.Took.Milliseconds() >= o.TimeMs.Max)
		c.use(kindBytes, &o.Bytes, u.PeakBytes, u.ExceededBytes > 0 && u.ExceededBytes == o.Bytes.Max)
	}
}

// use counts a query's use of a limit.
func (c *Control) use(kind string, l *Limit, used int64, failed bool) {
	if l.Max == 0 {
		return
	}
	if used >= l.warnAt() || failed {
		c.event(kind, c.warnings)
	}
	switch {
	case l.DryRun && used > l.Max:
		c.event(kind, c.dryRuns)
	case !l.DryRun && failed:
		c.event(kind, c.refused)
	}
}

// event increments v and the status count of a kind of limit.
func (c *Control) event(kind string, v *prometheus.CounterVec) {
	v.WithLabelValues(kind).Inc()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.limits[kind]
	switch v {
	case c.warnings:
		n.Warnings++
	case c.dryRuns:
		n.DryRuns++
	case c.refused:
		n.Refused++
	}
}
