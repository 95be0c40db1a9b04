package keyschema

import (
	"errors"
	"fmt"
	"slices"
)

// SaltsMax is the largest number of salts of a rule. A salt has at most three digits.
const SaltsMax = 1000

// DefaultSalts is the number of salts of metrics that no rule matches.
const DefaultSalts = 16

// Basis says which tags decide the salt.
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

// UnmarshalText is the inverse of MarshalText.
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

// Rule defines the row keys of some metrics from an hour on. Callers do not change a Rule of a [Schema].
type Rule struct {
	// Pattern selects metrics: '*' matches any bytes, '?' matches exactly one byte, and every other byte matches itself. A
	// pattern that begins with '&' is for stored names, "&tenant&metric". Any other pattern is for the names without their
	// tenants.
	Pattern string `json:"pattern"`
	// FromHour is the first hour (since 1970) whose rows follow the rule.
	FromHour int64 `json:"from_hour"`
	// Salts is the number of key ranges over which a metric's series spread, 1 to SaltsMax. A rule with only Retention
	// or MaxSeries has 0: other rules define the keys of its metrics.
	Salts int `json:"salts"`
	// Promoted tags come first in the key, in this order, so that a query on them reads one range.
	Promoted []string `json:"promoted,omitempty"`
	// Basis says which tags decide the salt. BasisPromoted needs promoted tags.
	Basis Basis `json:"basis"`
	// SaltTags is the number of leading promoted tags that decide the salt with BasisPromoted; 0 means all. Rows with
	// equal values of these tags have one salt. The other promoted tags determine their order. So a range of values of
	// the next promoted tag is one range of keys.
	SaltTags int `json:"salt_tags,omitempty"`
	// ReversedDomains are tags whose value is stored with its domain labels in reverse order.
	ReversedDomains []string `json:"reversed_domains,omitempty"`
	// Retention is the retention of the metrics at all hours. nil leaves it to other rules.
	Retention *RuleRetention `json:"retention,omitempty"`
	// MaxSeries bounds the active series of each metric at all hours. 0 means no limit. nil leaves it to other rules.
	MaxSeries *int `json:"max_series,omitempty"`
	// MaxSeriesWarn is the number of series at which the server warns. A value up to 1 is a share of MaxSeries. 0 means
	// SeriesWarnDefault.
	MaxSeriesWarn float64 `json:"max_series_warn,omitempty"`
	// MaxSeriesDryRun accepts series beyond MaxSeries, and counts and logs them.
	MaxSeriesDryRun bool `json:"max_series_dry_run,omitempty"`
}

// keyless reports whether the rule does not define keys.
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
			fault("from_hour",
				"from_hour is %d, but a rule without salts does not change keys and applies at once: omit from_hour",
				r.FromHour)
		}
		return errors.Join(faults...)
	}
	r.checkLayout(fault)
	return errors.Join(faults...)
}

// checkLayout returns the faults of the fields that define keys.
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
		fault("salt_tags", "salt_tags is %d; it needs basis \"promoted\" and must not exceed the number of promoted tags",
			r.SaltTags)
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

// matchMetric reports whether a pattern selects the metric with a stored name.
func matchMetric(pattern, metric string) bool {
	if metric != "" && metric[0] == TenantMark && (pattern == "" || pattern[0] != TenantMark) {
		_, metric = SplitTenant(metric)
	}
	return matchPattern(pattern, metric)
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

const (
	// wholeName is the specificity of a pattern without wildcards. specificity adds storedName for a pattern of stored
	// names.
	wholeName  = 1 << 30
	storedName = 1 << 31
)

// specificity orders patterns. Patterns of stored names come above all others, then patterns without wildcards. Then the
// number of literal bytes decides.
func specificity(pattern string) int {
	n := 0
	for i := range len(pattern) {
		if pattern[i] != '*' && pattern[i] != '?' {
			n++
		}
	}
	if n == len(pattern) {
		n = wholeName
	}
	if pattern != "" && pattern[0] == TenantMark {
		n += storedName
	}
	return n
}
