package config

import (
	"os"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Global are defaults of rule groups, and labels of alerts. It has the fields of Prometheus.
type Global struct {
	// EvaluationInterval is 1 min if it is nil.
	EvaluationInterval *Duration `yaml:"evaluation_interval,omitempty"`
	// RuleQueryOffset is 0 if it is nil.
	RuleQueryOffset *Duration `yaml:"rule_query_offset,omitempty"`
	// ScrapeInterval is the interval of the senders. Only tools that read the configuration use it, such as pint.
	ScrapeInterval *Duration         `yaml:"scrape_interval,omitempty"`
	ExternalLabels map[string]string `yaml:"external_labels,omitempty"`
}

// evaluationIntervalDefault is Prometheus's.
const evaluationIntervalDefault = time.Minute

// Interval returns the time between two evaluations of rules.
func (g *Global) Interval() time.Duration {
	if g == nil || g.EvaluationInterval == nil {
		return evaluationIntervalDefault
	}
	return time.Duration(*g.EvaluationInterval)
}

// QueryOffset returns how far in the past rules are evaluated.
func (g *Global) QueryOffset() time.Duration {
	if g == nil || g.RuleQueryOffset == nil {
		return 0
	}
	return time.Duration(*g.RuleQueryOffset)
}

// labels returns the external labels.
func (g *Global) labels() labels.Labels {
	if g == nil {
		return labels.EmptyLabels()
	}
	expanded := make(map[string]string, len(g.ExternalLabels))
	for name, value := range g.ExternalLabels {
		expanded[name], _ = expand(value)
	}
	return labels.FromMap(expanded)
}

// expand replaces $NAME and ${NAME} by environment variables and $$ by $, as Prometheus does in external labels. unset is the
// name of a variable that is not set.
func expand(value string) (expanded, unset string) {
	expanded = os.Expand(value, func(name string) string {
		if name == "$" {
			return name
		}
		found, ok := os.LookupEnv(name)
		if !ok {
			unset = name
		}
		return found
	})
	return expanded, unset
}

func (g *Global) validate(fault func(field, format string, args ...any)) {
	if g.EvaluationInterval != nil && *g.EvaluationInterval <= 0 {
		fault("global.evaluation_interval", "it must be above 0")
	}
	if g.ScrapeInterval != nil && *g.ScrapeInterval <= 0 {
		fault("global.scrape_interval", "it must be above 0")
	}
	for name, value := range g.ExternalLabels {
		expanded, unset := expand(value)
		switch {
		case !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel:
			fault("global.external_labels."+shortened(name), "%q is not a label name", shortened(name))
		case unset != "":
			fault("global.external_labels."+shortened(name), "environment variable %q is not set; write $$ for a dollar", shortened(unset))
		case !model.LabelValue(expanded).IsValid():
			fault("global.external_labels."+shortened(name), "the value is not UTF-8")
		}
	}
}
