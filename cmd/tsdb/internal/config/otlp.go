package config

import (
	"slices"

	"github.com/prometheus/otlptranslator"
	promconfig "github.com/prometheus/prometheus/config"
	"go.yaml.in/yaml/v3"
)

// OTLP holds the options of the translation of OTLP. All but Delta and AttributesMax have Prometheus's names and defaults.
type OTLP struct {
	PromoteAllResourceAttributes         bool     `yaml:"promote_all_resource_attributes,omitempty"`
	PromoteResourceAttributes            []string `yaml:"promote_resource_attributes,omitempty,flow"`
	IgnoreResourceAttributes             []string `yaml:"ignore_resource_attributes,omitempty,flow"`
	TranslationStrategy                  string   `yaml:"translation_strategy,omitempty"`
	KeepIdentifyingResourceAttributes    bool     `yaml:"keep_identifying_resource_attributes,omitempty"`
	ConvertHistogramsToNHCB              bool     `yaml:"convert_histograms_to_nhcb,omitempty"`
	PromoteScopeMetadata                 bool     `yaml:"promote_scope_metadata,omitempty"`
	LabelNameUnderscoreSanitization      *bool    `yaml:"label_name_underscore_sanitization,omitempty"`
	LabelNamePreserveMultipleUnderscores *bool    `yaml:"label_name_preserve_multiple_underscores,omitempty"`
	// Delta is deltaDrop or deltaStore; "" means deltaDrop.
	Delta string `yaml:"delta,omitempty"`
	// AttributesMax bounds the attributes of a resource, a scope and a data point; 0 means otlp.AttributesMaxDefault.
	AttributesMax int `yaml:"max_attributes,omitempty"`
}

// attributesUpperBound bounds AttributesMax. The time of the translation grows with the square of it.
const attributesUpperBound = 4096

// What happens to sums and histograms of delta temporality.
const (
	deltaDrop  = "drop"
	deltaStore = "store"
)

// options returns the options in the form of Prometheus. The error comes from Prometheus's checks.
func (o *OTLP) options() (c promconfig.OTLPConfig, err error) {
	theirs := *o
	theirs.Delta, theirs.AttributesMax = "", 0
	text, err := yaml.Marshal(&theirs)
	if err != nil {
		return c, err
	}
	return c, yaml.Unmarshal(text, &c)
}

func (o *OTLP) validate(fault func(field, format string, args ...any)) {
	if _, err := o.options(); err != nil {
		fault("otlp", "%w", err)
	}
	strategies := []string{
		"", string(otlptranslator.UnderscoreEscapingWithSuffixes), string(otlptranslator.UnderscoreEscapingWithoutSuffixes),
		string(otlptranslator.NoUTF8EscapingWithSuffixes), string(otlptranslator.NoTranslation),
	}
	if !slices.Contains(strategies, o.TranslationStrategy) {
		fault("otlp.translation_strategy", "%q is none of %q", shortened(o.TranslationStrategy), strategies[1:])
	}
	if !slices.Contains([]string{"", deltaDrop, deltaStore}, o.Delta) {
		fault("otlp.delta", "%q is neither %s nor %s", shortened(o.Delta), deltaDrop, deltaStore)
	}
	if o.AttributesMax < 0 || o.AttributesMax > attributesUpperBound {
		fault("otlp.max_attributes", "%d is outside 0..%d", o.AttributesMax, attributesUpperBound)
	}
}
