package config

import (
	"fmt"

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
}

// tenantsMax bounds the entries, because each entry is compared with all entries before it.
const tenantsMax = 10_000

// validate reports the faults of an entry that follows others.
func (t *Tenant) validate(field string, before map[string]bool, fault func(field, format string, args ...any)) {
	switch err := keyschema.CheckTenant(t.Name); {
	case len(before) == tenantsMax:
		fault(field, "there are more than %d tenants", tenantsMax)
	case t.Name != tenantlimits.Each && err != nil:
		fault(field+".name", "%w; * stands for all other tenants", err)
	case before[t.Name]:
		fault(field+".name", "%q has two entries", t.Name)
	}
	before[t.Name] = true
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
		c.Tenants[i].validate(fmt.Sprintf("tenants[%d]", i), before, fault)
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
