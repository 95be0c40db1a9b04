package netlimit

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// loopbackCheck is the check of a server that listens on a loopback address.
func loopbackCheck(t testing.TB, externalURL string) *HostCheck {
	t.Helper()
	hosts, err := HostsDefault(&net.TCPAddr{IP: net.IPv6loopback}, externalURL)
	require.NoError(t, err)
	check, err := NewHostCheck(hosts, nil)
	require.NoError(t, err)
	return check
}

// code is the status of a request for a path with that host.
func (c *HostCheck) code(host, path string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = host
	c.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

// TestLoopbackHosts lists the forms of hosts on a loopback address.
func TestLoopbackHosts(t *testing.T) {
	c := loopbackCheck(t, "https://metrics.example.com:8443/base")
	for _, host := range []string{
		"localhost", "localhost:9480", "LOCALHOST:1", "localhost.", "LocalHost.:80", "127.0.0.1", "127.0.0.1:9480", "127.9.9.9:80",
		"[::1]", "[::1]:9480", "[0:0:0:0:0:0:0:1]:80", "[::ffff:127.0.0.1]:80", "metrics.example.com", "METRICS.example.com.:443",
	} {
		require.Equal(t, http.StatusOK, c.code(host, "/api/v1/query"), host)
	}
	for _, host := range []string{
		"", ".", ":9480", "evil.example", "evil.example:9480", "localhost.evil.example", "evil.localhost", "localhost..",
		"127.0.0.1.evil.example", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "128.0.0.1", "0.0.0.0", "[::]", "[::2]:80",
		"[::1", "::1]", "[localhost]", "[127.0.0.1]", "[::1].evil.example", "[::1]evil", "user@localhost",
		"localhost@evil.example", "localhost/", "localhost,evil.example", "10.1.2.3:9480", "sub.metrics.example.com",
		"locaIhost", "localhost ", "localhost\x00", "0::1:", "::1", "::1:80", "localhost:80:80", "[::1]:80:80", "localhost:http",
		"localhost:[", "[::1]:]",
	} {
		require.Equal(t, http.StatusForbidden, c.code(host, "/api/v1/query"), "%q", host)
		require.Equal(t, http.StatusForbidden, c.code(host, "/debug/pprof/heap"), "%q", host)
	}
	// Health checks of containers use the address, or no host.
	for host, code := range map[string]int{"10.1.2.3:9480": 200, "": 200, "[fe80::1%25eth0]:80": 200, "evil.example": 403} {
		require.Equal(t, code, c.code(host, "/-/ready"), host)
		require.Equal(t, code, c.code(host, "/-/healthy"), host)
	}
	require.Equal(t, http.StatusForbidden, c.code("10.1.2.3:9480", "/-/ready/../quit"))
	require.Equal(t, http.StatusForbidden, c.code("10.1.2.3:9480", "/-/quit"))
}

// TestHostsElsewhere: on other addresses any host is allowed. With an external URL only its host and addresses are.
func TestHostsElsewhere(t *testing.T) {
	everywhere := &net.TCPAddr{IP: net.IPv4zero}
	hosts, err := HostsDefault(everywhere, "")
	require.NoError(t, err)
	require.Equal(t, []string{"*"}, hosts)
	hosts, err = HostsDefault(everywhere, "http://[2001:db8::1]:9480/")
	require.NoError(t, err)
	require.Contains(t, hosts, "2001:db8::1")
	hosts, err = HostsDefault(everywhere, "http://metrics.example.com")
	require.NoError(t, err)
	c, err := NewHostCheck(hosts, nil)
	require.NoError(t, err)
	for host, code := range map[string]int{
		"metrics.example.com:80": 200, "10.1.2.3:9480": 200, "[2001:db8::1]": 200, "localhost:9480": 200,
		"evil.example": 403, "": 403,
	} {
		require.Equal(t, code, c.code(host, "/"), host)
	}
	for _, bad := range []string{"http://", "metrics.example.com", "http://a b/"} {
		_, err := HostsDefault(everywhere, bad)
		require.Error(t, err, bad)
	}
}

// TestHostList checks what a list may hold, and the response to a host that is not in it.
func TestHostList(t *testing.T) {
	registry := prometheus.NewRegistry()
	c, err := NewHostCheck([]string{"Halite", ".Example.com", "10.0.0.0/8", "fd00::1", "[fd00::2]"}, registry)
	require.NoError(t, err)
	for host, code := range map[string]int{
		"halite:9480": 200, "example.com": 200, "a.b.EXAMPLE.com": 200, "10.255.0.1": 200, "[fd00::1]:9480": 200, "[FD00::2]": 200,
		"badexample.com": 403, "11.0.0.1": 403, "[fd00::3]": 403, "localhost": 403, "127.0.0.1": 403,
	} {
		require.Equal(t, code, c.code(host, "/"), host)
	}
	require.Equal(t, 5., testutil.ToFloat64(c.refused))

	w := httptest.NewRecorder()
	c.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://evil.example/api/v1/write", nil))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, `{"status":"error","errorType":"bad_data","error":"host \"evil.example\" is not allowed; start the server `+
		`with --web.allowed-hosts to allow it"}`, w.Body.String())

	for _, bad := range []string{"", "a:80", "http://a", "*.example.com", "10.0.0.0/99", "[::1", " a", "a@b"} {
		_, err := NewHostCheck([]string{bad}, nil)
		require.Error(t, err, "%q", bad)
	}
	_, err = NewHostCheck(nil, nil)
	require.ErrorContains(t, err, "no host is allowed")
}

// FuzzHost: each allowed host on a loopback address means the loopback interface.
func FuzzHost(f *testing.F) {
	for _, host := range []string{
		"localhost:80", "[::1]", "127.0.0.1.", "::1", "a:b:c", "[::ffff:127.0.0.1%25x]:1", "0::1:", "localhost:[",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if loopbackCheck(t, "").code(host, "/") != http.StatusOK {
			return
		}
		name, _, err := net.SplitHostPort(host)
		if err != nil {
			name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		}
		name = strings.TrimSuffix(name, ".")
		addr, err := netip.ParseAddr(name)
		require.True(t, strings.EqualFold(name, "localhost") || err == nil && addr.Unmap().IsLoopback(), "%q", host)
	})
}
