package limits

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Defaults of the options for added rules.
const (
	addedRulesDefault     = 100
	addedRuleBytesDefault = 16 << 10
)

// Errors of AddRule and RemoveRule.
var (
	ErrBadRule      = errors.New("bad query rule")
	ErrTooManyRules = errors.New("there are too many added query rules; remove one, or write the rule into query_rules of the " +
		"configuration file")
	ErrUnknownRule = errors.New("no query rule with this id was added through the API")
)

// CompileRegexp compiles the regular expression of a rule. It must match the whole text of a query.
func CompileRegexp(text string) (*regexp.Regexp, error) { return regexp.Compile("^(?s:" + text + ")$") }

// CheckText returns the error of a parser with all features if the text of a rule is not an expression. No query that the server
// evaluates has such a text.
func CheckText(text string) error {
	_, err := parser.NewParser(parser.Options{
		ExperimentalDurationExpr: true, EnableExperimentalFunctions: true, EnableExtendedRangeSelectors: true,
		EnableBinopFillModifiers: true,
	}).ParseExpr(text)
	return err
}

// IsFingerprint reports whether a text has the form of a fingerprint.
func IsFingerprint(text string) bool {
	if len(text) != 16 {
		return false
	}
	for _, r := range text {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// check returns ErrBadRule with the fault of a rule, or nil. It ignores the id.
func (r *Rule) check() error {
	given := 0
	for _, is := range []bool{r.Text != "", r.Regexp != nil, r.Fingerprint != ""} {
		if is {
			given++
		}
	}
	switch {
	case given > 1 || given == 0 && r.Token == "":
		return fmt.Errorf("%w: it sets %d of query, regexp and fingerprint; it must set exactly one, or only token", ErrBadRule,
			given)
	case r.Fingerprint != "" && !IsFingerprint(r.Fingerprint):
		return fmt.Errorf("%w: %q is not a fingerprint: want 16 hexadecimal digits", ErrBadRule, r.Fingerprint)
	case r.Reason == "":
		return fmt.Errorf("%w: the reason is missing; the error of a refused query shows it", ErrBadRule)
	case r.Text != "":
		if err := CheckText(r.Text); err != nil {
			return fmt.Errorf("%w: query: it is not an expression of PromQL: %w", ErrBadRule, err)
		}
	}
	return nil
}

// sizeBytes returns the total length of a rule's strings.
func (r *Rule) sizeBytes() int {
	n := len(r.Text) + len(r.Fingerprint) + len(r.Token) + len(r.Reason)
	if r.Regexp != nil {
		n += len(r.Regexp.String())
	}
	return n
}

// AddRule adds a rule before all others and returns its new id. It ignores the id of r. The rule stays until RemoveRule or the
// end of the process. The error is ErrBadRule or ErrTooManyRules.
func (c *Control) AddRule(r Rule) (id string, err error) {
	r.Text = strings.TrimSpace(r.Text)
	if err := r.check(); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	added, o := *c.added.Load(), c.opts.Load()
	if most := cmp.Or(o.AddedRulesMax, addedRulesDefault); len(added) >= most {
		return "", fmt.Errorf("%w: the limit is %d", ErrTooManyRules, most)
	}
	if most, bytes := cmp.Or(o.AddedRuleBytesMax, addedRuleBytesDefault), r.sizeBytes(); bytes > most {
		return "", fmt.Errorf("%w: its strings have %d bytes, the limit is %d", ErrBadRule, bytes, most)
	}
	for r.ID = ""; r.ID == "" || c.rules[r.ID] != nil; {
		c.lastAdded++
		r.ID = fmt.Sprintf("added-%d", c.lastAdded)
	}
	list := append([]Rule{r}, added...)
	c.added.Store(&list)
	c.keepCounts()
	return r.ID, nil
}

// RemoveRule removes a rule that AddRule has added. The error is ErrUnknownRule.
func (c *Control) RemoveRule(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := *c.added.Load()
	at := slices.IndexFunc(added, func(r Rule) bool { return r.ID == id })
	if at < 0 {
		return fmt.Errorf("%w: %q", ErrUnknownRule, id)
	}
	list := slices.Concat(added[:at], added[at+1:])
	c.added.Store(&list)
	c.keepCounts()
	return nil
}
