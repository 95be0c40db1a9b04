//go:build realinput

package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// realLoginConfig is of a Prometheus that scrapes itself, writes to a server with a password, and to another with
// a token.
const realLoginConfig = `
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: prometheus
    static_configs: [{targets: ["%[1]s"]}]
remote_write:
  - url: %[2]s/api/v1/write
    basic_auth: {username: prometheus, password_file: password}
    tls_config: {ca_file: ca.pem}
  - url: %[3]s/api/v1/write
    authorization: {credentials_file: token}
    tls_config: {ca_file: ca.pem}
`

// TestRealInputLogIn lets a real Prometheus log in over TLS, at one server with a password and at another with a token.
// Both hold the samples of that Prometheus, and neither refuses anything.
func TestRealInputLogIn(t *testing.T) {
	prometheus := findBinary(t, "PROMETHEUS", "prometheus")
	a := newAuthority(t)
	first := startSecure(t, a, fmt.Sprintf("basic_auth_users: {prometheus: %q}\n", bcryptOf(t, "pass")), "")
	first.await(a.client(""))
	b := &authority{t: t, dir: t.TempDir(), cert: a.cert, key: a.key}
	second := startSecure(t, b, "", "tokens:\n"+token("writer", "scopes: [write]")+token("reader", "scopes: [read]"))
	second.await(a.client(""))

	addr := freeAddress(t)
	a.put("password", "pass\n")
	a.put("token", "writer\n")
	config := a.put("prometheus.yml", fmt.Sprintf(realLoginConfig, addr, first.url, second.url))
	startProcess(t, prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(a.dir, "prom"),
		"--web.listen-address="+addr)
	result := func(query string, at time.Time, get func(path string) (int, string)) string {
		params := url.Values{"query": {query}, "time": {unix(at)}}
		status, text := get("/api/v1/query?" + params.Encode())
		require.Equal(t, http.StatusOK, status, text)
		var response struct {
			Data struct{ Result json.RawMessage }
		}
		require.NoError(t, json.Unmarshal([]byte(text), &response))
		return string(response.Data.Result)
	}
	fromPrometheus := func(path string) (int, string) {
		resp, err := http.Get("http://" + addr + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	time.Sleep(30 * time.Second)
	at := time.Now().Add(-5 * time.Second)
	time.Sleep(10 * time.Second) // all that was scraped before is sent
	for _, query := range []string{
		`sort(count_over_time(up[20s]))`, `scrape_samples_scraped[15s]`,
		`prometheus_tsdb_head_samples_appended_total`, `count({__name__=~".+"})`, `sum(rate(prometheus_http_requests_total[15s]))`,
	} {
		want := result(query, at, fromPrometheus)
		require.NotEqual(t, "[]", want, query)
		for s, as := range map[*secureServer]string{first: "prometheus:pass", second: "reader"} {
			require.JSONEq(t, want, result(query, at, func(path string) (int, string) { return s.request("GET", path, as, nil) }), query)
		}
	}
	for _, s := range []*secureServer{first, second} {
		as := map[*secureServer]string{first: "prometheus:pass", second: "reader"}[s]
		_, text := s.request("GET", "/metrics", as, nil)
		require.Contains(t, text, `tsdb_http_rejected_total{handler="/api/v1/write",reason="bad_credentials"} 0`)
		require.Contains(t, text, `tsdb_http_rejected_total{handler="/api/v1/write",reason="no_credentials"} 0`)
	}
}
