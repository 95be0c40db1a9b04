package keyschema

import (
	"errors"
	"fmt"
	"slices"
)

// NextHour is the FromHour of a rule that begins with the next hour if it is new. [Schema.Begin] gives such a rule its hour.
const NextHour int64 = -1

// Begin gives an hour to each rule with FromHour NextHour. nowHour is the last hour that may have samples. If s has a rule
// with the same pattern and the same keys, the new rule takes its hour. Otherwise the rule begins at nowHour+1. The result
// starts with the rules of s that it replaces, because rows of past hours have their keys.
func (s *Schema) Begin(rules []Rule, nowHour int64) []Rule {
	set := s.set.Load()
	var past, out []Rule
	for i := range rules {
		r := rules[i].clone()
		if r.FromHour == NextHour && !r.keyless() {
			r.FromHour = set.beginning(&r, nowHour)
			past = append(past, set.followed(&r, rules, nowHour)...)
		}
		out = append(out, r)
	}
	return append(past, out...)
}

// beginning returns the hour of the rule of s with the same pattern and keys as r. Without such a rule it returns the hour
// after nowHour.
func (s *ruleSet) beginning(r *Rule, nowHour int64) int64 {
	var holds *Rule
	for i := range s.rules {
		old := &s.rules[i]
		switch {
		case old.keyless() || old.Pattern != r.Pattern:
		case old.FromHour > nowHour && old.sameLayout(r):
			return old.FromHour
		case old.FromHour <= nowHour && (holds == nil || old.FromHour > holds.FromHour):
			holds = old
		}
	}
	if holds != nil && holds.sameLayout(r) {
		return holds.FromHour
	}
	return nowHour + 1
}

// followed returns the earlier rules of s for the pattern of r, except those that given lists already.
func (s *ruleSet) followed(r *Rule, given []Rule, nowHour int64) (out []Rule) {
	for i := range s.rules {
		old := &s.rules[i]
		if old.keyless() || old.isDefault() || old.Pattern != r.Pattern || old.FromHour > nowHour || old.FromHour == r.FromHour {
			continue
		}
		if !slices.ContainsFunc(given, func(g Rule) bool { return g.Pattern == old.Pattern && g.FromHour == old.FromHour }) {
			old := old.clone()
			old.Retention, old.MaxSeries, old.MaxSeriesWarn, old.MaxSeriesDryRun = nil, nil, 0, false
			out = append(out, old)
		}
	}
	return out
}

// isDefault reports whether the rule makes the keys that [DefaultRule] makes.
func (r *Rule) isDefault() bool {
	return r.FromHour == 0 && r.Pattern == "*" && r.sameLayout(new(DefaultRule()))
}

// Limits returns the rules that do not affect keys: retention and limits of series.
func Limits(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.keyless() })
}

// SameLayout reports whether s and next make the same row keys at every hour.
func (s *Schema) SameLayout(next *Schema) bool {
	a, b := s.set.Load(), next.set.Load()
	return a.hasLayouts(b) && b.hasLayouts(a)
}

func (s *ruleSet) hasLayouts(o *ruleSet) bool {
	return !slices.ContainsFunc(o.rules, func(r Rule) bool { return !r.keyless() && !s.has(&r) })
}

// Layout returns the rules of s that define row keys, without limits and retention, and without [DefaultRule].
func (s *Schema) Layout() []Rule {
	var out []Rule
	for _, r := range s.Rules() {
		if r.keyless() || r.isDefault() {
			continue
		}
		r.Retention, r.MaxSeries, r.MaxSeriesWarn, r.MaxSeriesDryRun = nil, nil, 0, false
		out = append(out, r)
	}
	return out
}

// CheckChange reports whether next may replace s at nowHour. Rows are never rewritten. So every rule in force must stay
// unchanged and every new rule must start after nowHour. Otherwise reads would not find stored rows. Retention and
// limits of series may always change. The error names each offending rule and wraps [ErrBadRules].
func (s *Schema) CheckChange(next *Schema, nowHour int64) error {
	return s.set.Load().checkChange(next.set.Load(), nowHour)
}

// Replace switches to the rules of next in one step, if [Schema.CheckChange] allows it. Otherwise nothing changes. No
// row of an hour after nowHour may exist yet. So the caller adds to its clock how far ahead samples may lie.
func (s *Schema) Replace(next *Schema, nowHour int64) error {
	set := next.set.Load()
	for {
		old := s.set.Load()
		if err := old.checkChange(set, nowHour); err != nil {
			return err
		}
		if s.set.CompareAndSwap(old, set) {
			return nil
		}
	}
}

func (s *ruleSet) checkChange(next *ruleSet, nowHour int64) error {
	var faults []error
	for i := range s.rules {
		if old := &s.rules[i]; !old.keyless() && old.FromHour <= nowHour && !next.has(old) {
			faults = append(faults,
				fmt.Errorf("%w: the rule %q from hour %d is in force and must stay unchanged; a rule for the same pattern "+
					"without from_hour may follow it", ErrBadRules, old.Pattern, old.FromHour))
		}
	}
	for i := range next.rules {
		if r := &next.rules[i]; !r.keyless() && r.FromHour <= nowHour && !s.has(r) {
			faults = append(faults,
				fmt.Errorf("%w: the rule %q from hour %d is new and must start after hour %d; without from_hour it "+
					"begins with the next hour", ErrBadRules, r.Pattern, r.FromHour, nowHour))
		}
	}
	return errors.Join(faults...)
}

func (s *ruleSet) has(rule *Rule) bool {
	return slices.ContainsFunc(s.rules, func(r Rule) bool {
		return r.Pattern == rule.Pattern && r.FromHour == rule.FromHour && r.sameLayout(rule)
	})
}
