package api_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/api/tenancy"
	"halite/keyschema"
	"halite/query"
	"halite/storage/principal"
	"halite/storage/storagetest/seeds"
	"halite/storage/tenants"
)

// tokens accepts every request, for the tenants in the header Authorization, separated by commas.
type tokens struct{}

func (tokens) Identify(r *http.Request) (*principal.Principal, error) {
	p := &principal.Principal{Name: "token", Scopes: principal.Every}
	if names := r.Header.Get("Authorization"); names != "" {
		p.Tenants = strings.Split(names, ",")
	}
	return p, nil
}

// newTenants is a database with tenants. Requests of these tests come from 192.0.2.1, which may not name tenants.
func newTenants(t *testing.T, o tenants.Options, trusted ...netip.Prefix) *stack {
	s := newStack(t)
	s.auth, o.Store = tokens{}, s.store
	list, err := tenants.Open(context.Background(), o)
	require.NoError(t, err)
	s.tenancy, err = tenancy.New(tenancy.Options{List: list, Trusted: trusted, SeveralMax: 4})
	require.NoError(t, err)
	s.Server = s.server(t, cachingOptions(s))
	return s
}

func cachingOptions(s *stack) query.Options {
	return query.Options{
		Changes: s.ingester, ResultCacheBytes: 1 << 20, ResultCacheRecent: time.Millisecond, Now: comparison.Now,
	}
}

// secretOf is part of the labels, metrics and texts that only one tenant has.
func secretOf(tenant string) string { return marker + tenant }

// samplesOf are the series of a tenant: others have the same names and labels, but other values.
func samplesOf(tenant string, from, to int64) *prompb.WriteRequest {
	factor := float64(len(tenant)*3 + int(tenant[0]))
	req := &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{
		{MetricFamilyName: "m0", Help: "help of " + secretOf(tenant), Type: prompb.MetricMetadata_GAUGE},
		{MetricFamilyName: secretOf(tenant), Help: "x", Type: prompb.MetricMetadata_GAUGE},
	}}
	add := func(pairs ...string) *prompb.TimeSeries {
		ts := prompb.TimeSeries{Labels: prompb.FromLabels(labels.FromStrings(pairs...), nil)}
		req.Timeseries = append(req.Timeseries, ts)
		return &req.Timeseries[len(req.Timeseries)-1]
	}
	at := func(i int64) int64 { return (comparison.End - 3600 + i*30) * 1000 }
	for k := range 12 {
		name, inst := fmt.Sprintf("m%d", k%3), fmt.Sprint(k/3)
		add("__name__", name, "team", "a", "inst", inst, "job", "j")
		add("__name__", name, "team", "b", "inst", inst, "job", "j", "secret", secretOf(tenant)+inst)
	}
	add("__name__", "up", "team", "a", "inst", "0", "job", "j", "instance", "x")
	add("__name__", secretOf(tenant), "team", "b", "job", "j", secretOf(tenant), secretOf(tenant))
	add("A", "before the name", "__name__", "m0", "inst", "0", "job", "j")
	for n := range req.Timeseries {
		ts := &req.Timeseries[n]
		for i := from; i < to; i++ {
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at(i), Value: factor + float64(i*int64(n))})
		}
		ts.Exemplars = []prompb.Exemplar{{
			Labels: prompb.FromLabels(labels.FromStrings("trace", secretOf(tenant)), nil), Value: factor, Timestamp: at(from),
		}}
	}
	h := add("__name__", "h", "job", "j", "inst", "0")
	for i := from; i < to; i++ {
		h.Histograms = append(h.Histograms, prompb.FromIntHistogram(at(i), tsdbutil.GenerateTestHistogram(i+int64(factor))))
	}
	return req
}

// write writes the series of a tenant as the principal who.
func (s *stack) write(t *testing.T, who, tenant string, from, to int64) {
	message, err := samplesOf(tenant, from, to).Marshal()
	require.NoError(t, err)
	w := s.as(who, http.MethodPost, "/api/v1/write", snappy.Encode(nil, message))
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
}

// withOrg sends a request with the header X-Scope-OrgID, from an address.
func (s *stack) withOrg(who, org, remote, method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, bytes.NewReader(nil))
	r.Header.Set("Authorization", who)
	if org != "" {
		r.Header.Set(tenancy.Header, org)
	}
	if remote != "" {
		r.RemoteAddr = remote
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestTenantsAreApart: each endpoint, and each cache, answers a tenant as a server with only its series does.
func TestTenantsAreApart(t *testing.T) {
	s := newTenants(t, tenants.Options{})
	names := []string{"a", "bb", keyschema.DefaultTenant}
	alone := map[string]*stack{}
	for _, name := range names {
		alone[name] = newStack(t)
		alone[name].Server = alone[name].server(t, cachingOptions(alone[name]))
	}
	for _, half := range [][2]int64{{0, 60}, {60, 120}} { // one half in the tables, one in the head
		for _, name := range names {
			s.write(t, name, name, half[0], half[1])
			alone[name].write(t, "", name, half[0], half[1])
		}
		if half[0] == 0 {
			require.Equal(t, http.StatusNoContent, s.as("", http.MethodPost, "/api/v1/admin/flush", nil).Code)
			for _, one := range alone {
				require.Equal(t, http.StatusNoContent, one.as("", http.MethodPost, "/api/v1/admin/flush", nil).Code)
			}
		}
	}
	check := func(target, where string) {
		for _, name := range names {
			got, want := s.as(name, http.MethodGet, target, nil), alone[name].as("", http.MethodGet, target, nil)
			require.Equal(t, want.Code, got.Code, "%s: %s as %s\n%s", where, target, name, got.Body)
			require.Equal(t, want.Body.String(), got.Body.String(), "%s: %s as %s", where, target, name)
		}
	}
	first, count := seeds.Range(t, seeds.Default{Full: 4, Short: 1})
	for seed := first; seed < first+count; seed++ {
		r := readers{rand.New(rand.NewPCG(seed, 0))}
		for range 150 {
			target, _ := r.request()
			check(target, fmt.Sprintf("seed %d", seed))
		}
	}
	q := url.Values{
		"query": {`{job=~".+"}`}, "start": {fmt.Sprint(comparison.End - 3600)}, "end": {fmt.Sprint(comparison.End)},
	}
	for _, target := range []string{
		"/api/v1/export?match[]={job=~\".+\"}", "/api/v1/metadata", "/api/v1/metadata?metric=m0",
		"/api/v1/metadata?limit=1", "/api/v1/targets/metadata", "/api/v1/rules",
		"/api/v1/query_exemplars?" + q.Encode(), "/api/v1/labels", "/api/v1/label/__name__/values",
		"/api/v1/label/__name__/values?limit=2", "/api/v1/label/__name__/values?match[]={__name__!=\"m0\"}",
		"/api/v1/label/__name__/values?match[]={__name__!~\"m.*|\"}", "/api/v1/label/__name__/values?match[]={__name__=\"\"}",
		"/api/v1/label/__name__/values?match[]={__name__=~\"m0|up|%26a%26m1\"}", "/api/v1/label/inst/values?match[]=m0",
		"/api/v1/query?query=histogram_count(h)&time=" + q.Get("end"),
		"/api/v1/query?query=rate({__name__=~\"h|m0\"}[5m])&time=" + q.Get("end"),
		"/api/v1/query?query=count({__name__=~\"\\\\Qm0\"})&time=" + q.Get("end"),
		"/api/v1/query?query=m0%2Bon(__name__,inst,secret)m0&time=" + q.Get("end"),
		"/api/v1/query?query=%7B%22%26bb%26m0%22%7D&time=" + q.Get("end"),
	} {
		check(target, "fixed")
	}
	for _, kind := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		for _, name := range names {
			require.Equal(t, alone[name].readAll(t, "", kind), s.readAll(t, name, kind))
		}
	}
}

// TestNoTenantShows sends to every endpoint. No response to another tenant, or to none, shows anything of tenant bb.
func TestNoTenantShows(t *testing.T) {
	s := newTenants(t, tenants.Options{})
	for _, name := range []string{"a", "bb", keyschema.DefaultTenant} {
		s.write(t, name, name, 0, 120)
	}
	form := url.Values{
		"query": {`{job=~".+"}`}, "match[]": {`{job=~".+"}`}, "start": {fmt.Sprint(comparison.End - 3600)},
		"end": {fmt.Sprint(comparison.End)}, "step": {"60"}, "time": {fmt.Sprint(comparison.End)}, "limit": {"1000"},
		"type": {"tagv"}, "max": {"10000"}, "m": {"{job=*}"}, // of OpenTSDB
	}
	shown := map[string]bool{}
	for _, path := range s.Paths() {
		for _, name := range []string{"team", "secret", "__name__", "job"} {
			path, _, _ := strings.Cut(path, " ") // the methods of some routes
			target := strings.NewReplacer("{name}", name, "/api/search", "/api/search/lookup").Replace(path) + "?" + form.Encode()
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				shown[path] = shown[path] || strings.Contains(s.as("bb", method, target, nil).Body.String(), secretOf("bb"))
				for _, who := range []string{"a", keyschema.DefaultTenant, "a," + keyschema.DefaultTenant} {
					require.NotContains(t, s.as(who, method, target, nil).Body.String(), secretOf("bb"), "%s as %s", target, who)
				}
				require.NotContains(t, s.withOrg("a", "bb", "", method, target).Body.String(), secretOf("bb"), target)
				require.NotContains(t, s.withOrg("", "bb", "", method, target).Body.String(), secretOf("bb"), target)
			}
		}
	}
	for _, path := range []string{
		"/api/v1/query", "/api/v1/query_range", "/api/v1/query_exemplars", "/api/v1/series", "/api/v1/labels", "/federate",
		"/api/v1/label/{name}/values", "/api/v1/metadata", "/api/suggest", "/api/search",
	} {
		require.True(t, shown[path], path)
	}
}

// TestTenantOfRequest tries every endpoint with each way to name a tenant.
func TestTenantOfRequest(t *testing.T) {
	proxy := netip.MustParsePrefix("10.1.0.0/16")
	s := newTenants(t, tenants.Options{Fixed: true, Max: 1}, proxy)
	open := newTenants(t, tenants.Options{Max: 1}, proxy)
	open.write(t, "a", "a", 0, 1)
	uses := map[string]tenancy.Use{}
	for _, path := range s.Paths() {
		uses[path] = s.UseOf(path)
	}
	require.Equal(t, []tenancy.Use{tenancy.Write, tenancy.None}, []tenancy.Use{uses["/api/v1/write"], uses["/metrics"]})
	for path, use := range uses {
		method := http.MethodGet
		if use == tenancy.Write || use == tenancy.Change || path == "/api/v1/read" ||
			strings.HasPrefix(path, "/api/v1/admin") && path != "/api/v1/admin/tenants" && path != "/api/v1/admin/tsdb/deletions" ||
			strings.HasPrefix(path, "/-/reload") || path == "/-/quit" {
			method = http.MethodPost
		}
		if s.Open(path) {
			continue
		}
		path, _, _ := strings.Cut(path, " ") // the methods of some routes
		target := strings.ReplaceAll(path, "{name}", "job")
		for _, c := range []struct {
			why, who, org, remote string
			series, whole         int // status at endpoints of series, and of the whole server; 0 means no refusal
		}{
			{"no tenant", "", "", "", 401, 0},
			{"a header from elsewhere", "", "a", "", 401, 0},
			{"an unknown tenant", "zz", "", "", 403, 403},
			{"another tenant", "a", "b", "", 403, 403},
			{"a proxy without a header", "", "", "10.1.2.3:99", 401, 0},
			{"a bad name", "", "a&b", "10.1.2.3:99", 400, 400},
			{"an empty name", "", "a|", "10.1.2.3:99", 400, 400},
			{"twice", "", "a|a", "10.1.2.3:99", 400, 400},
			{"too many", "", "a|b|c|d|e", "10.1.2.3:99", 400, 400},
			{"not its proxy", "", "default", "10.2.2.3:99", 401, 0},
			{"several without a choice", "default,a", "", "", 401, 401},
			{"the default tenant", "default", "", "", 0, 403},
			{"its own name", "default", "default", "", 0, 403},
			{"a choice", "default,a", "default", "", 0, 403},
			{"by a proxy", "", "default", "10.1.2.3:99", 0, 403},
			{"by a proxy in IPv6", "", "default", "[::ffff:10.1.2.3]:99", 0, 403},
		} {
			want := c.series
			if use == tenancy.None || (use == tenancy.Look || use == tenancy.NoSeries) && c.whole == 0 {
				want = c.whole
			}
			w := s.withOrg(c.who, c.org, c.remote, method, target)
			if want != 0 {
				require.Equal(t, want, w.Code, "%s %s: %s\n%s", method, target, c.why, w.Body)
				require.Regexp(t, `"error":|"code":`, w.Body.String()) // "code" is InfluxDB 2's
				continue
			}
			require.NotContains(t, []int{401, 405}, w.Code, "%s %s: %s\n%s", method, target, c.why, w.Body)
			if w.Code == http.StatusForbidden { // it is not switched on
				require.NotContains(t, w.Body.String(), "tenant", "%s %s: %s", method, target, c.why)
			}
		}
		// A server that creates tenants refuses new ones only beyond the limit. Reads of an unknown tenant are empty.
		if w := open.withOrg("zz", "", "", method, target); use == tenancy.Write {
			require.Equal(t, 403, w.Code, target)
			require.Contains(t, w.Body.String(), "limit of 1")
		} else if use == tenancy.Read {
			require.NotEqual(t, 403, w.Code, target)
		}
		if w := open.withOrg("default,a", "default|a", "", method, target); use == tenancy.Write || use == tenancy.Change {
			require.Equal(t, 400, w.Code, target)
		}
	}
}

// TestSeveralTenants: queries over several tenants give the series of each, with a label that names the tenant.
func TestSeveralTenants(t *testing.T) {
	s := newTenants(t, tenants.Options{})
	for _, name := range []string{"a", "bb", keyschema.DefaultTenant} {
		s.write(t, name, name, 0, 60)
		require.Equal(t, http.StatusNoContent, s.as("", http.MethodPost, "/api/v1/admin/flush", nil).Code)
		s.write(t, name, name, 60, 120)
	}
	query := func(who, expr string) string {
		q := url.Values{"query": {expr}, "time": {fmt.Sprint(comparison.End - 30)}}
		w := s.withOrg("a,bb,default", who, "", http.MethodGet, "/api/v1/query?"+q.Encode())
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	for _, expr := range []string{
		`m0{inst="0",team="a"}`, `sum by (team) (m0)`, `rate(m1[5m])`, `count by (__name__) ({job="j"})`, `m1 * on (inst, secret) m2`,
		`count({__name__=~"m.*"})`, `topk(1, m2{team="a"})`, `histogram_count(h)`,
	} {
		one := query("bb", expr)
		require.NotContains(t, one, keyschema.TenantLabel)
		if by, sum := strings.CutPrefix(expr, "sum by (team"); sum {
			expr = "sum by (team, __tenant_id__" + by
		} else if by, count := strings.CutPrefix(expr, "count by (__name__"); count {
			expr = "count by (__name__, __tenant_id__" + by
		} else if strings.HasPrefix(expr, "count({") {
			expr = `count by (__tenant_id__) ` + strings.TrimPrefix(expr, "count")
		} else if strings.HasPrefix(expr, "topk") {
			expr = `topk by (__tenant_id__)` + strings.TrimPrefix(expr, "topk")
		} else {
			expr = strings.ReplaceAll(expr, "on (inst", "on (__tenant_id__, inst")
		}
		all := query("a|default|bb", expr)
		samples := func(text string) []string {
			from, to := strings.Index(text, `"result":[`), strings.Index(text, "]}]")
			return strings.Split(text[from+len(`"result":[`):to+1], `,{"metric"`)
		}
		require.Len(t, samples(all), 3*len(samples(one)), "%s\n%s\n%s", expr, all, one)
		label := `"__tenant_id__":"bb"`
		without := strings.NewReplacer(","+label, "", label+",", "", label, "").Replace(all)
		for _, sample := range samples(one) {
			require.Contains(t, without, strings.TrimPrefix(sample, `{"metric"`), expr)
		}
		require.NotContains(t, query("a|default", expr), secretOf("bb"))
		require.Contains(t, query("a|default", expr), `"__tenant_id__":"default"`, expr)
	}
	require.Contains(t, query("a|bb", `count(m0{__tenant_id__="bb"})`), `"9"`)
	require.Contains(t, query("a|bb", `count(m0{__tenant_id__=~".+"})`), `"18"`)
	require.Contains(t, query("a|bb", `m0{__tenant_id__="default"}`), `"result":[]`)
	look := func(path string) string {
		w := s.withOrg("a,bb,default", "a|default", "", http.MethodGet, path)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		return w.Body.String()
	}
	require.Contains(t, look("/api/v1/label/__tenant_id__/values"), `["a","default"]`)
	require.Contains(t, look("/api/v1/labels"), `"__tenant_id__"`)
	require.Contains(t, look(`/api/v1/label/__name__/values?limit=3`), `["h","hidden-a","hidden-default"]`)
	require.Contains(t, look("/api/v1/metadata?metric=m0"), secretOf("a"))
	require.Contains(t, look("/api/v1/metadata?metric=m0"), secretOf("default"))
	require.Equal(t, 2, strings.Count(look(`/api/v1/series?match[]=up`), `"__name__":"up"`))
}

// TestTenantOfEachProtocol: with each protocol, series go to the tenant of the request.
func TestTenantOfEachProtocol(t *testing.T) {
	s := newTenants(t, tenants.Options{})
	at := comparison.End
	for path, body := range map[string]string{
		"/api/v1/import/prometheus": fmt.Sprintf("door 1 %d000\n", at),
		"/api/v1/import":            fmt.Sprintf(`{"metric":{"__name__":"door"},"values":[2],"timestamps":[%d000]}`, at),
		"/write?precision=s":        fmt.Sprintf("door value=3 %d\n", at),
		"/api/put":                  fmt.Sprintf(`{"metric":"door","timestamp":%d,"value":4,"tags":{"a":"b"}}`, at),
		"/metrics/job/x":            "door 5\n",
	} {
		for _, who := range []string{"bb", "a"} {
			w := s.as(who, http.MethodPost, path, []byte(body))
			require.Less(t, w.Code, 300, "%s: %s", path, w.Body)
		}
		target := fmt.Sprintf(`/api/v1/query?query=count({__name__=~"door|door_value"})&time=%d`, at)
		require.Contains(t, s.as("a", http.MethodGet, target, nil).Body.String(), `"value"`, path)
		require.NotContains(t, s.as(keyschema.DefaultTenant, http.MethodGet, target, nil).Body.String(), `"value"`, path)
		require.Equal(t, http.StatusUnauthorized, s.as("", http.MethodPost, path, []byte(body)).Code)
	}
	target := fmt.Sprintf(`/api/v1/query?query=count({__name__=~"door.*"})&time=%d`, at)
	require.Contains(t, s.as("bb", http.MethodGet, target, nil).Body.String(), `"3"`)
}

// TestReservedNames: no sender can write reserved names.
func TestReservedNames(t *testing.T) {
	for _, on := range []bool{false, true} {
		s := newStack(t)
		who := ""
		if on {
			s, who = newTenants(t, tenants.Options{}), keyschema.DefaultTenant
		}
		for _, metric := range []string{"&bb&m0", "&x"} {
			message, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{{
				Labels:  prompb.FromLabels(labels.FromStrings("__name__", metric), nil),
				Samples: []prompb.Sample{{Timestamp: comparison.End * 1000, Value: 1}},
			}}}).Marshal()
			require.NoError(t, err)
			w := s.as(who, http.MethodPost, "/api/v1/write", snappy.Encode(nil, message))
			if metric == "&x" {
				require.Equal(t, http.StatusNoContent, w.Code, w.Body) // see Limits.Tenants for servers with tenants
				continue
			}
			require.Equal(t, http.StatusBadRequest, w.Code)
			require.Contains(t, w.Body.String(), "reserved_name")
		}
	}
}
