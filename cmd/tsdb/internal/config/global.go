package config

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Global are defaults of rule groups, and labels of alerts. It has the fields of Prometheus.
type Global struct {
	// EvaluationInterval is 1 min if it is nil.
	EvaluationInterval *Duration `yaml:"evaluation_interval,omitempty"`
	// RuleQueryOffset is 0 if it is nil.
	RuleQueryOffset *Duration         `yaml:"rule_query_offset,omitempty"`
	ExternalLabels  map[string]string `yaml:"external_labels,omitempty"`
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
	return labels.FromMap(g.ExternalLabels)
}

func (g *Global) validate(fault func(field, format string, args ...any)) {
	if g.EvaluationInterval != nil && *g.EvaluationInterval <= 0 {
		fault("global.evaluation_interval", "it must be above 0")
	}
	for name, value := range g.ExternalLabels {
		switch {
		case !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel:
			fault("global.external_labels."+shortened(name), "%q is not a label name", shortened(name))
		case !model.LabelValue(value).IsValid():
			fault("global.external_labels."+shortened(name), "the value is not UTF-8")
		}
	}
}
