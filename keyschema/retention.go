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

// Tier is a kind of data with an age of its own. The numbers are stored nowhere.
type Tier uint8

// The tiers, each of which is kept at least as long as the one before.
const (
	Raw Tier = iota
	Hours
	Days
	// TierCount is the number of tiers.
	TierCount
)

// String is the tier's name in rules and flags.
func (t Tier) String() string { return [...]string{"raw", "hours", "days"}[t] }

// Check says what is wrong with an age of the tier.
func (t Tier) Check(age Age) error {
	if age >= AgeMin || age == 0 {
		return nil
	}
	return fmt.Errorf("retention.%s is %s: at least %s, the span of a partition, or 0 for ever", t, age, AgeMin)
}

// CheckBeside says what is wrong with an age of the tier, which is not Raw, beside that of the tier before it.
func (t Tier) CheckBeside(before, age Age) error {
	if !before.Outlives(age) {
		return nil
	}
	return fmt.Errorf("retention.%s is %s, shorter than retention.%s, which is %s: keep it at least as long",
		t, age.words(), t-1, before.words())
}

// RuleAges are the ages that a rule names; nil is one that it does not name.
type RuleAges struct {
	Raw   *Age `json:"raw,omitempty"`
	Hours *Age `json:"hours,omitempty"`
	Days  *Age `json:"days,omitempty"`
}

func (a *RuleAges) tiers() [TierCount]*Age { return [...]*Age{a.Raw, a.Hours, a.Days} }

func (a *RuleAges) clone() *RuleAges {
	if a == nil {
		return nil
	}
	c := *a
	for _, age := range []**Age{&c.Raw, &c.Hours, &c.Days} {
		if *age != nil {
			own := **age
			*age = &own
		}
	}
	return &c
}

// faults says what is wrong with the ages alone.
func (a *RuleAges) faults() []error {
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
		out = append(out, errors.New("retention names no age: raw, hours or days"))
	}
	return out
}

// Ages are how long a metric's samples, states of hours and states of days are kept, by Tier.
type Ages [TierCount]Age

// AgesOf makes Ages of durations; 0 is for ever.
func AgesOf(raw, hours, days time.Duration) Ages { return Ages{Age(raw), Age(hours), Age(days)} }

// With returns the ages with those that a rule names in their place. A tier that it does not name is kept at least as
// long as the one before it.
func (a Ages) With(named *RuleAges) Ages {
	for t, age := range named.tiers() {
		switch {
		case age != nil:
			a[t] = *age
		case t > 0 && a[t-1].Outlives(a[t]):
			a[t] = a[t-1]
		}
	}
	return a
}

// Check says which tiers are kept shorter than the one before.
func (a Ages) Check() []error {
	var out []error
	for t := Hours; t < TierCount; t++ {
		if fault := t.CheckBeside(a[t-1], a[t]); fault != nil {
			out = append(out, fault)
		}
	}
	return out
}

// PatternAges are the ages of the metrics that a pattern matches.
type PatternAges struct {
	Pattern string
	Ages    Ages
}

// Retention says how long each metric is kept. It is immutable and safe for concurrent use.
//
// Of the rules that name ages and whose pattern matches a metric, the one with the most specific pattern holds, among
// equally specific ones the one that was listed last. It does not matter from which hour on the rule lays out keys: ages
// hold at once and for all that is stored.
type Retention struct {
	order []PatternAges // the one to prefer first; the last one is for all metrics
}

// Retention gives each metric the ages of its rule, those of rest where the rule names none or there is no rule. The
// error lists the rules by which a tier would be kept shorter than the one before, and wraps [ErrBadRules].
func (s *Schema) Retention(rest Ages) (*Retention, error) {
	var named []*Rule
	for _, r := range slices.Backward(s.set.Load().rules) {
		if r.Retention != nil {
			named = append(named, &r)
		}
	}
	slices.SortStableFunc(named, func(a, b *Rule) int { return cmp.Compare(specificity(b.Pattern), specificity(a.Pattern)) })
	out := &Retention{}
	var faults []error
	for _, r := range named {
		ages := rest.With(r.Retention)
		for _, fault := range ages.Check() {
			faults = append(faults, fmt.Errorf("%w: %q: %w", ErrBadRules, r.Pattern, fault))
		}
		if out.order = append(out.order, PatternAges{r.Pattern, ages}); r.Pattern == "*" {
			return out, errors.Join(faults...)
		}
	}
	out.order = append(out.order, PatternAges{"*", rest})
	return out, errors.Join(faults...)
}

// Uniform gives all metrics the same ages.
func Uniform(ages Ages) *Retention { return &Retention{order: []PatternAges{{"*", ages}}} }

// Of returns the ages of a metric.
func (r *Retention) Of(metric string) Ages { return r.order[r.RuleOf(metric)].Ages }

// RuleOf returns the number of the metric's rule among Rules.
func (r *Retention) RuleOf(metric string) int {
	last := len(r.order) - 1
	for i := range r.order[:last] {
		if matchPattern(r.order[i].Pattern, metric) {
			return i
		}
	}
	return last
}

// Rules returns the patterns with their ages, the one to prefer first; the last one is "*".
func (r *Retention) Rules() []PatternAges { return slices.Clone(r.order) }

// Longest returns the longest age of each tier.
func (r *Retention) Longest() Ages {
	return r.extreme(func(a, than Age) bool { return a.Outlives(than) })
}

// Shortest returns the shortest age of each tier.
func (r *Retention) Shortest() Ages {
	return r.extreme(func(a, than Age) bool { return than.Outlives(a) })
}

func (r *Retention) extreme(better func(a, than Age) bool) Ages {
	out := r.order[0].Ages
	for _, p := range r.order[1:] {
		for t, age := range p.Ages {
			if better(age, out[t]) {
				out[t] = age
			}
		}
	}
	return out
}

// KeyRange returns the range [start, end) of the row keys of all metrics that a pattern can match, and others between
// them; no end is no bound.
func (p *PatternAges) KeyRange() (start, end []byte) {
	literal, _, glob := strings.Cut(strings.ReplaceAll(p.Pattern, "?", "*"), "*")
	start = AppendEscaped(nil, literal)
	if !glob {
		return MetricRows(literal)
	}
	return start, after(start)
}

// MetricRows returns the range [start, end) of the row keys of a metric, in all tables whose keys begin with it. No other
// key lies in it.
func MetricRows(metric string) (start, end []byte) {
	start = append(AppendEscaped(nil, metric), fieldSep)
	end = slices.Clone(start)
	end[len(end)-1] = pastField
	return start, end
}

// MetricOf returns the metric of a row key, or of the beginning of one with the first '#' in it. The error wraps [ErrBadKey].
func MetricOf(key []byte) (string, error) {
	at := bytes.IndexByte(key, fieldSep)
	if at < 0 {
		return "", fmt.Errorf("%w: %q has no %q", ErrBadKey, key, fieldSep)
	}
	metric, err := Unescape(key[:at])
	if err != nil {
		return "", fmt.Errorf("%w: metric of %q: %w", ErrBadKey, key, err)
	}
	return metric, nil
}

// after returns the smallest key above all that begin with prefix; nil if there is none.
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

// Lifetimes say how long one tier of each metric is kept. They are immutable and safe for concurrent use.
type Lifetimes struct {
	retention         *Retention
	tier              Tier
	longest, shortest Age
}

// Tier returns the ages of one tier.
func (r *Retention) Tier(t Tier) *Lifetimes {
	return &Lifetimes{retention: r, tier: t, longest: r.Longest()[t], shortest: r.Shortest()[t]}
}

// Of returns the age of a metric.
func (l *Lifetimes) Of(metric string) Age { return l.retention.Of(metric)[l.tier] }

// Longest and Shortest return the extremes among all metrics.
func (l *Lifetimes) Longest() Age  { return l.longest }
func (l *Lifetimes) Shortest() Age { return l.shortest }

// Since returns the cutoffs at a moment of those metrics that are kept shorter than others; nil if none of them lies
// after fromMs, so that whoever looks at later times only need not ask for each metric. A nil receiver has none.
func (l *Lifetimes) Since(nowMs, fromMs int64) *Cutoffs {
	if l == nil || l.shortest == l.longest || l.shortest.CutoffMs(nowMs) <= fromMs {
		return nil
	}
	return &Cutoffs{lifetimes: l, nowMs: nowMs}
}

// Cutoffs are the oldest times that are kept of each metric at one moment. They belong to one goroutine. Nil hides nothing.
type Cutoffs struct {
	lifetimes *Lifetimes
	nowMs     int64
	metric    string // asked for last
	ms        int64
	asked     bool
}

// LatestMs is the time from which on all metrics are kept.
func (c *Cutoffs) LatestMs() int64 {
	if c == nil {
		return 0
	}
	return c.lifetimes.shortest.CutoffMs(c.nowMs)
}

// Ms is the oldest time that is kept of a metric.
func (c *Cutoffs) Ms(metric string) int64 {
	if c == nil {
		return 0
	}
	if !c.asked || c.metric != metric {
		c.metric, c.ms, c.asked = metric, c.lifetimes.Of(metric).CutoffMs(c.nowMs), true
	}
	return c.ms
}
