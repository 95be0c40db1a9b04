package config

import (
	"cmp"
	"errors"

	"halite/keyschema"
)

// SchemaRule is the layout of the row keys of some metrics. See docs/schema.md.
type SchemaRule struct {
	Pattern string `yaml:"pattern"`
	// FromHour is the first hour of the rule; nil begins with the next hour if the rule is new.
	FromHour *int64 `yaml:"from_hour,omitempty"`
	// Salts is keyschema.DefaultSalts if it is nil.
	Salts           *int            `yaml:"salts,omitempty"`
	Promoted        []string        `yaml:"promoted,omitempty"`
	Basis           keyschema.Basis `yaml:"basis,omitempty"`
	SaltTags        int             `yaml:"salt_tags,omitempty"`
	ReversedDomains []string        `yaml:"reversed_domains,omitempty"`
}

func (r *SchemaRule) rule() keyschema.Rule {
	out := keyschema.Rule{
		Pattern: r.Pattern, FromHour: keyschema.NextHour, Salts: keyschema.DefaultSalts, Promoted: r.Promoted, Basis: r.Basis,
		SaltTags: r.SaltTags, ReversedDomains: r.ReversedDomains,
	}
	if r.FromHour != nil {
		out.FromHour = *r.FromHour
	}
	if r.Salts != nil {
		out.Salts = *r.Salts
	}
	return out
}

// validate reports the faults of a rule that follows others.
func (r *SchemaRule) validate(field string, before []SchemaRule, fault func(field, format string, args ...any)) {
	rule := r.rule()
	if r.FromHour == nil {
		rule.FromHour = 0
	}
	if rule.Salts == 0 {
		rule.Salts = keyschema.SaltsMax + 1 // 0 would mean that the rule has no keys
	}
	for _, err := range split(rule.Validate()) {
		var bad *keyschema.FieldError
		if !errors.As(err, &bad) {
			fault(field, "%w", err)
			continue
		}
		if bad.Field == "salts" {
			fault(field+".salts", "%d is outside 1..%d", *r.Salts, keyschema.SaltsMax)
			continue
		}
		fault(field+"."+bad.Field, "%s", bad.Reason)
	}
	for i := range before {
		b := &before[i]
		switch {
		case b.Pattern != r.Pattern:
		case b.FromHour == nil && r.FromHour == nil:
			fault(field+".pattern", "%q has two rules without from_hour", r.Pattern)
		case b.FromHour != nil && r.FromHour != nil && *b.FromHour == *r.FromHour:
			fault(field+".from_hour", "%q has two rules from hour %d", r.Pattern, *r.FromHour)
		}
	}
}

// split returns the errors that errors.Join has joined.
func split(err error) []error {
	var list interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &list):
		return list.Unwrap()
	}
	return []error{err}
}

// RetentionRule is the retention of some metrics. A tier that is nil has the retention of the flags.
type RetentionRule struct {
	Pattern    string         `yaml:"pattern"`
	Raw        *keyschema.Age `yaml:"raw,omitempty"`
	Hours      *keyschema.Age `yaml:"hours,omitempty"`
	Days       *keyschema.Age `yaml:"days,omitempty"`
	Histograms *keyschema.Age `yaml:"histograms,omitempty"`
}

func (r *RetentionRule) rule() keyschema.Rule {
	return keyschema.Rule{Pattern: r.Pattern, Retention: &keyschema.RuleRetention{
		Raw: r.Raw, Hours: r.Hours, Days: r.Days, Histograms: r.Histograms,
	}}
}

// validate reports the faults of a rule that follows others.
func (r *RetentionRule) validate(field string, before []RetentionRule, fault func(field, format string, args ...any)) {
	checkPattern(field, r.Pattern, fault)
	for i := range before {
		if before[i].Pattern == r.Pattern {
			fault(field+".pattern", "%q has two rules", r.Pattern)
		}
	}
	if cmp.Or(r.Raw, r.Hours, r.Days, r.Histograms) == nil {
		fault(field, "the rule needs at least one of raw, hours, days and histograms")
	}
	for tier, age := range map[keyschema.Tier]*keyschema.Age{
		keyschema.Raw: r.Raw, keyschema.Hours: r.Hours, keyschema.Days: r.Days, keyschema.NativeHistograms: r.Histograms,
	} {
		if age != nil && *age != 0 && *age < keyschema.AgeMin {
			fault(field+"."+tier.String(), "%s is shorter than %s, the span of a partition; 0 keeps data forever", *age,
				keyschema.AgeMin)
		}
	}
	r.validateOrder(field, fault)
}

// validateOrder reports the ages of a rule that contradict each other. Only the server knows the ages that the rule omits.
func (r *RetentionRule) validateOrder(field string, fault func(field, format string, args ...any)) {
	before := r.Raw
	for tier, age := range []*keyschema.Age{keyschema.Hours: r.Hours, keyschema.Days: r.Days} {
		if age == nil {
			continue
		}
		if before != nil {
			if err := keyschema.Tier(tier).CheckOrder(*before, *age); err != nil {
				fault(field+"."+keyschema.Tier(tier).String(), "%v", err)
			}
		}
		before = age
	}
	if r.Raw != nil && r.Histograms != nil && *r.Histograms != 0 && r.Histograms.Outlives(*r.Raw) {
		fault(field+".histograms", "%s is longer than raw, which is %s", *r.Histograms, *r.Raw)
	}
}

func checkPattern(field, pattern string, fault func(field, format string, args ...any)) {
	if pattern == "" {
		fault(field+".pattern", "the pattern is empty")
	}
}
