package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// raw sends a request unchanged and returns the response.
func (s *server) raw(t *testing.T, request string) (status int, body string) {
	t.Helper()
	address, _, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), "/")
	c, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(c, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// TestHostsOfLoopbackServer: a page whose name resolves to 127.0.0.1 (DNS rebinding) reads nothing from a server there.
func TestHostsOfLoopbackServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--no-web.self-scrape", "--web.enable-pprof", "--web.enable-lifecycle")
	for request, want := range map[string]int{
		"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: evil.example:9480":                          403,
		"POST /api/v1/write HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0":                 403,
		"POST /-/quit HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0":                       403,
		"GET /debug/pprof/cmdline HTTP/1.1\r\nHost: evil.example":                                403,
		"GET /metrics HTTP/1.1\r\nHost: 10.1.2.3":                                                403,
		"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost":                            403,
		"GET /api/v1/query?query=1 HTTP/1.0":                                                     403,
		"GET /-/ready HTTP/1.0":                                                                  200,
		"GET /-/ready HTTP/1.1\r\nHost: 10.1.2.3:9480":                                           200,
		"GET /-/ready HTTP/1.1\r\nHost: evil.example":                                            403,
		"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: LOCALHOST.:1\r\nConnection: close":          200,
		"GET http://localhost/api/v1/query?query=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*":   200,
		"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: [::1]:9480\r\nConnection: close":            200,
		"GET /api/v1/query?query=1 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:9480": 200,
	} {
		status, text := s.raw(t, request+"\r\n\r\n")
		require.Equal(t, want, status, "%s: %s", request, text)
		if want == http.StatusForbidden {
			require.Contains(t, text, "--web.allowed-hosts", request)
		}
	}
	_, metrics := s.raw(t, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.Contains(t, metrics, "tsdb_http_host_refused_total 8")

	s = startServer(t, t.TempDir(), "--no-web.self-scrape",
		"--web.allowed-hosts=127.0.0.1,a.example", "--web.allowed-hosts=b.example")
	for host, want := range map[string]int{"a.example:1": 200, "b.example": 200, "localhost": 403} {
		status, text := s.raw(t, "GET /api/v1/query?query=1 HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		require.Equal(t, want, status, text)
	}
	out, err := command(t, "serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t),
		"--web.allowed-hosts=http://a").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--web.allowed-hosts")
}

// TestDescriptorsFitConnections starts the server with few descriptors. It lowers the number of connections, and serves
// more clients than that. With too few descriptors it does not start.
func TestDescriptorsFitConnections(t *testing.T) {
	t.Parallel()
	limited := func(files int) *exec.Cmd {
		return exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files), binary)
	}
	refused := limited(100)
	refused.Args = append(refused.Args, "serve", "--storage.path", t.TempDir(), "--web.listen-address", freeAddress(t))
	out, err := refused.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--web.max-connections: the limit of 100 open files")

	s := launchWith(t, limited(256), t.TempDir(), freeAddress(t), "--no-web.self-scrape")
	s.awaitReady()
	require.Contains(t, s.log.String(), "--web.max-connections is lowered")
	require.Contains(t, s.log.String(), "connections=64")
	for range 300 {
		address, _, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), "/")
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = io.WriteString(c, "GET / HT")
		require.NoError(t, err)
	}
	now := time.Now()
	s.write([]point{{"written", "a", now.UnixMilli(), 1}})
	require.Len(t, s.series("written", now, "1m"), 1)
}

// TestServerBelowPrefix: a server behind a proxy answers below the path of its external URL, and its links begin with that URL.
func TestServerBelowPrefix(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir(), freeAddress(t), "--no-web.self-scrape", "--web.external-url=http://metrics.example/halite/")
	root := s.url
	s.url += "/halite"
	s.awaitReady()
	status, page := s.raw(t, "GET /halite/ HTTP/1.1\r\nHost: metrics.example\r\n\r\n")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, `href="metrics"`)
	require.NotContains(t, page, `href="/`)
	require.NotContains(t, page, `src="/`)
	status, overview := s.raw(t, "GET /halite/api/v1/status/overview HTTP/1.1\r\nHost: metrics.example\r\n\r\n")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, overview, `"url":"http://metrics.example/halite"`)
	resp, err := http.Get(root + "/") // follows the redirect
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "/halite/", resp.Request.URL.Path)
	status, _ = s.raw(t, "GET /metrics HTTP/1.1\r\nHost: metrics.example\r\n\r\n")
	require.Equal(t, http.StatusNotFound, status)
	status, text := s.raw(t, "GET /halite/api/v1/label/a%2Fb/values HTTP/1.1\r\nHost: metrics.example\r\n\r\n")
	require.Equal(t, http.StatusOK, status, text)
	require.Contains(t, s.log.String(), "http://metrics.example/halite")
}
