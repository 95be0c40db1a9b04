package principal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
)

// Scopes is a set of rights.
type Scopes uint8

// Read permits queries, look-ups and status pages. Write permits writes of samples. Admin permits changes of the server
// and deletions.
const (
	Read Scopes = 1 << iota
	Write
	Admin

	// Every has all rights.
	Every = Read | Write | Admin
)

// scopeNames are the names of the scopes, in the order of their bits.
func scopeNames() []string { return []string{"read", "write", "admin"} }

// ParseScopes parses names of scopes. The error names the unknown or repeated scope, or says that there is none.
func ParseScopes(names []string) (s Scopes, err error) {
	for _, name := range names {
		bit := slices.Index(scopeNames(), name)
		if bit < 0 {
			return 0, fmt.Errorf("scope %q is unknown; known are %s", name, strings.Join(scopeNames(), ", "))
		}
		if s.Has(1 << bit) {
			return 0, fmt.Errorf("scope %q is given twice", name)
		}
		s |= 1 << bit
	}
	if s == 0 {
		return 0, errors.New("there is no scope; known are " + strings.Join(scopeNames(), ", "))
	}
	return s, nil
}

// Has reports whether the set holds all of want.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String lists the names with commas between them; an empty set is "none".
func (s Scopes) String() string {
	var list []string
	for i, name := range scopeNames() {
		if s.Has(1 << i) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",")
}

// Principal is the sender of a request. It must not change once it is in a context.
type Principal struct {
	// Name is the user, the token or the client certificate; "" if no log-in is required.
	Name string
	// Scopes are the rights.
	Scopes Scopes
	// Match restricts the Principal's reads: each selector gets these matchers. An empty list restricts
	// nothing.
	Match []*labels.Matcher
	// Tenants are the tenants whose series the Principal writes and reads, without repetition. A server without tenants has
	// none. On a server with tenants, a Principal without tenants sees no series, but it may administer the server.
	Tenants []string

	activity *Activity // nil on a server without tenants
}

// Restricted reports whether matchers restrict the reads of the Principal. Nil is not restricted.
func (p *Principal) Restricted() bool { return p != nil && len(p.Match) > 0 }

// Restrict returns matchers with the restrictions of the Principal. It does not change matchers.
func (p *Principal) Restrict(matchers []*labels.Matcher) []*labels.Matcher {
	if !p.Restricted() {
		return matchers
	}
	return slices.Concat(matchers, p.Match)
}

// CacheKey is equal for Principals that read the same series. It is "" for Principals without a restriction.
func (p *Principal) CacheKey() string {
	if p == nil || len(p.Match)+len(p.Tenants) == 0 {
		return ""
	}
	list := make([]string, 0, len(p.Match))
	for _, m := range p.Match {
		list = append(list, m.String())
	}
	slices.Sort(list)
	return p.Tenancy() + "{" + strings.Join(list, ",") + "}"
}

type contextKey struct{}

// With returns a context of a request by p.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the Principal of a request, or nil for the server itself.
func From(ctx context.Context) *Principal {
	p, _ := ctx.Value(contextKey{}).(*Principal)
	return p
}
