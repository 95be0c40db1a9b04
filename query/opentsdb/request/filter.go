package request

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// Filter selects series by the value of a tag.
type Filter struct {
	Type, Key, Text string
	// GroupBy groups the series by the tag.
	GroupBy bool
	// Literals are the values of literal_or. Only this filter requires its values to exist.
	Literals []string
	// Matchers select the series. A series without the tag matches only not_key.
	Matchers []*labels.Matcher
}

// Types of filters.
const (
	literalOr     = "literal_or"
	iLiteralOr    = "iliteral_or"
	notLiteralOr  = "not_literal_or"
	notILiteralOr = "not_iliteral_or"
	wildcard      = "wildcard"
	iWildcard     = "iwildcard"
	regularExpr   = "regexp"
	notKey        = "not_key"
)

// Excludes reports whether the filter selects series that lack the tag.
func (f *Filter) Excludes() bool { return f.Type == notKey }

// TagFilter parses a filter for the value of a tag, in the syntax of the parameters tags and m. It is a filter such as
// wildcard(web*), a pattern with asterisks, or values between bars.
func TagFilter(key, value string) (Filter, error) {
	if key == "" {
		return Filter{}, bad("Tagk cannot be null or empty")
	}
	if value == "" {
		return Filter{}, bad("Filter cannot be null or empty")
	}
	if kind, rest, ok := strings.Cut(value, "("); ok {
		inner, closed := strings.CutSuffix(rest, ")")
		if !closed {
			return Filter{}, bad("Filter must end with a ')': %s", value)
		}
		return newFilter(strings.ToLower(kind), key, inner)
	}
	switch {
	case value == "*":
		return newFilter(wildcard, key, value)
	case strings.Contains(value, "*"):
		return newFilter(iWildcard, key, value)
	}
	return newFilter(literalOr, key, value)
}

// newFilter returns a filter of a type, or an error if its parts are not valid.
func newFilter(kind, key, text string) (Filter, error) {
	f := Filter{Type: kind, Key: key, Text: text}
	if kind == "" {
		return f, bad("The filter type cannot be null or empty")
	}
	if key == "" {
		return f, bad("The tagk cannot be null or empty")
	}
	if text == "" && kind != notKey {
		return f, bad("Filter cannot be null or empty: %s of the tag %s", kind, key)
	}
	if len(literals(text)) == 0 && slices.Contains([]string{literalOr, iLiteralOr, notLiteralOr, notILiteralOr}, kind) {
		return f, bad("Filter must contain more than just a pipe: %s of the tag %s", kind, key)
	}
	present := labels.MustNewMatcher(labels.MatchNotEqual, key, "")
	matching := func(t labels.MatchType, expr string) (Filter, error) {
		m, err := labels.NewMatcher(t, key, expr)
		if err != nil {
			return f, bad("the %s of the tag %s: %s", kind, key, err)
		}
		f.Matchers = []*labels.Matcher{present, m}
		return f, nil
	}
	switch kind {
	case literalOr:
		f.Literals = literals(text)
		return matching(labels.MatchRegexp, alternatives(text))
	case iLiteralOr:
		return matching(labels.MatchRegexp, "(?i:"+alternatives(text)+")")
	case notLiteralOr:
		return matching(labels.MatchNotRegexp, alternatives(text))
	case notILiteralOr:
		return matching(labels.MatchNotRegexp, "(?i:"+alternatives(text)+")")
	case wildcard, iWildcard:
		if !strings.Contains(text, "*") {
			return f, bad("Filter must contain an asterisk: %s", text)
		}
		if strings.Trim(text, "*") == "" {
			f.Matchers = []*labels.Matcher{present}
			return f, nil
		}
		expr := glob(text)
		if kind == iWildcard {
			expr = "(?i:" + expr + ")"
		}
		return matching(labels.MatchRegexp, expr)
	case regularExpr:
		if _, err := regexp.Compile(text); err != nil {
			return f, bad("the regexp of the tag %s: %s", key, err)
		}
		return matching(labels.MatchRegexp, ".*(?:"+text+").*")
	case notKey:
		if text != "" {
			return f, bad("The filter must be empty for the not_key filter")
		}
		f.Matchers = []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, key, "")}
		return f, nil
	}
	return f, bad("Could not find a tag value filter of the type: %s", kind)
}

// literals returns the values between bars.
func literals(text string) (out []string) {
	for v := range strings.SplitSeq(text, "|") {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

// alternatives returns the regular expression of the values between bars.
func alternatives(text string) string {
	values := literals(text)
	for i := range values {
		values[i] = regexp.QuoteMeta(values[i])
	}
	return strings.Join(values, "|")
}

// glob returns the regular expression of a pattern in which an asterisk matches any text.
func glob(pattern string) string {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, ".*")
}
