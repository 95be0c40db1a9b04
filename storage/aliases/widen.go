package aliases

import (
	"cmp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// Selection selects the stored series that a selector selects among series with all of their names.
type Selection struct {
	// Selectors are matchers of stored series. A series is selected if it matches all matchers of one of them.
	Selectors [][]*labels.Matcher
	// Own are matchers that a series must match by its new names. If Own is not empty, Selectors may select too many
	// series. A matcher of a label without other names is in Selectors instead.
	Own []*labels.Matcher
	// Unchanged is set if Selectors has only the given selector, and none of its series has a new name.
	Unchanged bool
}

// Select widens a selector. A series matches a positive matcher of requested if any of its names matches. It matches a negative
// matcher if none of its names matches the opposite. It matches a matcher of own only by its new names. Metrics are stored
// names.
func (n *Names) Select(requested, own []*labels.Matcher) Selection {
	var widened, keys []*labels.Matcher // keys are matchers of labels with several names
	same := true
	for _, m := range requested {
		if all, _ := n.LabelNames(m.Name); all != nil {
			keys = append(keys, m)
			continue
		}
		w := widen(m, n.valuesOf(m.Name))
		same = same && w == m
		widened = append(widened, w)
	}
	renames := n.RenamesLabels() || n.renamesMetric(widened)
	s := Selection{Unchanged: same && len(keys) == 0 && !renames}
	if s.Unchanged || !renames {
		s.Selectors = [][]*labels.Matcher{slices.Concat(widened, own)}
		return s
	}
	// Matchers of the principal cannot be widened. They select a subset of the series that they select among all names.
	for _, m := range own {
		if all, _ := n.LabelNames(m.Name); all == nil && !n.RenamesValues(m.Name) {
			widened = append(widened, m)
		} else {
			s.Own = append(s.Own, m)
		}
	}
	s.Selectors = n.divide(widened, keys)
	return s
}

// renamesMetric reports whether the matchers may accept a metric with several names.
func (n *Names) renamesMetric(matchers []*labels.Matcher) bool {
	for last := range n.metrics.all {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			return m.Name == model.MetricNameLabel && !slices.ContainsFunc(n.metrics.all[last], m.Matches)
		}) {
			return true
		}
	}
	return false
}

// divide adds matchers of labels with several names. The result has a selector for each name that a series can have.
func (n *Names) divide(matchers, keys []*labels.Matcher) [][]*labels.Matcher {
	out := [][]*labels.Matcher{matchers}
	for len(keys) > 0 {
		all, newest := n.LabelNames(keys[0].Name)
		matches := func(m *labels.Matcher) bool { return n.keys.name(m.Name) == newest }
		var mine []*labels.Matcher
		for _, m := range keys {
			if matches(m) {
				mine = append(mine, m)
			}
		}
		keys = slices.DeleteFunc(slices.Clone(keys), matches)
		var next [][]*labels.Matcher
		for _, choice := range n.choices(all, mine) {
			for _, before := range out {
				next = append(next, slices.Concat(before, choice))
			}
		}
		out = next
	}
	return out
}

// choices returns the ways in which a series can match matchers of one label with several names. A series has one of the
// names, none, or several. Several names keep their meaning.
func (n *Names) choices(all []string, mine []*labels.Matcher) (out [][]*labels.Matcher) {
	on := func(name string) (list []*labels.Matcher) {
		for _, m := range mine {
			list = append(list, widen(labels.MustNewMatcher(m.Type, cmp.Or(name, m.Name), m.Value), n.valuesOf(m.Name)))
		}
		return list
	}
	var none []*labels.Matcher
	for i, name := range all {
		one := append(on(name), has(name))
		for k, other := range all {
			if k != i {
				one = append(one, lacks(other))
			}
			if k > i {
				out = append(out, append(on(""), has(name), has(other)))
			}
		}
		out = append(out, one)
		none = append(none, lacks(name))
	}
	if !slices.ContainsFunc(mine, func(m *labels.Matcher) bool { return !m.Matches("") }) {
		out = append(out, none)
	}
	return out
}

func has(label string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchNotEqual, label, "") }

func lacks(label string) *labels.Matcher { return labels.MustNewMatcher(labels.MatchEqual, label, "") }

// Divide returns the selectors for the series with each name of a label. alone[i] is for the i-th name. both is for series
// that have the label and another of its names.
func (n *Names) Divide(selector []*labels.Matcher, label string) (alone, both [][]*labels.Matcher) {
	all, _ := n.LabelNames(label)
	for _, name := range all {
		one := append(slices.Clone(selector), has(name))
		for _, other := range all {
			if other != name {
				one = append(one, lacks(other))
			}
		}
		alone = append(alone, one)
		if name != label {
			both = append(both, append(slices.Clone(selector), has(label), has(name)))
		}
	}
	return alone, both
}

// widen returns a matcher that accepts all names of a value if m accepts one of them. If m is negative, the result refuses
// all names of a value if the opposite of m accepts one. It returns m itself if that makes no difference.
func widen(m *labels.Matcher, r renames) *labels.Matcher {
	positive := m.Type == labels.MatchEqual || m.Type == labels.MatchRegexp
	var more []string
	for _, all := range r.all {
		accepted := func(name string) bool { return m.Matches(name) == positive }
		if slices.ContainsFunc(all, accepted) && slices.ContainsFunc(all, func(name string) bool { return !accepted(name) }) {
			more = append(more, all...)
		}
	}
	if len(more) == 0 {
		return m
	}
	t := labels.MatchRegexp
	if !positive {
		t = labels.MatchNotRegexp
	}
	return labels.MustNewMatcher(t, m.Name, pattern(m, more))
}

// pattern is a regular expression for the names that a matcher accepts and for more names.
func pattern(m *labels.Matcher, more []string) string {
	literals := m.SetMatches()
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		literals = []string{m.Value}
	}
	var parts []string
	if len(literals) == 0 {
		// The text of a syntax tree is self-contained: it ends each quotation and group that it begins.
		tree, err := syntax.Parse(m.Value, syntax.Perl|syntax.DotNL)
		if err != nil {
			panic(err) // the matcher was compiled from it
		}
		parts = append(parts, "(?:"+tree.String()+")")
	}
	literals = append(slices.Clone(literals), more...)
	slices.Sort(literals)
	for _, literal := range slices.Compact(literals) {
		parts = append(parts, regexp.QuoteMeta(literal))
	}
	return strings.Join(parts, "|")
}
