package config

import (
	"fmt"
	"slices"
	"strings"

	"halite/ingest"
	"halite/ingest/tenantlimits"
	"halite/keyschema"
	"halite/query/limits"
)

// Tenant holds the limits of one tenant. The limits of the server apply as well. The name "*" stands for each tenant without an
// entry.
type Tenant struct {
	Name             string      `yaml:"name"`
	SamplesPerSecond *Limit      `yaml:"samples_per_second,omitempty"`
	Series           *Limit      `yaml:"series,omitempty"`
	QueryTime        *TimeLimit  `yaml:"query_time,omitempty"`
	QueryBytes       *BytesLimit `yaml:"query_bytes,omitempty"`
	QueryConcurrency *Limit      `yaml:"query_concurrency,omitempty"`
	// SeriesPerMetric and Retention are rules of the tenant's metrics. The default tenant and the name "*" have none.
	SeriesPerMetric []MetricLimit    `yaml:"series_per_metric,omitempty"`
	Retention       *TenantRetention `yaml:"retention,omitempty"`
}

// TenantRetention is the retention of all metrics of a tenant. A tier that is nil has the retention of other rules or of the
// flags.
type TenantRetention struct {
	Raw        *keyschema.Age `yaml:"raw,omitempty"`
	Hours      *keyschema.Age `yaml:"hours,omitempty"`
	Days       *keyschema.Age `yaml:"days,omitempty"`
	Histograms *keyschema.Age `yaml:"histograms,omitempty"`
}

// retentionRule returns the retention of a tenant as a rule, or nil if the tenant has none.
func (t *Tenant) retentionRule() *RetentionRule {
	if r := t.Retention; r != nil {
		return &RetentionRule{
			Pattern: keyschema.TenantPrefix(t.Name) + "*", Raw: r.Raw, Hours: r.Hours, Days: r.Days, Histograms: r.Histograms,
		}
	}
	return nil
}

// rules returns the rules of the tenant's metrics.
func (t *Tenant) rules() (out []keyschema.Rule) {
	if r := t.retentionRule(); r != nil {
		out = append(out, r.rule())
	}
	for _, m := range t.SeriesPerMetric {
		m.Pattern = keyschema.TenantPrefix(t.Name) + m.Pattern
		out = append(out, m.rule())
	}
	return out
}

// validateRules reports the faults of the rules of the tenant's metrics. general are the rules of the whole file.
func (t *Tenant) validateRules(field string, general *Config, fault func(field, format string, args ...any)) {
	named := t.Name != tenantlimits.Each && t.Name != keyschema.DefaultTenant
	if r := t.retentionRule(); r != nil && !named {
		fault(field+".retention", "%q cannot have rules of its own; retention_rules are for all tenants", t.Name)
	} else if r != nil {
		r.validate(field+".retention", general.RetentionRules, fault)
	}
	if len(t.SeriesPerMetric) > 0 && !named {
		fault(field+".series_per_metric", "%q cannot have rules of its own; limits.series_per_metric is for all tenants", t.Name)
		return
	}
	before := slices.Clone(general.Limits.SeriesPerMetric)
	for i := range before {
		before[i].Pattern = strings.TrimPrefix(before[i].Pattern, keyschema.TenantPrefix(t.Name))
		if before[i].Pattern == general.Limits.SeriesPerMetric[i].Pattern {
			before[i].Pattern = "" // it is for others
		}
	}
	for i := range t.SeriesPerMetric {
		m, at := t.SeriesPerMetric[i], fmt.Sprintf("%s.series_per_metric[%d]", field, i)
		m.validate(at, before, fault)
		if strings.HasPrefix(m.Pattern, string(keyschema.TenantMark)) {
			fault(at+".pattern", "%q begins with the name of a tenant; leave that out", m.Pattern)
		}
		before = append(before, m)
	}
}

// tenantsMax bounds the entries, because each entry is compared with all entries before it.
const tenantsMax = 10_000

// validate reports the faults of an entry that follows others.
func (t *Tenant) validate(
	field string, before map[string]bool, general *Config, fault func(field, format string, args ...any),
) {
	switch err := keyschema.CheckTenant(t.Name); {
	case len(before) == tenantsMax:
		fault(field, "there are more than %d tenants", tenantsMax)
	case t.Name != tenantlimits.Each && err != nil:
		fault(field+".name", "%w; * stands for all other tenants", err)
	case before[t.Name]:
		fault(field+".name", "%q has two entries", t.Name)
	}
	before[t.Name] = true
	t.validateRules(field, general, fault)
	t.limits().check(field, fault)
}

func (t *Tenant) limits() *Limits {
	return &Limits{
		SamplesPerSecond: t.SamplesPerSecond, Series: t.Series, QueryTime: t.QueryTime, QueryBytes: t.QueryBytes,
		QueryConcurrency: t.QueryConcurrency,
	}
}

// validateTenants reports the faults of all entries.
func (c *Config) validateTenants(fault func(field, format string, args ...any)) {
	before := map[string]bool{}
	for i := range c.Tenants {
		c.Tenants[i].validate(fmt.Sprintf("tenants[%d]", i), before, c, fault)
	}
}

// TenantWrites returns the limits for writes of tenants, by their names.
func (c *Config) TenantWrites() map[string]ingest.TenantLimits {
	out := make(map[string]ingest.TenantLimits, len(c.Tenants))
	for i := range c.Tenants {
		var l ingest.TenantLimits
		if rate := c.Tenants[i].SamplesPerSecond.ingestLimit(); rate != nil {
			l.SamplesPerSecond = *rate
		}
		if series := c.Tenants[i].Series.ingestLimit(); series != nil {
			l.Series = *series
		}
		out[c.Tenants[i].Name] = l
	}
	return out
}

// tenantQueries returns the limits for queries of tenants, by their names.
func (c *Config) tenantQueries() map[string]*limits.Options {
	out := make(map[string]*limits.Options, len(c.Tenants))
	for i := range c.Tenants {
		out[c.Tenants[i].Name] = c.Tenants[i].limits().queries()
	}
	return out
}
