package tenancy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/principal"
	"halite/storage/tenants"
)

// Header names the tenants of a request, with '|' between them.
const Header = "X-Scope-OrgID"

// SeveralMaxDefault is the default of Options.SeveralMax.
const SeveralMaxDefault = 16

// Reasons of an Error.
const (
	// ReasonNone: the request names no tenant.
	ReasonNone = "no_tenant"
	// ReasonInvalid: a name is invalid, or there are too many.
	ReasonInvalid = "bad_tenant"
	// ReasonForbidden: the sender may not act for the tenant.
	ReasonForbidden = "tenant"
	// ReasonUnknown: the tenant is unknown, and writes do not create it.
	ReasonUnknown = "unknown_tenant"
	// ReasonDropping: the tenant is being dropped.
	ReasonDropping = "tenant_dropping"
	// ReasonMany: there are too many tenants.
	ReasonMany = "too_many_tenants"
	// ReasonStorage: the list of tenants cannot be read or written.
	ReasonStorage = "storage"
)

// Error is the reason for which a request is refused.
type Error struct {
	// Status is the status code.
	Status int
	Reason string
	err    error
}

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// Options configure Tenancy. List is required.
type Options struct {
	List *tenants.Registry
	// Trusted are the addresses of proxies. Their requests may name any tenants in the header. Default none.
	Trusted []netip.Prefix
	// SeveralMax bounds the tenants of a request. Default SeveralMaxDefault.
	SeveralMax int
	// SharedCPUs bounds the CPUs that the requests of a tenant use while others are active; 0 means three quarters, at least one.
	SharedCPUs int
}

// Tenancy determines the tenants of requests.
type Tenancy struct {
	opts     Options
	activity *principal.Activity
}

// New checks options.
func New(o Options) (*Tenancy, error) {
	if o.List == nil || o.SeveralMax < 0 || o.SharedCPUs < 0 {
		return nil, errors.New("tenancy: List is required, and SeveralMax and SharedCPUs must not be negative")
	}
	o.SeveralMax = cmp.Or(o.SeveralMax, SeveralMaxDefault)
	return &Tenancy{opts: o, activity: principal.NewActivity(time.Now, o.SharedCPUs)}, nil
}

// Active records that the principal of ctx is active, as Resolve does for requests. It returns ctx with the principal's share of
// the server.
func (t *Tenancy) Active(ctx context.Context) context.Context {
	return principal.With(ctx, t.activity.For(principal.From(ctx)))
}

// Use says how a route uses the series of tenants.
type Use uint8

const (
	// None: the route shows or changes the server. It refuses principals of tenants.
	None Use = iota
	// Read: the route reads series of one tenant or several.
	Read
	// Change: the route changes series of one tenant.
	Change
	// Look: the route shows the whole server, or one tenant's part of it to principals of tenants.
	Look
	// NoSeries: the route shows no series. It answers principals with any tenants, and without one.
	NoSeries
	// Write: the route adds series of one tenant, which may be new.
	Write
)

// Resolve returns the principal p with the tenants of its request. The error is an *Error.
func (t *Tenancy) Resolve(r *http.Request, p *principal.Principal, use Use) (*principal.Principal, error) {
	p, err := t.chosen(r, p)
	if err != nil {
		return nil, err
	}
	n := len(p.Tenants)
	switch {
	case use == None && n > 0:
		return nil, refuse(http.StatusForbidden, ReasonForbidden,
			"%s acts for tenant %s; this request affects the whole server", nameOf(p), strings.Join(p.Tenants, "|"))
	case use == None, n == 0 && (use == Look || use == NoSeries):
		return p, nil
	case n == 0:
		fault := "is missing"
		if r.Header.Get(Header) != "" {
			fault = "is not accepted from this address (--tenants.trust-header)"
		}
		return nil, refuse(http.StatusUnauthorized, ReasonNone, "no tenant: %s acts for none, and the header %s %s",
			nameOf(p), Header, fault)
	case use != Read && use != NoSeries && n > 1:
		return nil, refuse(http.StatusBadRequest, ReasonInvalid, "this request is for one tenant, not for %d; name it in the header %s",
			n, Header)
	}
	for _, name := range p.Tenants {
		if err := t.check(r.Context(), name, use); err != nil {
			return nil, err
		}
	}
	return t.activity.For(p), nil
}

// nameOf names the sender of a request in an error.
func nameOf(p *principal.Principal) string {
	if p.Name == "" {
		return "a request without log-in"
	}
	return strconv.Quote(p.Name)
}

// chosen returns the principal with the tenants that the header chooses.
func (t *Tenancy) chosen(r *http.Request, p *principal.Principal) (*principal.Principal, error) {
	values := r.Header.Values(Header)
	switch {
	case len(values) == 0 && len(p.Tenants) > 1:
		return nil, refuse(http.StatusUnauthorized, ReasonNone, "no tenant: %q acts for %s; name some of them in the header %s",
			p.Name, strings.Join(p.Tenants, ", "), Header)
	case len(values) == 0:
		return p, nil
	case len(values) > 1:
		return nil, refuse(http.StatusBadRequest, ReasonInvalid, "the header %s appears %d times", Header, len(values))
	case len(p.Tenants) == 0 && !t.trusts(r.RemoteAddr):
		return p, nil
	}
	names := strings.Split(values[0], "|")
	if len(names) > t.opts.SeveralMax {
		return nil, refuse(http.StatusBadRequest, ReasonInvalid, "the header %s names %d tenants, at most %d are allowed "+
			"(--tenants.max-in-query)", Header, len(names), t.opts.SeveralMax)
	}
	for i, name := range names {
		if err := keyschema.CheckTenant(name); err != nil {
			return nil, refuse(http.StatusBadRequest, ReasonInvalid, "header %s: %w", Header, err)
		}
		if slices.Contains(names[:i], name) {
			return nil, refuse(http.StatusBadRequest, ReasonInvalid, "header %s: tenant %q appears twice", Header, name)
		}
		if len(p.Tenants) > 0 && !slices.Contains(p.Tenants, name) {
			return nil, refuse(http.StatusForbidden, ReasonForbidden, "%q may not act for tenant %q", p.Name, name)
		}
	}
	if slices.Equal(names, p.Tenants) {
		return p, nil
	}
	own := *p
	own.Tenants = names
	return &own, nil
}

// trusts reports whether an address with a port belongs to a proxy.
func (t *Tenancy) trusts(remote string) bool {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	addr := at.Addr().Unmap()
	return slices.ContainsFunc(t.opts.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// check returns an error if a tenant may not be used.
func (t *Tenancy) check(ctx context.Context, name string, use Use) error {
	do := t.opts.List.Check
	if use == Write {
		do = t.opts.List.Ensure
	}
	switch err := do(ctx, name); {
	case err == nil:
		return nil
	case errors.Is(err, tenants.ErrUnknown):
		return &Error{http.StatusForbidden, ReasonUnknown, err}
	case errors.Is(err, tenants.ErrDropping):
		return &Error{http.StatusForbidden, ReasonDropping, err}
	case errors.Is(err, tenants.ErrTooMany):
		return &Error{http.StatusForbidden, ReasonMany, err}
	case errors.Is(err, storage.ErrUnavailable):
		return &Error{http.StatusServiceUnavailable, ReasonStorage, err}
	default:
		return &Error{http.StatusInternalServerError, ReasonStorage, err}
	}
}

func refuse(status int, reason, format string, args ...any) error {
	return &Error{status, reason, fmt.Errorf(format, args...)}
}
