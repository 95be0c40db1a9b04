package limits

// LimitCounts counts queries that reached a limit since the start.
type LimitCounts struct {
	Warnings uint64 `json:"warnings"`
	Refused  uint64 `json:"refused"`
	// DryRuns counts queries that the limit would have refused without its dry run.
	DryRuns uint64 `json:"dryRuns"`
}

// LimitStatus is a limit with its counts. Max 0 means that there is no limit.
type LimitStatus struct {
	Max    int64 `json:"max"`
	Warn   int64 `json:"warn"`
	DryRun bool  `json:"dryRun"`
	LimitCounts
}

// Status is the state of the global limits.
type Status struct {
	TimeMs      LimitStatus `json:"timeMs"`
	Bytes       LimitStatus `json:"bytes"`
	Concurrency LimitStatus `json:"concurrency"`
	// Running is the number of current queries.
	Running int64 `json:"running"`
}

// Status returns the state of the global limits.
func (c *Control) Status() Status {
	o := c.opts.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := func(kind string, l *Limit) LimitStatus {
		return LimitStatus{Max: l.Max, Warn: l.warnAt(), DryRun: l.DryRun, LimitCounts: *c.limits[kind]}
	}
	return Status{
		TimeMs: limit(kindTime, &o.TimeMs), Bytes: limit(kindBytes, &o.Bytes), Concurrency: limit(kindConcurrency, &o.Concurrency),
		Running: c.running.Load(),
	}
}

// TenantStatus is the state of the limits of a tenant.
type TenantStatus struct {
	TimeMs      TenantLimit `json:"timeMs"`
	Bytes       TenantLimit `json:"bytes"`
	Concurrency TenantLimit `json:"concurrency"`
	// Running is the number of current queries.
	Running int64 `json:"running"`
}

// TenantLimit is a limit of a tenant. Max 0 means that there is no limit.
type TenantLimit struct {
	Max    int64 `json:"max"`
	Warn   int64 `json:"warn"`
	DryRun bool  `json:"dryRun"`
}

// TenantStatus returns the state of the limits of a tenant.
func (c *Control) TenantStatus(tenant string) (status TenantStatus) {
	c.mu.Lock()
	status.Running = c.tenants[tenant]
	c.mu.Unlock()
	if o := c.opts.Load().forTenant(tenant); o != nil {
		limit := func(l *Limit) TenantLimit { return TenantLimit{l.Max, l.warnAt(), l.DryRun} }
		status.TimeMs, status.Bytes, status.Concurrency = limit(&o.TimeMs), limit(&o.Bytes), limit(&o.Concurrency)
	}
	return status
}

// RuleStatus is a rule with its counts since the start.
type RuleStatus struct {
	ID          string `json:"id"`
	Query       string `json:"query,omitempty"`
	Regexp      string `json:"regexp,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Token       string `json:"token,omitempty"`
	Action      Action `json:"action"`
	Reason      string `json:"reason"`
	// Source is the origin of the rule: SourceConfig or SourceAPI.
	Source  string `json:"source"`
	Matches uint64 `json:"matches"`
	// Waiting counts the queries that wait for the slow lane because of the rule. Running counts the queries in it.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
}

// Values of RuleStatus.Source.
const (
	SourceConfig = "config" // the configuration file
	SourceAPI    = "api"    // AddRule; the rule ends with the process
)

// Rules returns the rules in the order in which they are tried.
func (c *Control) Rules() []RuleStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	added, rules := *c.added.Load(), c.opts.Load().Rules
	out := make([]RuleStatus, 0, len(added)+len(rules))
	for i := range added {
		out = append(out, c.statusOf(&added[i], SourceAPI))
	}
	for i := range rules {
		out = append(out, c.statusOf(&rules[i], SourceConfig))
	}
	return out
}

// statusOf returns the state of a rule. The caller holds mu.
func (c *Control) statusOf(r *Rule, source string) RuleStatus {
	s := RuleStatus{
		ID: r.ID, Query: r.Text, Fingerprint: r.Fingerprint, Token: r.Token, Action: r.Action, Reason: r.Reason, Source: source,
	}
	if r.Regexp != nil {
		s.Regexp = r.Regexp.String()
	}
	if n := c.rules[r.ID]; n != nil {
		s.Matches, s.Waiting, s.Running = n.matches, n.waiting, n.running
	}
	return s
}
