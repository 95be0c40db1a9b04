package tenancy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage/pebble"
	"halite/storage/principal"
	"halite/storage/tenants"
)

func newTenancy(t testing.TB) *Tenancy {
	store, err := pebble.Open(pebble.Options{Dir: "store", FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	list, err := tenants.Open(context.Background(), tenants.Options{Store: store})
	require.NoError(t, err)
	x, err := New(Options{List: list})
	require.NoError(t, err)
	return x
}

// FuzzHeader: a header leads to tenants with valid names that the principal may act for, or to an error with a status.
func FuzzHeader(f *testing.F) {
	for _, seed := range []string{"a", "a|b", "", "|", "a|a", "A&b", "default", "c", strings.Repeat("a|", 20), "a\x00", "..", "é"} {
		f.Add(seed)
	}
	x := newTenancy(f)
	f.Fuzz(func(t *testing.T, header string) {
		who := &principal.Principal{Name: "token", Scopes: principal.Every, Tenants: []string{"a", "b", keyschema.DefaultTenant}}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set(Header, header)
		p, err := x.Resolve(r, who, Read)
		if err != nil {
			refusal := new(Error)
			require.True(t, errors.As(err, &refusal))
			require.Contains(t, []int{400, 403}, refusal.Status)
			return
		}
		require.Equal(t, header, strings.Join(p.Tenants, "|"))
		require.Subset(t, who.Tenants, p.Tenants)
		require.Len(t, who.Tenants, 3)
	})
}

// TestNoTenant: the error says whether the header is missing or comes from an address that is not trusted.
func TestNoTenant(t *testing.T) {
	t.Parallel()
	x := newTenancy(t)
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	_, err := x.Resolve(r, &principal.Principal{}, Write)
	require.ErrorContains(t, err, "no tenant: a request without log-in acts for none, and the header X-Scope-OrgID is missing")
	_, err = x.Resolve(r, &principal.Principal{Name: "grafana"}, Write)
	require.ErrorContains(t, err, `no tenant: "grafana" acts for none`)
	r.Header.Set(Header, "a")
	_, err = x.Resolve(r, &principal.Principal{}, Write)
	require.ErrorContains(t, err, "is not accepted from this address (--tenants.trust-header)")
}
