package principal

import (
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"halite/keyschema"
)

// Selector selects series by the stored names of their metrics.
type Selector struct {
	// Tenant is the owner of the series, and Prefix is the prefix of the stored names of its metrics. Tenant is "" on a
	// server without tenants.
	Tenant, Prefix string
	Matchers       []*labels.Matcher

	// ownFrom and ownTo bound the matchers of the Principal.
	ownFrom, ownTo int
}

// Split divides the matchers into the requested ones and the ones that restrict the Principal.
func (s *Selector) Split() (requested, own []*labels.Matcher) {
	return slices.Concat(s.Matchers[:s.ownFrom], s.Matchers[s.ownTo:]), s.Matchers[s.ownFrom:s.ownTo]
}

// Several reports whether the Principal reads series of more than one tenant. They have the label keyschema.TenantLabel.
func (p *Principal) Several() bool { return p != nil && len(p.Tenants) > 1 }

// Tenancy names the tenants of the Principal, in any order; "" on a server without tenants, and for the server itself.
func (p *Principal) Tenancy() string {
	switch {
	case p == nil || len(p.Tenants) == 0:
		return ""
	case len(p.Tenants) == 1:
		return p.Tenants[0]
	}
	names := slices.Clone(p.Tenants)
	slices.Sort(names)
	return strings.Join(names, "|")
}

// Prefix is the prefix of the stored names of metrics that the Principal writes. It is "" for the default tenant and for the
// server itself.
func (p *Principal) Prefix() string {
	if p == nil || len(p.Tenants) == 0 {
		return ""
	}
	return keyschema.TenantPrefix(p.Tenants[0])
}

// Stored returns the stored names of a metric, one for each tenant.
func (p *Principal) Stored(metric string) []string {
	if p == nil || len(p.Tenants) == 0 {
		return []string{metric}
	}
	out := make([]string, len(p.Tenants))
	for i, tenant := range p.Tenants {
		out[i] = keyschema.TenantPrefix(tenant) + metric
	}
	return out
}

// Selectors returns a Selector for each tenant of the Principal that may have matching series. It does not change matchers.
// The matchers of a Selector accept no metric of another tenant.
func (p *Principal) Selectors(matchers []*labels.Matcher) []Selector {
	requested := len(matchers)
	matchers = p.Restrict(matchers)
	if p == nil || len(p.Tenants) == 0 {
		return []Selector{{Matchers: matchers, ownFrom: requested, ownTo: len(matchers)}}
	}
	out := make([]Selector, 0, len(p.Tenants))
	for _, tenant := range p.Tenants {
		rest, from := matchers, requested
		if p.Several() {
			var ok bool
			if rest, ok = ofTenant(tenant, matchers); !ok {
				continue
			}
			first, _ := ofTenant(tenant, matchers[:requested])
			from = len(first)
		}
		s := Selector{Tenant: tenant, Prefix: keyschema.TenantPrefix(tenant), ownFrom: from, ownTo: len(rest)}
		var ok bool
		if s.Matchers, ok = stored(s.Prefix, rest); ok {
			out = append(out, s)
		}
	}
	return out
}

// ofTenant evaluates the matchers of keyschema.TenantLabel and returns the others. ok is false if the tenant does not match.
func ofTenant(tenant string, matchers []*labels.Matcher) (rest []*labels.Matcher, ok bool) {
	for _, m := range matchers {
		switch {
		case m.Name != keyschema.TenantLabel:
			rest = append(rest, m)
		case !m.Matches(tenant):
			return nil, false
		}
	}
	return rest, true
}

// stored returns matchers of stored names with a prefix. They accept a stored name where the given ones accept the name
// without the prefix. ok is false if nothing can match.
func stored(prefix string, matchers []*labels.Matcher) (out []*labels.Matcher, ok bool) {
	bounded := false // a matcher accepts names of the tenant only
	out = make([]*labels.Matcher, 0, len(matchers)+1)
	for _, m := range matchers {
		if m == nil || m.Name != model.MetricNameLabel || m.Value == "" && m.Type != labels.MatchNotRegexp {
			out = append(out, m)
			continue
		}
		if m.Type == labels.MatchEqual {
			if prefix == "" && strings.HasPrefix(m.Value, string(keyschema.TenantMark)) {
				return nil, false
			}
			bounded = true
		}
		if prefix != "" {
			m = prefixed(prefix, m)
			bounded = bounded || m.Type == labels.MatchRegexp
		}
		out = append(out, m)
	}
	switch {
	case bounded:
	case prefix == "":
		out = append(out, nameMatcher(labels.MatchNotRegexp, string(keyschema.TenantMark)+".*"))
	default:
		out = append(out, nameMatcher(labels.MatchRegexp, regexp.QuoteMeta(prefix)+".+"))
	}
	return out, true
}

// prefixed returns a matcher that accepts, or refuses, the names that m does, with the prefix in front.
func prefixed(prefix string, m *labels.Matcher) *labels.Matcher {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return nameMatcher(m.Type, prefix+m.Value)
	}
	if set := m.SetMatches(); len(set) > 0 && m.Type == labels.MatchRegexp {
		quoted := make([]string, len(set))
		for i, value := range set {
			quoted[i] = regexp.QuoteMeta(prefix + value)
		}
		return nameMatcher(m.Type, strings.Join(quoted, "|"))
	}
	// The text of a syntax tree is self-contained: it ends each quotation and group that it begins.
	tree, err := syntax.Parse(m.Value, syntax.Perl|syntax.DotNL)
	if err != nil {
		panic(err) // the matcher was compiled from it
	}
	return nameMatcher(m.Type, regexp.QuoteMeta(prefix)+"(?:"+tree.String()+")")
}

func nameMatcher(t labels.MatchType, value string) *labels.Matcher {
	return labels.MustNewMatcher(t, model.MetricNameLabel, value)
}
