package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tenantServer is a server with tenants. Its tokens are the names of the tenants, and operator.
type tenantServer struct {
	*server
	dir, addr string
	flags     []string
}

func startTenants(t *testing.T, dir string, flags ...string) *tenantServer {
	access := "tokens:\n" + token("operator", "scopes: [read, admin]") +
		token("all", "scopes: [read], tenants: [acme, beta, default]")
	for _, name := range []string{"acme", "beta", "default", "new"} {
		access += token(name, "scopes: [read, write, admin], tenant: "+name)
	}
	file := filepath.Join(t.TempDir(), "access.yml")
	require.NoError(t, os.WriteFile(file, []byte(access), 0o600))
	flags = append([]string{"--tenants", "--web.access-file", file, "--web.enable-admin-api"}, flags...)
	s := &tenantServer{dir: dir, addr: freeAddress(t), flags: flags}
	s.server = startServerAt(t, dir, s.addr, flags...)
	return s
}

// again starts the server again after an end by a signal.
func (s *tenantServer) again(sig syscall.Signal) {
	s.t.Helper()
	_ = s.end(sig)
	s.server = startServerAt(s.t, s.dir, s.addr, s.flags...)
}

// ask sends a request with the token of that name, and with the header X-Scope-OrgID unless org is "".
func (s *tenantServer) ask(who, org, method, target, body string) (status int, text string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+target, bytes.NewReader([]byte(body)))
	require.NoError(s.t, err)
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	if org != "" {
		req.Header.Set("X-Scope-OrgID", org)
	}
	if body != "" {
		req.Header.Set("Content-Type", "text/plain")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(content)
}

// values asks a query for the values of its series, sorted.
func (s *tenantServer) values(who, org, expr string, at time.Time) string {
	s.t.Helper()
	q := url.Values{"query": {expr}, "time": {seconds(at.UnixMilli())}}
	status, text := s.ask(who, org, http.MethodGet, "/api/v1/query?"+q.Encode(), "")
	require.Equal(s.t, http.StatusOK, status, text)
	var values []string
	for part := range strings.SplitSeq(text, `"value":[`) {
		if _, value, found := strings.Cut(part, `,"`); found && !strings.HasPrefix(part, "{") {
			value, _, _ = strings.Cut(value, `"`)
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return strings.Join(values, " ")
}

// writeThree writes a sample to each of three series of a tenant.
func (s *tenantServer) writeThree(who string, base int, at time.Time) {
	s.t.Helper()
	text := ""
	for i := range 3 {
		text += fmt.Sprintf("m{i=\"%d\",%s=\"x\"} %d %d\n", i, who, base+i, at.UnixMilli())
	}
	status, answer := s.ask(who, "", http.MethodPost, "/api/v1/import/prometheus", text)
	require.Less(s.t, status, 300, answer)
}

// TestTenants: tenants with equal series stay apart in memory, in tables, after a crash, and in deletions. Series from before
// belong to the default tenant.
func TestTenants(t *testing.T) {
	t.Parallel()
	tenantsApart(t, "--web.self-scrape-interval=1s")
}

func TestBigtableTenants(t *testing.T) {
	t.Parallel()
	startEmulator(t)
	tenantsApart(t, onBigtable()...)
}

func tenantsApart(t *testing.T, engine ...string) {
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	old := now.Add(-3 * time.Hour)
	before := startServer(t, dir, engine...)
	before.write([]point{{"before", "a", old.UnixMilli(), 7}})
	require.NoError(t, before.end(syscall.SIGTERM))

	s := startTenants(t, dir, engine...)
	require.Equal(t, "7", s.values("default", "", "before", old))
	require.Empty(t, s.values("acme", "", "before", old))
	bases := map[string]int{"acme": 10, "beta": 20, "default": 30}
	for who, base := range bases {
		s.writeThree(who, base, old)
	}
	status, text := s.ask("operator", "", http.MethodPost, "/api/v1/admin/flush", "")
	require.Less(t, status, 300, text)
	for who, base := range bases {
		s.writeThree(who, base+100, now)
	}
	check := func() {
		t.Helper()
		for who, base := range bases {
			require.Equal(t, fmt.Sprintf("%d %d %d", base, base+1, base+2), s.values(who, "", "m", old), who)
			require.Equal(t, fmt.Sprintf("%d %d %d", base+100, base+101, base+102), s.values(who, "", "m", now), who)
			require.Equal(t, "2", s.values(who, "", `count_over_time(m{i="0"}[4h])`, now), who)
			require.Empty(t, s.values(who, "", `{"&beta&m"}`, now))
		}
		require.Equal(t, "10 11 12 20 21 22 30 31 32", s.values("all", "beta|acme|default", "m", old))
		require.Equal(t, "11 21", s.values("all", "acme|beta", `m{i="1"}`, old))
		require.Equal(t, "7", s.values("default", "", "before", old))
	}
	check()
	s.again(syscall.SIGKILL)
	check()
	s.again(syscall.SIGTERM)
	check()
	// The server's own samples go to the default tenant.
	require.Eventually(t, func() bool {
		return slices.Contains(engine, "--no-web.self-scrape") ||
			s.values("default", "", "count(tsdb_build_info)", time.Now()) != ""
	}, time.Minute, 100*time.Millisecond)
	require.Empty(t, s.values("acme", "", "count(tsdb_build_info)", time.Now()))

	q := url.Values{"match[]": {`{i="1"}`}, "start": {seconds(old.UnixMilli() - 1000)}, "end": {seconds(old.UnixMilli() + 1000)}}
	status, text = s.ask("beta", "", http.MethodPost, "/api/v1/admin/tsdb/delete_series?"+q.Encode(), "")
	require.Equal(t, http.StatusNoContent, status, text)
	deleted := func() {
		t.Helper()
		require.Equal(t, "10 11 12", s.values("acme", "", "m", old))
		require.Equal(t, "20 22", s.values("beta", "", "m", old))
		require.Equal(t, "30 31 32", s.values("default", "", "m", old))
		require.Equal(t, "120 121 122", s.values("beta", "", "m", now))
	}
	deleted()
	status, text = s.ask("beta", "", http.MethodPost, "/api/v1/admin/tsdb/clean_tombstones", "")
	require.Equal(t, http.StatusForbidden, status, text)
	status, text = s.ask("operator", "", http.MethodPost, "/api/v1/admin/tsdb/clean_tombstones", "")
	require.Equal(t, http.StatusNoContent, status, text)
	deleted()
	s.again(syscall.SIGKILL)
	deleted()

	require.NoError(t, s.end(syscall.SIGTERM))
	out, err := tsdb(t, append([]string{"serve", "--storage.path", dir, "--web.listen-address", s.addr}, engine...)...)
	require.Error(t, err)
	require.Contains(t, out, `the store has 2 tenants, "acme" first; start with --tenants`)
}

// TestTenantFlags: contradictions of flags and files are named.
func TestTenantFlags(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "access.yml")
	require.NoError(t, os.WriteFile(file, []byte("tokens:\n"+token("x", "scopes: [read], tenant: acme")), 0o600))
	for want, flags := range map[string][]string{
		"--tenants.trust-header needs --tenants":          {"--tenants.trust-header=10.0.0.1"},
		`--tenants.trust-header: "10.0.0.1/x" is neither`: {"--tenants", "--tenants.trust-header=10.0.0.1,10.0.0.1/x"},
		"must be above 0": {"--tenants", "--tenants.max=0"},
		"tokens[0].tenant: needs a server with --tenants": {"--web.access-file", file},
	} {
		serve := []string{"serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t)}
		out, err := tsdb(t, append(serve, flags...)...)
		require.Error(t, err)
		require.Contains(t, out, want)
	}
}
