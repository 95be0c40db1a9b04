package config

import (
	"regexp"
	"strings"

	"halite/query/limits"
)

// QueryRule refuses queries or sends them through the slow lane. At most one of Query, Regexp and Fingerprint selects the
// queries. Token selects their senders.
type QueryRule struct {
	ID          string         `yaml:"id"`
	Query       string         `yaml:"query,omitempty"`
	Regexp      *Regexp        `yaml:"regexp,omitempty"`
	Fingerprint string         `yaml:"fingerprint,omitempty"`
	Token       string         `yaml:"token,omitempty"`
	Action      *limits.Action `yaml:"action"`
	Reason      string         `yaml:"reason"`
}

// Regexp is a regular expression of RE2 that matches a whole text.
type Regexp struct {
	text    string
	matcher *regexp.Regexp
}

// MarshalText returns the text without its anchors.
func (r Regexp) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// UnmarshalText compiles a text.
func (r *Regexp) UnmarshalText(text []byte) (err error) {
	r.text = string(text)
	r.matcher, err = limits.CompileRegexp(r.text)
	return err
}

// queryRulesMax bounds the rules, because each may be tried for each query.
const queryRulesMax = 1000

// validate reports the faults of a rule that follows others.
func (r *QueryRule) validate(field string, before []QueryRule, fault func(field, format string, args ...any)) {
	if len(before) == queryRulesMax {
		fault(field, "there are more than %d query rules", queryRulesMax)
	}
	if r.ID == "" {
		fault(field+".id", "the id is empty")
	}
	for i := range before {
		if before[i].ID == r.ID {
			fault(field+".id", "%q has two rules", r.ID)
		}
	}
	matchers := 0
	for _, given := range []bool{strings.TrimSpace(r.Query) != "", r.Regexp != nil, r.Fingerprint != ""} {
		if given {
			matchers++
		}
	}
	if matchers > 1 || matchers == 0 && r.Token == "" {
		fault(field, "the rule has %d of the fields query, regexp and fingerprint, want one; with token, none is needed", matchers)
	}
	if text := strings.TrimSpace(r.Query); text != "" {
		if err := limits.CheckText(text); err != nil {
			fault(field+".query", "it is not an expression of PromQL: %w", err)
		}
	}
	if r.Fingerprint != "" && !limits.IsFingerprint(r.Fingerprint) {
		fault(field+".fingerprint", "%q is not a fingerprint: want 16 hexadecimal digits; "+
			"/api/v1/status/active_queries shows fingerprints",
			shortened(r.Fingerprint))
	}
	if r.Action == nil {
		fault(field+".action", "the action is missing, want refuse or slow_lane")
	}
	if r.Reason == "" {
		fault(field+".reason", "the reason is missing; the error of a refused query shows it")
	}
}

// queryRules returns the rules in the form of the engine.
func (c *Config) queryRules() (out []limits.Rule) {
	for i := range c.QueryRules {
		r := &c.QueryRules[i]
		rule := limits.Rule{ID: r.ID, Text: strings.TrimSpace(r.Query), Fingerprint: r.Fingerprint, Token: r.Token,
			Action: *r.Action, Reason: r.Reason}
		if r.Regexp != nil {
			rule.Regexp = r.Regexp.matcher
		}
		out = append(out, rule)
	}
	return out
}
