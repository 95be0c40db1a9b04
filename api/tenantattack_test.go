package api_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/keyschema"
	"halite/storage/tenants"
)

// attack sends requests as they are, without a client that cleans paths and headers.
type attack struct {
	t    *testing.T
	addr string
}

func (a *attack) send(method, target, headers string) (status int, body string) {
	a.t.Helper()
	conn, err := net.Dial("tcp", a.addr)
	require.NoError(a.t, err)
	defer conn.Close()
	// The server may answer before it has read all headers.
	go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: halite\r\nConnection: close\r\n%s\r\n", method, target, headers)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil { // a request that net/http cannot read
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(a.t, err)
	return resp.StatusCode, string(text)
}

// attackTargets are targets that name another tenant, or that hide the endpoint. query makes the parameters of an expression.
func attackTargets(query func(expr string) string) (targets []string) {
	all, at := query(`{job=~".+"}`), fmt.Sprint(comparison.End-30)
	for _, path := range []string{
		"/api/v1/query", "//api/v1/query", "/api//v1/query", "/api/v1/./query", "/api/v1/x/../query", "/%61pi/v1/query",
		"/api%2fv1%2fquery", "/api/v1/query%2f", "/api/v1/query;x=y", "/api/v1/query/", "/prometheus/api/v1/query",
		"/prometheus//api/v1/query", "/prometheus/../api/v1/query", "/prometheus%2fapi/v1/query",
		"/prometheus/%2e%2e/api/v1/query",
		"/prometheus/prometheus/api/v1/query", "/PROMETHEUS/api/v1/query", "/api/v1/query%00", "http://other/api/v1/query",
		"/api/v1/query%3f", "/bb/api/v1/query", "/api/v1/query_range/../query", "/-/../api/v1/query",
		"/assets/..%2f..%2fapi/v1/query",
	} {
		targets = append(targets, path+"?"+all)
	}
	for _, expr := range []string{
		`{__tenant_id__="bb"}`, `{__tenant_id__=~"bb|a"}`, `{"&bb&m0"}`, `{__name__=~"&bb&.*"}`,
		`{__name__=~"(?s).*"}`, `{__name__!=""}`,
		`label_replace({job="j"}, "__name__", "&bb&m0", "", "")`, `last_over_time({__name__=~".*bb.*"}[2h] @ end())`,
		`max_over_time(({job="j"})[1h:1m] @ ` + at + `)`, `absent({"&bb&m0"}) or {__name__=~".+"}`, `m0 or on () {"&bb&m0"}`,
		`{job="j", __name__!~"&a&.*"}`, `count_values("x", {__name__=~".*"})`, `{__name__=~"&.*"} or {__name__=~".*\\x26.*"}`,
	} {
		targets = append(targets, "/api/v1/query?"+query(expr),
			"/api/v1/query?"+query(expr)+"&tenant=bb&X-Scope-OrgID=bb&nocache=1")
	}
	for _, match := range []string{
		`{__name__=~"&bb&.*"}`, `{__tenant_id__="bb"}`, `{job="j"}&match[]={__name__=~".*"}`,
		`{__name__=~"a|&bb&m0"}&match[]={"&bb&m1"}`,
	} {
		match = "match[]=" + strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22", "&bb&", "%26bb%26", "|",
			"%7C").Replace(match)
		for _, path := range []string{
			"/federate", "/api/v1/series", "/api/v1/export", "/api/v1/export/csv", "/api/v1/labels",
			"/api/v1/label/secret/values",
			"/api/v1/label/__name__/values", "/api/v1/label/U__secret/values", "/api/v1/rules", "/prometheus/api/v1/series",
		} {
			targets = append(targets, path+"?"+match+"&start=0&end="+at)
		}
	}
	targets = append(targets,
		"/api/v1/metadata?metric=%26bb%26m0", "/api/v1/metadata?metric=m0&limit_per_metric=100",
		"/api/v1/targets/metadata?metric=%26bb%26m0",
		"/api/v1/query_exemplars?"+query(`{"&bb&m0"}`)+"&start=0&end="+at, "/api/v1/query_exemplars?"+all+"&start=0&end="+at,
		"/api/suggest?type=metrics&q=%26bb%26&max=1000", "/api/suggest?type=tagv&q=&max=1000",
		"/api/search/lookup?m=%26bb%26m0&limit=1000",
		"/api/uid/tsmeta?m=%26bb%26m0", "/api/query?start=1d-ago&m=sum:%26bb%26m0",
		"/api/query/last?timeseries=%26bb%26m0&back_scan=10000",
		"/api/v1/status/tsdb", "/api/v1/keyviz/heatmap?prefix=%26bb%26", "/api/v1/status/encode_key?series=m0",
		"/debug/pprof/heap?debug=1",
	)
	return targets
}

// TestTenantsUnderAttack sends what a malicious tenant would send to see or change another tenant's series.
func TestTenantsUnderAttack(t *testing.T) {
	s := newTenants(t, tenants.Options{}, netip.MustParsePrefix("10.1.0.0/16"))
	for _, name := range []string{"a", "bb", keyschema.DefaultTenant} {
		s.write(t, name, name, 0, 120)
	}
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	x := &attack{t, strings.TrimPrefix(server.URL, "http://")}
	at := fmt.Sprint(comparison.End - 30)
	query := func(expr string) string { return "query=" + url.QueryEscape(expr) + "&time=" + at }
	all := query(`{job=~".+"}`)
	_, body := x.send("GET", "/api/v1/query?"+all, "Authorization: bb\r\n")
	require.Contains(t, body, secretOf("bb"), "the requests would show the series of bb")

	hidden := func(method, target, headers string) {
		t.Helper()
		for _, who := range []string{"a", keyschema.DefaultTenant, "a,default", ""} {
			login := ""
			if who != "" {
				login = "Authorization: " + who + "\r\n"
			}
			status, body := x.send(method, target, login+headers)
			require.NotContains(t, body, secretOf("bb"), "%s %s as %q with %.200q: %d", method, target, who, headers, status)
		}
	}
	for _, target := range attackTargets(query) {
		hidden("GET", target, "")
		hidden("POST", target, "Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n")
	}
	for _, org := range []string{
		"bb", "a|bb", "bb|a", "a,bb", "a&bb", "&bb&", "&bb", " bb", "bb ", "\tbb", "", "|", "|bb", "bb|", "%62b",
		"ｂｂ", "BB", "..", "../bb",
		"a/../bb", "a|a|bb", "default|bb", "*", ".*", "a\x00|bb",
		"\"bb\"", strings.Repeat("a|", 9000) + "bb", strings.Repeat("b", 60000),
	} {
		for _, header := range []string{
			"X-Scope-OrgID: %s\r\n", "x-scope-orgid: %s\r\n", "X_Scope_OrgID: %s\r\n",
			"X-Scope-OrgID: a\r\nX-Scope-OrgID: %s\r\n",
			"X-Scope-OrgID: %s\r\nX-Scope-OrgID: a\r\n", "X-Scope-OrgID: a\r\n %s\r\n", "X-Scope-OrgID : %s\r\n",
			"X-Scope-OrgID: %s\r\nX-Forwarded-For: 10.1.0.1\r\nForwarded: for=10.1.0.1\r\nX-Real-IP: 10.1.0.1\r\n",
		} {
			hidden("GET", "/api/v1/query?"+all, fmt.Sprintf(header, org))
		}
	}
}

// TestTenantsChangeOnlyTheirOwn sends changes by all ways that a malicious tenant has. The series of bb stay.
func TestTenantsChangeOnlyTheirOwn(t *testing.T) {
	s := newTenants(t, tenants.Options{})
	s.write(t, "a", "a", 0, 60)
	s.write(t, "bb", "bb", 0, 60)
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	x := &attack{t, strings.TrimPrefix(server.URL, "http://")}
	q := "/api/v1/query?" + url.Values{"query": {`count({__name__=~".+"})`},
		"time": {fmt.Sprint(comparison.End - 3570)}}.Encode()
	_, want := x.send("GET", q, "Authorization: bb\r\n")
	require.Contains(t, want, `"value"`)
	for _, target := range []string{
		"/api/v1/admin/tsdb/delete_series?match[]=%7B__name__=~%22%26bb%26.*%22%7D",
		"/api/v1/admin/tsdb/delete_series?match[]=%7Bjob=%22j%22%7D",
		"/api/v1/admin/tsdb/delete_series?match[]=%7B__tenant_id__=%22bb%22%7D", "/api/v1/admin/tenants/drop?tenant=bb",
		"/api/query?start=1h-ago&m=sum:%26bb%26m0&delete=true", "/api/uid/rename?metric=%26bb%26m0&name=x",
		"/api/v1/import/prometheus", "/api/annotation?method_override=delete&start_time=1",
		"/api/v1/admin/tsdb/clean_tombstones",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH"} {
			for _, headers := range []string{"", "X-Scope-OrgID: bb\r\n", "X-Scope-OrgID: a|bb\r\n",
				"X-HTTP-Method-Override: DELETE\r\n"} {
				x.send(method, target, "Authorization: a\r\nContent-Length: 0\r\n"+headers)
				x.send(method, target+"&method_override=delete", "Authorization: a\r\nContent-Length: 0\r\n"+headers)
			}
		}
	}
	_, got := x.send("GET", q+"&nocache=1", "Authorization: bb\r\n")
	require.Equal(t, want, got)
}
