package keyschema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Tier is a kind of data with its own retention. The numbers are not stored.
type Tier uint8

// The tiers. Hours are kept at least as long as raw samples, and days at least as long as hours. Native histograms are kept at
// most as long as raw samples.
const (
	Raw Tier = iota
	Hours
	Days
	NativeHistograms
	// TierCount is the number of tiers.
	TierCount
)

// String is the tier's name in rules and flags.
func (t Tier) String() string { return [...]string{"raw", "hours", "days", "histograms"}[t] }

// Check returns an error if the age is too short for a tier.
func (t Tier) Check(age Age) error {
	if age >= AgeMin || age == 0 {
		return nil
	}
	return fmt.Errorf("retention.%s is %s; it must be at least %s, the span of a partition, or 0 to keep data forever", t, age,
		AgeMin)
}

// CheckOrder returns an error if the age of a tier is shorter than the age of the previous tier. The receiver is Hours or
// Days.
func (t Tier) CheckOrder(before, age Age) error {
	if !before.Outlives(age) {
		return nil
	}
	return fmt.Errorf("retention.%s is %s, shorter than retention.%s, which is %s: keep it at least as long",
		t, age.text(), t-1, before.text())
}

// RuleRetention has the ages that a rule sets. nil means that the rule does not set the age.
type RuleRetention struct {
	Raw   *Age `json:"raw,omitempty"`
	Hours *Age `json:"hours,omitempty"`
	Days  *Age `json:"days,omitempty"`
	// Histograms is at most Raw; 0 is Raw.
	Histograms *Age `json:"histograms,omitempty"`
}

func (a *RuleRetention) tiers() [TierCount]*Age {
	return [...]*Age{a.Raw, a.Hours, a.Days, a.Histograms}
}

func (a *RuleRetention) clone() *RuleRetention {
	if a == nil {
		return nil
	}
	c := *a
	for _, age := range []**Age{&c.Raw, &c.Hours, &c.Days, &c.Histograms} {
		if *age != nil {
			own := **age
			*age = &own
		}
	}
	return &c
}

// faults returns the faults in the ages of one rule.
func (a *RuleRetention) faults() []error {
	var out []error
	named := false
	for t, age := range a.tiers() {
		if age == nil {
			continue
		}
		named = true
		if fault := Tier(t).Check(*age); fault != nil {
			out = append(out, fault)
		}
	}
	if !named {
		out = append(out, errors.New("retention needs at least one of raw, hours, days and histograms"))
	}
	return out
}

// RetentionByTier has the retention of a metric's samples, hourly rollups, daily rollups and native histograms, by
// Tier.
type RetentionByTier [TierCount]Age

// NewRetentionByTier converts durations to a retention; 0 keeps data forever. Native histograms have the age of raw
// samples.
func NewRetentionByTier(raw, hours, days time.Duration) RetentionByTier {
	return RetentionByTier{Age(raw), Age(hours), Age(days), Age(raw)}
}

// With replaces the ages that a rule sets. An age of hours or days that the rule does not set becomes at least the age of
// the previous tier. An age of native histograms that the rule does not set equals the age of raw samples if it did so
// before. Otherwise it becomes at most the age of raw samples.
func (a RetentionByTier) With(named *RuleRetention) RetentionByTier {
	a = a.capped()
	asRaw := a[NativeHistograms] == a[Raw]
	ages := named.tiers()
	for t := Raw; t <= Days; t++ {
		switch {
		case ages[t] != nil:
			a[t] = *ages[t]
		case t > 0 && a[t-1].Outlives(a[t]):
			a[t] = a[t-1]
		}
	}
	switch age := named.Histograms; {
	case age == nil && !asRaw:
		return a.capped()
	case age == nil || *age == 0:
		a[NativeHistograms] = a[Raw]
	default:
		a[NativeHistograms] = *age
	}
	return a
}

// capped returns the ages with the age of native histograms limited to the age of raw samples.
func (a RetentionByTier) capped() RetentionByTier {
	if a[NativeHistograms].Outlives(a[Raw]) {
		a[NativeHistograms] = a[Raw]
	}
	return a
}

// Check returns an error for each tier whose age is too short, or too long compared with another tier.
func (a RetentionByTier) Check() []error {
	var out []error
	for t := Hours; t <= Days; t++ {
		if fault := t.CheckOrder(a[t-1], a[t]); fault != nil {
			out = append(out, fault)
		}
	}
	if raw, age := a[Raw], a[NativeHistograms]; age.Outlives(raw) {
		out = append(out, fmt.Errorf("retention.%s is %s, longer than retention.%s, which is %s: keep it at most as long",
			NativeHistograms, age.text(), Raw, raw.text()))
	}
	return out
}

// PatternRetention holds the ages of the metrics that a pattern matches.
type PatternRetention struct {
	Pattern   string
	Retention RetentionByTier
}

// RetentionByMetric has the retention of each metric. It is immutable and safe for concurrent use.
//
// A metric has the ages of the rule with the most specific pattern that matches it, among the rules that set ages. Among
// equally specific rules, the last one in the list applies. FromHour does not matter: ages apply at once to all stored
// data.
type RetentionByMetric struct {
	order             []PatternRetention // by preference; the last one is for all metrics
	longest, shortest RetentionByTier
}

// newRetentionByMetric returns the retention of patterns in the order of preference.
func newRetentionByMetric(order []PatternRetention) *RetentionByMetric {
	r := &RetentionByMetric{order: order}
	r.longest = r.extreme(func(a, than Age) bool { return a.Outlives(than) })
	r.shortest = r.extreme(func(a, than Age) bool { return than.Outlives(a) })
	return r
}

// Retention returns the ages of all metrics. rest has the ages of metrics without a rule, and of tiers that a rule does not
// set. The error wraps [ErrBadRules] and lists the rules that keep a tier shorter than the tier before it.
func (s *Schema) Retention(rest RetentionByTier) (*RetentionByMetric, error) {
	var named []*Rule
	for _, r := range slices.Backward(s.set.Load().rules) {
		if r.Retention != nil {
			named = append(named, &r)
		}
	}
	slices.SortStableFunc(named, func(a, b *Rule) int { return cmp.Compare(specificity(b.Pattern), specificity(a.Pattern)) })
	var (
		order  []PatternRetention
		faults []error
	)
	for _, r := range named {
		ages := rest.With(r.Retention)
		for _, fault := range ages.Check() {
			faults = append(faults, fmt.Errorf("%w: %q: %w", ErrBadRules, r.Pattern, fault))
		}
		if order = append(order, PatternRetention{r.Pattern, ages}); r.Pattern == "*" {
			return newRetentionByMetric(order), errors.Join(faults...)
		}
	}
	order = append(order, PatternRetention{"*", rest.capped()})
	return newRetentionByMetric(order), errors.Join(faults...)
}

// Uniform gives all metrics the same ages.
func Uniform(ages RetentionByTier) *RetentionByMetric {
	return newRetentionByMetric([]PatternRetention{{"*", ages.capped()}})
}

// ForMetric returns the ages of a metric.
func (r *RetentionByMetric) ForMetric(metric string) RetentionByTier {
	return r.order[r.RuleOf(metric)].Retention
}

// RuleOf returns the index of the metric's rule in the result of Rules.
func (r *RetentionByMetric) RuleOf(metric string) int {
	last := len(r.order) - 1
	for i := range r.order[:last] {
		if matchMetric(r.order[i].Pattern, metric) {
			return i
		}
	}
	return last
}

// Rules returns the patterns with their ages in the order of preference. The last pattern is "*".
func (r *RetentionByMetric) Rules() []PatternRetention { return slices.Clone(r.order) }

// Longest returns the longest age of each tier.
func (r *RetentionByMetric) Longest() RetentionByTier { return r.longest }

// Shortest returns the shortest age of each tier.
func (r *RetentionByMetric) Shortest() RetentionByTier { return r.shortest }

func (r *RetentionByMetric) extreme(better func(a, than Age) bool) RetentionByTier {
	out := r.order[0].Retention
	for _, p := range r.order[1:] {
		for t, age := range p.Retention {
			if better(age, out[t]) {
				out[t] = age
			}
		}
	}
	return out
}

// KeyRange is a range [Start, End) of row keys. A nil End means no bound.
type KeyRange struct {
	Start, End []byte
	// Exact means that the pattern matches all metrics in the range.
	Exact bool
}

// KeyRanges returns disjoint ranges that contain the row keys of all metrics that the pattern can match, in the order of keys.
func (p *PatternRetention) KeyRanges() []KeyRange {
	literal, rest, glob := strings.Cut(strings.ReplaceAll(p.Pattern, "?", "*"), "*")
	exact := !glob || rest == "" && strings.HasSuffix(p.Pattern, "*")
	if literal == "" {
		return []KeyRange{{Exact: exact}}
	}
	own := KeyRange{Start: appendMetric(nil, literal), Exact: exact}
	own.End = after(own.Start)
	if !glob {
		own.Start, own.End = MetricRows(literal)
	}
	tenants := KeyRange{Start: []byte{TenantMark}, End: []byte{TenantMark + 1}}
	switch partly := literal[0] == TenantMark && inTenants(literal[1:]); {
	case partly && glob: // one range for whole tenants, and one for names that begin with the mark
		escaped := AppendEscaped(nil, literal)
		return []KeyRange{{escaped, after(escaped), exact}, {[]byte(literal), after([]byte(literal)), exact}}
	case literal[0] == TenantMark:
		return []KeyRange{own}
	case bytes.Compare(own.Start, tenants.Start) < 0:
		return []KeyRange{own, tenants}
	}
	return []KeyRange{tenants, own}
}

// inTenants reports whether the text after the first mark ends within the tenant's name or with the second mark.
func inTenants(text string) bool {
	name, rest, _ := strings.Cut(text, string(TenantMark))
	for i := range len(name) {
		if !inTenant(name[i]) {
			return false
		}
	}
	return rest == ""
}

// MetricRows returns the range [start, end) of the row keys of a metric, in all tables whose keys begin with it. No other
// key lies in the range.
func MetricRows(metric string) (start, end []byte) {
	start = append(appendMetric(nil, metric), fieldSep)
	end = slices.Clone(start)
	end[len(end)-1] = pastField
	return start, end
}

// MetricOf returns the metric of a row key, or of the start of a key up to the first '#' at least. The error wraps [ErrBadKey].
func MetricOf(key []byte) (string, error) {
	at := bytes.IndexByte(key, fieldSep)
	if at < 0 {
		return "", fmt.Errorf("%w: %q has no %q", ErrBadKey, key, fieldSep)
	}
	metric, err := unescapeMetric(string(key[:at]))
	if err != nil {
		return "", fmt.Errorf("%w: metric of %q: %w", ErrBadKey, key, err)
	}
	return metric, nil
}

// after returns the smallest key above all keys that begin with prefix. It returns nil if there is none.
func after(prefix []byte) []byte {
	end := slices.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return nil
	}
	end[len(end)-1]++
	return end
}
