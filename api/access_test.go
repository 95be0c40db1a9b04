package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gorilla/mux"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"halite/api/auth"
	"halite/api/opentsdb/queries"
	"halite/api/receiver/influx"
	"halite/api/tenancy"
	"halite/storage/aliases"
	"halite/storage/pebble"
	"halite/storage/principal"
	"halite/storage/tombstone"
)

// guests are senders with all combinations of rights. The token of each guest is its name.
func guests() map[string]*principal.Principal {
	only, err := parser.NewParser(parser.Options{}).ParseMetricSelector(`{job="node"}`)
	if err != nil {
		panic(err)
	}
	return map[string]*principal.Principal{
		"reader": {Name: "reader", Scopes: principal.Read}, "writer": {Name: "writer", Scopes: principal.Write},
		"admin": {Name: "admin", Scopes: principal.Admin}, "everything": {Name: "everything", Scopes: principal.Every},
		"part":      {Name: "part", Scopes: principal.Read, Match: only},
		"partadmin": {Name: "partadmin", Scopes: principal.Admin | principal.Read, Match: only},
	}
}

// authenticator is a real one with the tokens of guests.
func authenticator(t testing.TB) *auth.Authenticator {
	t.Helper()
	text := "tokens:\n"
	for name, p := range guests() {
		hash := sha256.Sum256([]byte(name))
		text += fmt.Sprintf("  - {name: %s, scopes: [%s], sha256: %x, match: %q}\n", name, p.Scopes, hash, p.CacheKey())
	}
	path := filepath.Join(t.TempDir(), "access.yml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	a, err := auth.New(auth.Options{AccessFile: path})
	require.NoError(t, err)
	return a
}

// guarded is a server over fakes in which everything is enabled and guests log in.
func guarded(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	store, err := pebble.Open(pebble.Options{Dir: "store", FS: vfs.NewMem()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	known, err := aliases.Open(context.Background(), aliases.Options{Store: store})
	require.NoError(t, err)
	return newFixture(t, func(o *Options) {
		o.Auth, o.AdminAPI, o.Deleter, o.Aliases = authenticator(t), true, &fakeDeleter{}, known
		o.Reload, o.Quit = func(context.Context) error { return nil }, func() {}
		o.OpenTSDB = struct{ queries.Engine }{} // never asked
		if change != nil {
			change(o)
		}
	})
}

// TestAccess sends to each route as each guest, with a wrong token and without one.
func TestAccess(t *testing.T) {
	for _, guard := range []bool{false, true} {
		f := guarded(t, func(o *Options) { o.GuardProbes = guard })
		require.Greater(t, len(f.routes), 40)
		for _, e := range f.routes {
			for _, method := range e.used {
				path, _, _ := strings.Cut(strings.ReplaceAll(e.name, "{name}", "job"), " ")
				require.Equal(t, !e.needs.open, f.code(t, method, path, "", 401), path)
				require.Equal(t, !e.needs.open, f.code(t, method, path, "wrong", 401), path)
				for name, p := range guests() {
					may := e.needs.open || p.Scopes.Has(e.needs.scopes) && (e.needs.restricted || !p.Restricted())
					require.Equal(t, !may, f.code(t, method, path, name, 403), "%s as %s", path, name)
				}
			}
		}
		require.False(t, f.code(t, http.MethodGet, "/nothing", "", 401))
	}
}

// code sends a request with a token, and reports whether the response is a refusal with that code.
func (f *fixture) code(t *testing.T, method, path, token string, code int) bool {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := f.do(r)
	if w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
		return false
	}
	require.Equal(t, code, w.Code, "%s as %q", path, token)
	require.Equal(t, code == http.StatusUnauthorized, len(w.Header().Values("WWW-Authenticate")) == 2)
	if method != http.MethodHead {
		if strings.HasPrefix(w.Body.String(), `{"error":{`) { // of OpenTSDB
			require.Contains(t, w.Body.String(), fmt.Sprintf(`"code":%d,"message":"`, code))
			return true
		}
		var response struct {
			Status, ErrorType, Error, Message string
			Code                              any
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response), w.Body)
		switch strings.TrimPrefix(path, influx.Prefix) {
		case "/write", "/api/v2/write", "/query": // of InfluxDB
			require.NotEmpty(t, response.Error+response.Message)
			return true
		case "/v1/metrics", "/api/v1/otlp/v1/metrics", "/otlp/v1/metrics", "/opentelemetry/v1/metrics":
			require.EqualValues(t, map[int]codes.Code{401: codes.Unauthenticated, 403: codes.PermissionDenied}[code], response.Code)
			require.NotEmpty(t, response.Message)
			return true
		}
		require.Equal(t, "error", response.Status)
		require.Equal(t, map[int]string{401: "unauthorized", 403: "forbidden"}[code], response.ErrorType)
		require.NotEmpty(t, response.Error)
	}
	return true
}

// TestAccessIsCounted: refusals are counted by reason, and refused senders are remembered.
func TestAccessIsCounted(t *testing.T) {
	f := guarded(t, nil)
	for _, c := range []struct {
		token, reason string
		code          int
	}{{"", "no_credentials", 401}, {"wrong", "bad_credentials", 401}, {"reader", "scope", 403}} {
		require.True(t, f.code(t, http.MethodPost, WritePath, c.token, c.code))
		labels := map[string]string{"handler": WritePath, "reason": c.reason}
		require.EqualValues(t, 1, f.metric(t, "tsdb_http_rejected_total", labels))
	}
	f.code(t, http.MethodGet, "/api/v1/status/flags", "part", 403)
	require.EqualValues(t, 1, f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": "/api/v1/status/flags", "reason": "restricted"}))
	require.Len(t, f.opts.Senders.Refusals(), 3)
	require.True(t, f.code(t, http.MethodGet, "/api/v1/query?query=up&explain=1", "part", 403))
	require.False(t, f.code(t, http.MethodGet, "/api/v1/query?query=up&explain=1", "reader", 403))
}

// TestRestrictedDeletions: a deletion gets the matchers of its sender.
func TestRestrictedDeletions(t *testing.T) {
	deleter := &fakeDeleter{}
	f := guarded(t, func(o *Options) { o.Deleter = deleter })
	f.code(t, http.MethodPost, "/api/v1/admin/tsdb/delete_series?match[]=up&match[]=x", "partadmin", 0)
	require.Equal(t, `{__name__="up",job="node"} or {__name__="x",job="node"}`,
		tombstone.SelectorsText(deleter.requests[0].Selectors))
}

// TestSecurityTable compares the table of docs/security.md with the routes.
func TestSecurityTable(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(strings.TrimSpace(cells[0]), "`/") {
			continue
		}
		for _, path := range strings.Split(cells[0], ",") {
			path = strings.Trim(strings.TrimSpace(path), "`")
			require.NotContains(t, documented, path)
			documented[path] = strings.TrimSpace(cells[1]) + " " + strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
		}
	}
	for _, e := range guarded(t, nil).routes {
		want := e.needs.scopes.String() + " " + map[bool]string{true: "its series", false: "403"}[e.needs.restricted] +
			" " + map[bool]string{true: "its series", false: "403"}[e.needs.tenants != tenancy.None]
		if e.needs.open {
			want = "none yes yes"
		}
		require.Equal(t, want, documented[e.name], e.name)
		delete(documented, e.name)
	}
	delete(documented, "/debug/pprof/") // the command serves it
	require.Empty(t, documented)
}

// TestEveryRouteNeedsSomething: a route without scopes refuses everybody.
func TestEveryRouteNeedsSomething(t *testing.T) {
	f := guarded(t, nil)
	for _, e := range f.routes {
		require.True(t, e.needs.open != (e.needs.scopes != 0), e.name)
		if slices.Contains(e.used, http.MethodPut) {
			require.NotEqual(t, principal.Read, e.needs.scopes, e.name)
		}
	}
	e := f.newRoute("forgotten", access{}, func(http.ResponseWriter, *http.Request) { t.Error("called") })
	router := mux.NewRouter()
	router.Path("/").Handler(e)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer everything")
	w := httptest.NewRecorder()
	router.ServeHTTP(w, r)
	require.Equal(t, http.StatusForbidden, w.Code)
}

// Paths are all endpoints, for the tests of the whole database.
func (s *Server) Paths() (list []string) {
	for _, e := range s.routes {
		list = append(list, e.name)
	}
	return list
}

// UseOf returns how an endpoint uses the series of tenants.
func (s *Server) UseOf(path string) tenancy.Use { return s.routeOf(path).needs.tenants }

// Open reports whether an endpoint needs no log-in.
func (s *Server) Open(path string) bool { return s.routeOf(path).needs.open }

func (s *Server) routeOf(path string) *route {
	return s.routes[slices.IndexFunc(s.routes, func(e *route) bool { return e.name == path })]
}
