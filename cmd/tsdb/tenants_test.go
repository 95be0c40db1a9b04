package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
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

func startTenants(t testing.TB, dir string, flags ...string) *tenantServer {
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

// request sends a request with the token of that name, and with the header X-Scope-OrgID unless org is "".
func (s *tenantServer) request(who, org, method, target, body string) (status int, text string) {
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

// values runs a query and returns the values of its series, sorted.
func (s *tenantServer) values(who, org, expr string, at time.Time) string {
	s.t.Helper()
	q := url.Values{"query": {expr}, "time": {seconds(at.UnixMilli())}}
	status, text := s.request(who, org, http.MethodGet, "/api/v1/query?"+q.Encode(), "")
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
	status, response := s.request(who, "", http.MethodPost, "/api/v1/import/prometheus", text)
	require.Less(s.t, status, 300, response)
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
	status, text := s.request("operator", "", http.MethodPost, "/api/v1/admin/flush", "")
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
	status, text = s.request("beta", "", http.MethodPost, "/api/v1/admin/tsdb/delete_series?"+q.Encode(), "")
	require.Equal(t, http.StatusNoContent, status, text)
	deleted := func() {
		t.Helper()
		require.Equal(t, "10 11 12", s.values("acme", "", "m", old))
		require.Equal(t, "20 22", s.values("beta", "", "m", old))
		require.Equal(t, "30 31 32", s.values("default", "", "m", old))
		require.Equal(t, "120 121 122", s.values("beta", "", "m", now))
	}
	deleted()
	status, text = s.request("beta", "", http.MethodPost, "/api/v1/admin/tsdb/clean_tombstones", "")
	require.Equal(t, http.StatusForbidden, status, text)
	status, text = s.request("operator", "", http.MethodPost, "/api/v1/admin/tsdb/clean_tombstones", "")
	require.Equal(t, http.StatusNoContent, status, text)
	deleted()
	s.again(syscall.SIGKILL)
	deleted()

	require.NoError(t, s.end(syscall.SIGTERM))
	out, err := tsdb(t, append([]string{"serve", "--storage.path", dir, "--web.listen-address", s.addr}, engine...)...)
	require.Error(t, err)
	require.Contains(t, out, `the store has 2 tenants, "acme" first; start with --tenants`)
}

// tenant runs `tsdb tenant` as the operator.
func (s *tenantServer) tenant(args ...string) (string, error) {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "token")
	require.NoError(s.t, os.WriteFile(file, []byte("operator"), 0o600))
	return tsdb(s.t, append([]string{"tenant", "--url", s.url, "--bearer-token-file", file}, args...)...)
}

// TestTenantDrop: a tenant is listed, shown with its usage, and dropped with samples, rollups, index, annotations,
// aliases and descriptions, also if the server is killed meanwhile.
func TestTenantDrop(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	old := now.Add(-72 * time.Hour)
	s := startTenants(t, dir, "--no-tenants.create")
	out, err := s.tenant("add", "a&b")
	require.Error(t, err)
	require.Contains(t, out, "bad name of a tenant")
	for _, name := range []string{"acme", "beta"} {
		out, err := s.tenant("add", name)
		require.NoError(t, err, out)
	}
	bases := map[string]int{"acme": 10, "beta": 20, "default": 30}
	for who, base := range bases {
		s.writeThree(who, base, old)
	}
	require.NoError(t, s.end(syscall.SIGTERM))
	out, err = tsdb(t, "rollup", "rebuild", "--storage.path", dir)
	require.NoError(t, err, out)
	s.server = startServerAt(t, dir, s.addr, s.flags...)
	for who, base := range bases {
		s.writeThree(who, base+100, now)
		annotation := "/api/annotation?description=of-" + who + "&start_time=" + fmt.Sprint(now.Unix())
		status, text := s.request(who, "", http.MethodPost, annotation, "")
		require.Equal(t, http.StatusOK, status, text)
		status, text = s.request(who, "", http.MethodPost, "/api/v1/admin/aliases?kind=metric&old=before&new=m", "")
		require.Less(t, status, 300, text)
	}
	out, err = s.tenant("usage")
	require.NoError(t, err, out)
	require.Regexp(t, `(?m)^acme +3 +3 +[03] +data [1-9][0-9]*, rollup [1-9]`, out)
	out, err = s.tenant("drop", "acme", "--dry-run")
	require.NoError(t, err, out)
	require.Regexp(t, "would drop tenant acme: 3 series, [1-9][0-9]* bytes in tables, descriptions of 0 metrics, 1 annotations", out)
	require.Equal(t, "10 11 12", s.values("acme", "", "m", old))
	for _, c := range []struct{ name, want string }{
		{"zeta", "the tenant is unknown"}, {"default", "the default tenant always exists"}, {"a&b", "bad name of a tenant"},
	} {
		out, err := s.tenant("drop", c.name)
		require.Error(t, err)
		require.Contains(t, out, c.want)
	}
	out, err = s.tenant("drop", "acme")
	require.NoError(t, err, out)
	require.Contains(t, out, "dropped tenant acme with 3 series; nothing of it is left")

	others := func() {
		t.Helper()
		status, text := s.request("acme", "", http.MethodGet, "/api/v1/query?query=m", "")
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, text, "unknown")
		for _, who := range []string{"beta", "default"} {
			base := bases[who]
			require.Equal(t, fmt.Sprintf("%d %d %d", base, base+1, base+2), s.values(who, "", "m", old), who)
			require.Equal(t, fmt.Sprintf("%d %d %d", base+100, base+101, base+102), s.values(who, "", "m", now), who)
		}
	}
	others()
	s.again(syscall.SIGKILL)
	others()
	s.killedInDrop(now)
	others()
	require.NoError(t, s.end(syscall.SIGTERM))
	for _, table := range []string{"data", "rollup", "series", "meta"} {
		out, err := tsdb(t, "inspect", "rows", "--storage.path", dir, "--table", table, "--limit", "0")
		require.NoError(t, err, out)
		require.NotContains(t, out, "&acme&", table)
	}
}

// killedInDrop adds the dropped tenant acme again, which begins empty, and kills the server during its next drop. The
// next start resumes the drop.
func (s *tenantServer) killedInDrop(now time.Time) {
	t := s.t
	t.Helper()
	out, err := s.tenant("add", "acme")
	require.NoError(t, err, out)
	require.Empty(t, s.values("acme", "", `count_over_time(m[100h])`, now))
	status, text := s.request("acme", "", http.MethodGet, "/api/annotations?start_time=1", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "[]", strings.TrimSpace(text))
	status, text = s.request("acme", "", http.MethodGet, "/api/v1/admin/aliases", "")
	require.Equal(t, http.StatusOK, status)
	require.NotContains(t, text, "before")
	s.writeThree("acme", 40, now)
	require.Equal(t, "40 41 42", s.values("acme", "", "m", now))

	go func() { _, _ = s.tenant("drop", "acme") }()
	require.Eventually(t, func() bool {
		status, _ := s.request("acme", "", http.MethodGet, "/api/v1/query?query=m", "")
		return status == http.StatusForbidden
	}, time.Minute, time.Millisecond)
	s.again(syscall.SIGKILL)
	require.Eventually(t, func() bool {
		out, err := s.tenant("list")
		require.NoError(t, err, out)
		return !strings.Contains(out, "acme")
	}, time.Minute, 10*time.Millisecond)
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

// TestTenantConfig: a tenant has a retention, a limit of series of a metric, and a limit of memory that also holds for look-ups,
// exports and remote read. Each tenant sees its own limits.
func TestTenantConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "halite.yml")
	require.NoError(t, os.WriteFile(file, []byte(`
tenants:
- {name: acme, query_bytes: {max: 64KiB}, series: {max: 2000}, series_per_metric: [{pattern: m, max: 2}], retention: {raw: 2d}}
`), 0o600))
	s := startTenants(t, t.TempDir(), "--config.file", file)
	now := time.Now().Truncate(time.Second)
	for _, who := range []string{"acme", "beta"} {
		for _, metric := range []string{"m", "big"} {
			for _, at := range []time.Time{now.Add(-72 * time.Hour), now} {
				text := ""
				for i := range map[string]int{"m": 3, "big": 900}[metric] {
					text += fmt.Sprintf("%s{i=\"%d\",filler=\"%s\"} 1 %d\n", metric, i, strings.Repeat("x", 100), at.UnixMilli())
				}
				_, _ = s.request(who, "", http.MethodPost, "/api/v1/import/prometheus", text)
			}
		}
	}
	require.Equal(t, "2", s.values("acme", "", "count(m)", now))
	require.Equal(t, "3", s.values("beta", "", "count(m)", now))
	require.Empty(t, s.values("acme", "", "count(m)", now.Add(-72*time.Hour)))
	require.Equal(t, "3", s.values("beta", "", "count(m)", now.Add(-72*time.Hour)))
	for _, target := range []string{
		"/api/v1/series?match[]=big", "/api/v1/export?match[]=big", "/federate?match[]=big", "/api/v1/query?query=big",
		"/api/search/lookup?m=big",
	} {
		status, text := s.request("acme", "", http.MethodGet, target, "")
		require.GreaterOrEqual(t, status, 400, "%s\n%.200s", target, text)
		require.Contains(t, text, "memory", target)
		status, text = s.request("beta", "", http.MethodGet, target, "")
		require.Equal(t, http.StatusOK, status, "%s\n%.200s", target, text)
	}
	status, text := s.request("acme", "", http.MethodGet, "/api/v1/status/tenant_limits", "")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, text, `{"tenants":[{"tenant":"acme","series":{"used":902,"warn":1600,"max":2000,"dryRun":false},`)
	require.Contains(t, text, `"bytes":{"max":65536,"warn":52429,"dryRun":false}`)
	require.NotContains(t, text, "beta")
	status, text = s.request("operator", "", http.MethodGet, "/api/v1/status/limits", "")
	require.Equal(t, http.StatusOK, status, text)
	require.Regexp(t, `"tenants":\[\{"tenant":"beta","series":\{"used":903.*"tenant":"acme","series":\{"used":902`, text)
	status, text = s.request("operator", "", http.MethodGet, "/api/v1/status/tenant_limits", "")
	require.Equal(t, http.StatusUnauthorized, status, text)
}

// TestTenantTelnet: telnet lines go to the tenant of the flag, and the tenant's queries of OpenTSDB find them.
func TestTenantTelnet(t *testing.T) {
	t.Parallel()
	addr := freeAddress(t)
	s := startTenants(t, t.TempDir(), "--opentsdb.listen-address", addr, "--opentsdb.tenant", "acme")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	now := time.Now().Truncate(time.Second)
	_, err = fmt.Fprintf(conn, "put telnet.m %d 7 host=a\n", now.Unix())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.values("acme", "", `{"telnet.m"}`, now) == "7" }, time.Minute, 10*time.Millisecond)
	require.Empty(t, s.values("default", "", `{"telnet.m"}`, now))

	put := fmt.Sprintf(`{"metric":"telnet.m","timestamp":%d,"value":8,"tags":{"host":"b"}}`, now.Unix())
	status, text := s.request("beta", "", http.MethodPost, "/api/put", put)
	require.Equal(t, http.StatusNoContent, status, text)
	for who, value := range map[string]string{"acme": "7", "beta": "8"} {
		status, text := s.request(who, "", http.MethodGet, fmt.Sprintf("/api/query?start=%d&m=sum:telnet.m", now.Unix()-60), "")
		require.Equal(t, http.StatusOK, status, text)
		require.Contains(t, text, fmt.Sprintf(`"%d":%s`, now.Unix(), value), who)
	}
	status, text = s.request("all", "acme|beta", http.MethodGet, fmt.Sprintf("/api/query?start=%d&m=sum:telnet.m&delete=true",
		now.Unix()-60), "")
	require.GreaterOrEqual(t, status, 400, text)
	status, text = s.request("default", "", http.MethodGet, fmt.Sprintf("/api/query?start=%d&m=sum:telnet.m", now.Unix()-60), "")
	require.NotContains(t, text, `"dps"`, status)

	out, err := tsdb(t, "serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t), "--opentsdb.listen-address",
		freeAddress(t), "--opentsdb.tenant", "acme")
	require.Error(t, err)
	require.Contains(t, out, "--opentsdb.tenant needs --tenants")
}
