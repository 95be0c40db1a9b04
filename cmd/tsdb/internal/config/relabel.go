package config

import (
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
)

// RelabelConfig is a relabelling rule with the fields and defaults of Prometheus.
type RelabelConfig struct {
	SourceLabels []string `yaml:"source_labels,omitempty,flow"`
	Separator    *string  `yaml:"separator,omitempty"`
	Regex        *string  `yaml:"regex,omitempty"`
	Modulus      int64    `yaml:"modulus,omitempty"`
	TargetLabel  string   `yaml:"target_label,omitempty"`
	Replacement  *string  `yaml:"replacement,omitempty"`
	Action       string   `yaml:"action,omitempty"`
}

// rule returns the rule in the form of Prometheus. The error says what is wrong with the regular expression.
func (r *RelabelConfig) rule() (*relabel.Config, error) {
	out := relabel.DefaultRelabelConfig
	for _, name := range r.SourceLabels {
		out.SourceLabels = append(out.SourceLabels, model.LabelName(name))
	}
	if r.Separator != nil {
		out.Separator = *r.Separator
	}
	if r.Replacement != nil {
		out.Replacement = *r.Replacement
	}
	if r.Action != "" {
		out.Action = relabel.Action(strings.ToLower(r.Action))
	}
	out.Modulus, out.TargetLabel, out.NameValidationScheme = uint64(max(0, r.Modulus)), r.TargetLabel, model.UTF8Validation
	if r.Regex == nil {
		return &out, nil
	}
	var err error
	out.Regex, err = relabel.NewRegexp(*r.Regex)
	return &out, err
}

// validate reports the faults of a rule.
func (r *RelabelConfig) validate(field string, fault func(field, format string, args ...any)) {
	for _, name := range r.SourceLabels {
		if name == "" || !utf8.ValidString(name) {
			fault(field+".source_labels", "%q is not a label name", name)
		}
	}
	if r.Modulus < 0 {
		fault(field+".modulus", "%d is negative", r.Modulus)
		return
	}
	rule, err := r.rule()
	if err != nil {
		fault(field+".regex", "%w", err)
		return
	}
	var action relabel.Action
	if err := action.UnmarshalYAML(func(v any) error { *v.(*string) = string(rule.Action); return nil }); err != nil {
		fault(field+".action", "%w", err)
		return
	}
	if err := rule.Validate(model.UTF8Validation); err != nil {
		fault(field, "%w", err)
	}
}

// relabelling returns rules in the form of Prometheus.
func relabelling(configs []RelabelConfig) (out []*relabel.Config) {
	for i := range configs {
		rule, err := configs[i].rule()
		if err != nil {
			continue // Parse has refused it
		}
		out = append(out, rule)
	}
	return out
}
