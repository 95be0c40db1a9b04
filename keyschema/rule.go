package keyschema

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// SaltsMax is the largest number of salts of a rule; with three digits it fits the key.
const SaltsMax = 1000

// DefaultSalts is the number of salts of metrics that no rule matches.
const DefaultSalts = 16

// Basis says which tags a salt is computed from.
type Basis uint8

const (
	// BasisTags hashes the metric and all tags: a metric's series spread evenly.
	BasisTags Basis = iota
	// BasisPromoted hashes the metric and the promoted tags only: series that share them stay in one range.
	BasisPromoted
)

// MarshalText returns "tags" or "promoted".
func (b Basis) MarshalText() ([]byte, error) {
	switch b {
	case BasisTags:
		return []byte("tags"), nil
	case BasisPromoted:
		return []byte("promoted"), nil
	default:
		return nil, fmt.Errorf("%w: unknown basis %d", ErrBadRules, b)
	}
}

// UnmarshalText accepts what MarshalText returns.
func (b *Basis) UnmarshalText(text []byte) error {
	switch string(text) {
	case "tags":
		*b = BasisTags
	case "promoted":
		*b = BasisPromoted
	default:
		return fmt.Errorf("%w: basis %q, want \"tags\" or \"promoted\"", ErrBadRules, text)
	}
	return nil
}

// Rule says how the row keys of some metrics are laid out from an hour on. A Rule that was obtained from a [Schema]
// must not be changed.
type Rule struct {
	// Pattern selects metrics: '*' stands for any bytes, '?' for exactly one byte, everything else for itself.
	Pattern string `json:"pattern"`
	// FromHour is the first hour (since 1970) whose rows follow the rule.
	FromHour int64 `json:"from_hour"`
	// Salts is the number of key ranges over which a metric's series spread, 1 to SaltsMax. A rule that has nothing but
	// Retention or MaxSeries has none: other rules lay out the keys of its metrics.
	Salts int `json:"salts"`
	// Promoted tags stand first in the key, in this order, so that a query on them reads one range.
	Promoted []string `json:"promoted,omitempty"`
	// Basis says what the salt is computed from; BasisPromoted needs promoted tags.
	Basis Basis `json:"basis"`
	// SaltTags is how many of the promoted tags, from the first on, BasisPromoted takes; 0 is all of them. Rows that share
	// those tags lie in one salt, in the order of the further promoted tags: a range of their values is one range of keys.
	SaltTags int `json:"salt_tags,omitempty"`
	// ReversedDomains are tags whose value is stored with its domain labels in reverse order.
	ReversedDomains []string `json:"reversed_domains,omitempty"`
	// Retention is how long the metrics are kept, whatever FromHour; nil leaves that to other rules.
	Retention *RuleRetention `json:"retention,omitempty"`
	// MaxSeries bounds the active series of each metric, whatever FromHour; 0 means no limit, nil leaves that to other rules.
	MaxSeries *int `json:"max_series,omitempty"`
	// MaxSeriesWarn is the number of series at which the server warns, or their share of MaxSeries if it is not above 1.
	// 0 means SeriesWarnDefault.
	MaxSeriesWarn float64 `json:"max_series_warn,omitempty"`
	// MaxSeriesDryRun counts and logs the series beyond MaxSeries, and takes them.
	MaxSeriesDryRun bool `json:"max_series_dry_run,omitempty"`
}

// keyless tells that the rule says nothing about keys.
func (r *Rule) keyless() bool {
	return (r.Retention != nil || r.MaxSeries != nil) && r.Salts == 0 && len(r.Promoted) == 0 && r.Basis == BasisTags &&
		r.SaltTags == 0 && len(r.ReversedDomains) == 0
}

// DefaultRule is the rule of every metric that no other rule matches.
func DefaultRule() Rule { return Rule{Pattern: "*", Salts: DefaultSalts} }

// FieldError is a fault of one field of a rule. It wraps [ErrBadRules].
type FieldError struct {
	// Pattern is the pattern of the rule, and Field is the name of the field in JSON.
	Pattern, Field string
	// Reason says what is wrong. It names the field.
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s", ErrBadRules, e.Pattern, e.Reason)
}

// Unwrap returns ErrBadRules.
func (e *FieldError) Unwrap() error { return ErrBadRules }

// Validate returns every fault of the rule, each a [*FieldError].
func (r *Rule) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &FieldError{Pattern: r.Pattern, Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if r.Pattern == "" {
		fault("pattern", "the pattern is empty")
	}
	if r.FromHour < 0 || r.FromHour > HourMax {
		fault("from_hour", "from_hour %d is outside 0..%d", r.FromHour, HourMax)
	}
	if r.Retention != nil {
		for _, err := range r.Retention.faults() {
			fault("retention", "%v", err)
		}
	}
	for _, err := range r.seriesFaults() {
		fault("max_series", "%v", err)
	}
	if r.keyless() {
		if r.FromHour != 0 {
			fault("from_hour", "from_hour is %d, but a rule without salts says nothing about keys and holds at once: leave it out",
				r.FromHour)
		}
		return errors.Join(faults...)
	}
	r.checkLayout(fault)
	return errors.Join(faults...)
}

// checkLayout reports what is wrong with the fields that say how keys are made.
func (r *Rule) checkLayout(fault func(field, format string, args ...any)) {
	if r.Salts < 1 || r.Salts > SaltsMax {
		fault("salts", "salts %d is outside 1..%d", r.Salts, SaltsMax)
	}
	if r.Basis > BasisPromoted {
		fault("basis", "unknown basis %d", r.Basis)
	}
	if r.Basis == BasisPromoted && len(r.Promoted) == 0 {
		fault("basis", "basis \"promoted\" needs promoted tags")
	}
	if r.SaltTags < 0 || r.SaltTags > len(r.Promoted) || r.SaltTags > 0 && r.Basis != BasisPromoted {
		fault("salt_tags", "salt_tags %d: at most the number of promoted tags, and with basis \"promoted\" only", r.SaltTags)
	}
	for _, tags := range []struct {
		field string
		list  []string
	}{{"promoted", r.Promoted}, {"reversed_domains", r.ReversedDomains}} {
		for i, name := range tags.list {
			switch {
			case name == "" || name == "__name__":
				fault(tags.field, "%q cannot be promoted or reversed", name)
			case slices.Contains(tags.list[:i], name):
				fault(tags.field, "tag %q is listed twice", name)
			}
		}
	}
}

// sameLayout reports whether two rules give the same keys.
func (r *Rule) sameLayout(o *Rule) bool {
	return r.Salts == o.Salts && r.Basis == o.Basis && len(r.salted()) == len(o.salted()) && slices.Equal(r.Promoted, o.Promoted) &&
		slices.Equal(r.ReversedDomains, o.ReversedDomains)
}

func (r *Rule) clone() Rule {
	c := *r
	c.Promoted = slices.Clone(r.Promoted)
	c.ReversedDomains = slices.Clone(r.ReversedDomains)
	c.Retention = r.Retention.clone()
	if r.MaxSeries != nil {
		c.MaxSeries = new(*r.MaxSeries)
	}
	return c
}

// salted returns the promoted tags that decide the salt with BasisPromoted.
func (r *Rule) salted() []string {
	if r.SaltTags == 0 {
		return r.Promoted
	}
	return r.Promoted[:r.SaltTags]
}

// saltDigits is the width of the salt in keys.
func (r *Rule) saltDigits() int {
	if r.Salts <= 100 {
		return 2
	}
	return 3
}

// matchPattern reports whether the whole of s matches a pattern of '*', '?' and literal bytes, in O(len(p)·len(s)).
func matchPattern(p, s string) bool {
	pi, si, star, resume := 0, 0, -1, 0
	for si < len(s) {
		switch {
		case pi < len(p) && p[pi] == '*':
			star, resume = pi, si
			pi++
		case pi < len(p) && (p[pi] == '?' || p[pi] == s[si]):
			pi++
			si++
		case star >= 0:
			resume++
			pi, si = star+1, resume
		default:
			return false
		}
	}
	for pi < len(p) && p[pi] == '*' {
		pi++
	}
	return pi == len(p)
}

// specificity orders patterns: one without wildcards is above all others, then the number of literal bytes counts.
func specificity(pattern string) int {
	n := 0
	for i := range len(pattern) {
		if pattern[i] != '*' && pattern[i] != '?' {
			n++
		}
	}
	if n == len(pattern) {
		return math.MaxInt
	}
	return n
}
