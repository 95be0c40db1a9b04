package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"halite/ingest"
	"halite/keyschema"
	"halite/query/limits"
)

// Limits bound what senders and queries may use.
type Limits struct {
	SamplesPerSecond *Limit `yaml:"samples_per_second,omitempty"`
	// Series replaces the limit of the flags --ingest.max-series…
	Series          *Limit        `yaml:"series,omitempty"`
	SeriesPerMetric []MetricLimit `yaml:"series_per_metric,omitempty"`
	QueryTime       *TimeLimit    `yaml:"query_time,omitempty"`
	QueryBytes      *BytesLimit   `yaml:"query_bytes,omitempty"`
	// QueryConcurrency bounds the queries that run or wait.
	QueryConcurrency *Limit `yaml:"query_concurrency,omitempty"`
}

// Limit is a limit of a number. Max is required. The other fields are as in MetricLimit.
type Limit struct {
	Max     *int64  `yaml:"max"`
	Warn    float64 `yaml:"warn,omitempty"`
	Enforce *bool   `yaml:"enforce,omitempty"`
}

// TimeLimit is a limit of time.
type TimeLimit struct {
	Max     *Duration `yaml:"max"`
	Warn    float64   `yaml:"warn,omitempty"`
	Enforce *bool     `yaml:"enforce,omitempty"`
}

// BytesLimit is a limit of memory.
type BytesLimit struct {
	Max     *Bytes  `yaml:"max"`
	Warn    float64 `yaml:"warn,omitempty"`
	Enforce *bool   `yaml:"enforce,omitempty"`
}

// Bytes is a size; its units are powers of two.
type Bytes int64

// MarshalText returns a text like 64MiB.
func (b Bytes) MarshalText() ([]byte, error) {
	for _, u := range byteUnits {
		if b != 0 && int64(b)%u.size == 0 {
			return []byte(strconv.FormatInt(int64(b)/u.size, 10) + u.name), nil
		}
	}
	return []byte(strconv.FormatInt(int64(b), 10)), nil
}

// byteUnits are the units of sizes, the largest first.
var byteUnits = [...]struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// UnmarshalText accepts a number of bytes, and a number with a unit like 64MiB or 64MB.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range byteUnits {
		for _, name := range []string{u.name, u.name[:1] + "B"} {
			if rest, ok := strings.CutSuffix(number, name); ok {
				number, unit = rest, u.size
			}
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < 0 {
		return fmt.Errorf("%q is not a size such as 64MiB", shortened(string(text)))
	}
	*b = Bytes(n * unit)
	return nil
}

// MetricLimit bounds the active series of each metric that a pattern matches.
type MetricLimit struct {
	Pattern string `yaml:"pattern"`
	// Max is required; 0 means no limit.
	Max *int `yaml:"max"`
	// Warn is the number from which the server warns, or a share of Max if it is not above 1. 0 means the default.
	Warn float64 `yaml:"warn,omitempty"`
	// Enforce is true if it is nil. If it is false, the server accepts and counts series beyond the limit.
	Enforce *bool `yaml:"enforce,omitempty"`
}

func (l *MetricLimit) rule() keyschema.Rule {
	return keyschema.Rule{Pattern: l.Pattern, MaxSeries: l.Max, MaxSeriesWarn: l.Warn, MaxSeriesDryRun: !enforced(l.Enforce)}
}

// enforced returns the value of a field enforce, true if it is nil.
func enforced(v *bool) bool { return v == nil || *v }

// check reports the faults of a limit. most is nil if the field max is missing.
func check[T int | int64 | Duration | Bytes](field string, most *T, warn float64, fault func(field, format string, args ...any)) {
	switch {
	case most == nil:
		fault(field, "max is missing; 0 means no limit")
	case *most < 0:
		fault(field+".max", "%v is negative; 0 means no limit", *most)
	}
	if warn < 0 {
		fault(field+".warn", "%g is negative", warn)
	}
}

// check reports the faults of the limits in a section, without the limits of metrics.
func (l *Limits) check(section string, fault func(field, format string, args ...any)) {
	for field, limit := range map[string]*Limit{
		"samples_per_second": l.SamplesPerSecond, "series": l.Series, "query_concurrency": l.QueryConcurrency,
	} {
		if limit != nil {
			check(section+"."+field, limit.Max, limit.Warn, fault)
		}
	}
	if l.QueryTime != nil {
		check(section+".query_time", l.QueryTime.Max, l.QueryTime.Warn, fault)
	}
	if l.QueryBytes != nil {
		check(section+".query_bytes", l.QueryBytes.Max, l.QueryBytes.Warn, fault)
	}
}

func (l *Limits) validate(fault func(field, format string, args ...any)) {
	l.check("limits", fault)
	for i := range l.SeriesPerMetric {
		l.SeriesPerMetric[i].validate(fmt.Sprintf("limits.series_per_metric[%d]", i), l.SeriesPerMetric[:i], fault)
	}
}

// validate reports the faults of a limit that follows others.
func (l *MetricLimit) validate(field string, before []MetricLimit, fault func(field, format string, args ...any)) {
	checkPattern(field, l.Pattern, fault)
	for i := range before {
		if before[i].Pattern == l.Pattern {
			fault(field+".pattern", "%q has two limits", l.Pattern)
		}
	}
	check(field, l.Max, l.Warn, fault)
}

// ingestLimit returns the limit in the form of the ingester; nil if there is none.
func (l *Limit) ingestLimit() *ingest.Limit {
	if l == nil {
		return nil
	}
	return &ingest.Limit{Max: *l.Max, Warn: l.Warn, DryRun: !enforced(l.Enforce)}
}

// SamplesPerSecond returns the limit of the rate of samples. Its zero value means none.
func (c *Config) SamplesPerSecond() (limit ingest.Limit) {
	if l := c.Limits.SamplesPerSecond.ingestLimit(); l != nil {
		limit = *l
	}
	return limit
}

// Series returns the limit of active series; nil leaves it to the flags.
func (c *Config) Series() *ingest.Limit { return c.Limits.Series.ingestLimit() }

// Queries returns the limits and rules of queries.
func (c *Config) Queries() limits.Options {
	out := c.Limits.queries()
	out.Rules, out.Tenants = c.queryRules(), c.tenantQueries()
	return *out
}

// queries returns the limits in the form of the engine.
func (all *Limits) queries() *limits.Options {
	out := &limits.Options{}
	if l := all.QueryTime; l != nil {
		ms := float64(time.Millisecond)
		warn := l.Warn // a share, or seconds
		if warn > 1 {
			warn *= float64(time.Second) / ms
		}
		out.TimeMs = limits.Limit{Max: time.Duration(*l.Max).Milliseconds(), Warn: warn, DryRun: !enforced(l.Enforce)}
	}
	if l := all.QueryBytes; l != nil {
		out.Bytes = limits.Limit{Max: int64(*l.Max), Warn: l.Warn, DryRun: !enforced(l.Enforce)}
	}
	if l := all.QueryConcurrency; l != nil {
		out.Concurrency = limits.Limit{Max: *l.Max, Warn: l.Warn, DryRun: !enforced(l.Enforce)}
	}
	return out
}
