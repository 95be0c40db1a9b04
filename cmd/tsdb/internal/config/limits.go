package config

import (
	"fmt"

	"halite/keyschema"
)

// Limits bound what senders and queries may use.
type Limits struct {
	SeriesPerMetric []MetricLimit `yaml:"series_per_metric,omitempty"`
}

// MetricLimit bounds the active series of each metric that a pattern matches.
type MetricLimit struct {
	Pattern string `yaml:"pattern"`
	// Max is required; 0 means no limit.
	Max *int `yaml:"max"`
	// Warn is the number from which the server warns, or a share of Max if it is not above 1. 0 means the default.
	Warn float64 `yaml:"warn,omitempty"`
	// Enforce is true if it is nil; false counts what would be refused.
	Enforce *bool `yaml:"enforce,omitempty"`
}

func (l *MetricLimit) rule() keyschema.Rule {
	return keyschema.Rule{Pattern: l.Pattern, MaxSeries: l.Max, MaxSeriesWarn: l.Warn, MaxSeriesDryRun: !enforced(l.Enforce)}
}

// enforced is the value of a field enforce.
func enforced(v *bool) bool { return v == nil || *v }

func (l *Limits) validate(fault func(field, format string, args ...any)) {
	for i := range l.SeriesPerMetric {
		m, field := &l.SeriesPerMetric[i], fmt.Sprintf("limits.series_per_metric[%d]", i)
		checkPattern(field, m.Pattern, fault)
		for j := range l.SeriesPerMetric[:i] {
			if l.SeriesPerMetric[j].Pattern == m.Pattern {
				fault(field+".pattern", "%q has two limits", m.Pattern)
			}
		}
		switch {
		case m.Max == nil:
			fault(field, "max is missing; 0 means no limit")
		case *m.Max < 0:
			fault(field+".max", "%d is negative; 0 means no limit", *m.Max)
		}
		checkWarn(field, m.Warn, fault)
	}
}

func checkWarn(field string, warn float64, fault func(field, format string, args ...any)) {
	if warn < 0 {
		fault(field+".warn", "%g is negative", warn)
	}
}
