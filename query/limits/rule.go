package limits

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/zeebo/xxh3"

	"halite/storage/principal"
)

// Action is the effect of a rule on the queries that it matches.
type Action uint8

const (
	// Refuse ends the query with an error.
	Refuse Action = iota
	// SlowLane sends the query through the slow lane, which runs one query at a time.
	SlowLane
)

// MarshalText returns "refuse" or "slow_lane".
func (a Action) MarshalText() ([]byte, error) {
	switch a {
	case Refuse:
		return []byte("refuse"), nil
	case SlowLane:
		return []byte("slow_lane"), nil
	}
	return nil, fmt.Errorf("unknown action %d", a)
}

// UnmarshalText is the inverse of MarshalText.
func (a *Action) UnmarshalText(text []byte) error {
	switch string(text) {
	case "refuse":
		*a = Refuse
	case "slow_lane":
		*a = SlowLane
	default:
		return fmt.Errorf("%q is not an action: want refuse or slow_lane", text)
	}
	return nil
}

// Rule matches queries by at most one of Text, Regexp and Fingerprint, and by Token. At least one of the four is set.
type Rule struct {
	// ID names the rule in errors and metrics.
	ID string
	// Text is the text of the query, without space around it.
	Text string
	// Regexp is a result of CompileRegexp. It matches the whole text.
	Regexp *regexp.Regexp
	// Fingerprint is the fingerprint of the query, see [Fingerprint].
	Fingerprint string
	// Token is the name of the token or user of the request; "" matches any.
	Token  string
	Action Action
	// Reason appears in the error of a refused query.
	Reason string
}

// matches reports whether the rule matches a query of a principal. fingerprint returns "" if the text is not an expression.
func (r *Rule) matches(who *principal.Principal, text string, fingerprint func() string) bool {
	if r.Token != "" && (who == nil || who.Name != r.Token) {
		return false
	}
	switch {
	case r.Regexp != nil:
		return r.Regexp.MatchString(text)
	case r.Fingerprint != "":
		return r.Fingerprint == fingerprint()
	}
	return r.Text == "" || r.Text == text
}

// Fingerprint returns 16 hexadecimal digits that are equal for expressions with the same normalised text, see [Normalise].
func Fingerprint(p parser.Parser, text string) (string, error) {
	normalised, err := Normalise(p, text)
	if err != nil {
		return "", err
	}
	return FingerprintOf(normalised), nil
}

// FingerprintOf returns the fingerprint of a normalised text.
func FingerprintOf(normalised string) string {
	return fmt.Sprintf("%016x", xxh3.HashString(normalised))
}

// Normalise formats an expression. Expressions have the same result if they differ only in spaces, comments, and the order of
// label matchers and grouping labels.
func Normalise(p parser.Parser, text string) (string, error) {
	expr, err := p.ParseExpr(text)
	if err != nil {
		return "", err
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			slices.SortFunc(n.LabelMatchers, func(a, b *labels.Matcher) int {
				return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), strings.Compare(a.Value, b.Value))
			})
		case *parser.AggregateExpr:
			slices.Sort(n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				slices.Sort(n.VectorMatching.MatchingLabels)
				slices.Sort(n.VectorMatching.Include)
			}
		}
		return nil
	})
	return expr.String(), nil
}
