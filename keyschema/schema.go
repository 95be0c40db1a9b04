package keyschema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// Schema is a set of rules, safe for concurrent use. It changes only by [Schema.Replace], and only for future hours.
//
// Several rules may match a metric and have begun by an hour. The rule with the most specific pattern applies: first a
// pattern without wildcards, then the pattern with more literal bytes. Among equally specific rules, the later FromHour
// decides, then the later position in the list. DefaultRule applies if no other rule does.
type Schema struct{ set atomic.Pointer[ruleSet] }

// ruleSet is immutable, so its Rules stay valid after another set replaces it.
type ruleSet struct {
	rules []Rule  // as given, then DefaultRule unless another rule covers all metrics from hour 0
	order []*Rule // rules that define keys, by preference
	// limits bound the active series of metrics, by preference.
	limits []SeriesLimit
}

// NewSchema validates rules and adds [DefaultRule] unless a rule for "*" from hour 0 is among them. The error lists
// all faults and wraps [ErrBadRules].
func NewSchema(rules []Rule) (*Schema, error) {
	set, err := newRuleSet(rules)
	if err != nil {
		return nil, err
	}
	s := new(Schema)
	s.set.Store(set)
	return s, nil
}

// DefaultSchema has [DefaultRule] alone.
func DefaultSchema() *Schema {
	s, err := NewSchema(nil)
	if err != nil {
		panic(err) // an empty list of rules has no faults
	}
	return s
}

func newRuleSet(rules []Rule) (*ruleSet, error) {
	var faults []error
	s := &ruleSet{rules: make([]Rule, 0, len(rules)+1)}
	covered := false
	for i := range rules {
		r := rules[i].clone()
		if err := r.Validate(); err != nil {
			faults = append(faults, err)
		}
		for j := range s.rules {
			faults = append(faults, conflicts(&s.rules[j], &r)...)
		}
		covered = covered || r.Pattern == "*" && r.FromHour == 0 && !r.keyless()
		s.rules = append(s.rules, r)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	if !covered {
		s.rules = append(s.rules, DefaultRule())
	}
	for i := len(rules) - 1; i >= 0; i-- {
		if !s.rules[i].keyless() {
			s.order = append(s.order, &s.rules[i])
		}
	}
	slices.SortStableFunc(s.order, func(a, b *Rule) int {
		return cmp.Or(cmp.Compare(specificity(b.Pattern), specificity(a.Pattern)), cmp.Compare(b.FromHour, a.FromHour))
	})
	if !covered {
		s.order = append(s.order, &s.rules[len(rules)]) // after every given rule
	}
	s.limits = seriesLimits(s.rules)
	return s, nil
}

// conflicts returns the faults of two rules of one schema.
func conflicts(a, b *Rule) (faults []error) {
	if a.Pattern != b.Pattern {
		return nil
	}
	if a.Retention != nil && b.Retention != nil {
		faults = append(faults, fmt.Errorf("%w: two rules for %q have a retention", ErrBadRules, b.Pattern))
	}
	if a.MaxSeries != nil && b.MaxSeries != nil {
		faults = append(faults, fmt.Errorf("%w: two rules for %q have max_series", ErrBadRules, b.Pattern))
	}
	if a.FromHour == b.FromHour && !a.keyless() && !b.keyless() {
		faults = append(faults, fmt.Errorf("%w: two rules for %q start at hour %d", ErrBadRules, b.Pattern, b.FromHour))
	}
	return faults
}

// Rules returns a copy of the given rules, followed by the default rule if the schema has added it.
func (s *Schema) Rules() []Rule {
	rules := s.set.Load().rules
	out := make([]Rule, len(rules))
	for i := range rules {
		out[i] = rules[i].clone()
	}
	return out
}

// RuleAt returns the rule in force for a metric at an hour ≥ 0.
func (s *Schema) RuleAt(metric string, hour int64) *Rule { return s.set.Load().ruleAt(metric, hour) }

func (s *ruleSet) ruleAt(metric string, hour int64) *Rule {
	for _, r := range s.order {
		if r.FromHour <= hour && matchMetric(r.Pattern, metric) {
			return r
		}
	}
	return s.order[len(s.order)-1]
}

// Generation is a span of hours, both ends included, in which one rule holds for a metric.
type Generation struct {
	Rule             *Rule
	FromHour, ToHour int64
}

// Generations returns the rules in force for a metric from fromHour to toHour, newest first. The spans do not overlap
// and cover all given hours within 0..HourMax.
func (s *Schema) Generations(metric string, fromHour, toHour int64) []Generation {
	fromHour, toHour = max(fromHour, 0), min(toHour, HourMax)
	if fromHour > toHour {
		return nil
	}
	set := s.set.Load()
	starts := []int64{fromHour}
	for _, r := range set.order {
		if r.FromHour > fromHour && r.FromHour <= toHour && matchMetric(r.Pattern, metric) {
			starts = append(starts, r.FromHour)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	var out []Generation
	last := toHour
	for i := len(starts) - 1; i >= 0; i-- {
		rule := set.ruleAt(metric, starts[i])
		if n := len(out); n > 0 && out[n-1].Rule == rule {
			out[n-1].FromHour = starts[i]
		} else {
			out = append(out, Generation{Rule: rule, FromHour: starts[i], ToHour: last})
		}
		last = starts[i] - 1
	}
	return out
}
