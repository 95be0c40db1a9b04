package api_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/ingest"
)

// send posts a body and returns the response. Headers come in pairs.
func (s *stack) send(path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// query returns the response to an instant query at the time of the comparison.
func (s *stack) query(t testing.TB, expr string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/api/v1/query?query="+url.QueryEscape(expr)+
		"&time="+strconv.FormatInt(comparison.Now().Unix(), 10), nil)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	return w.Body.String()
}

// senders returns the list of senders.
func (s *stack) senders() string {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/status/senders", nil))
	return w.Body.String()
}

func gzipped(t testing.TB, body string) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(body))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return packed.String()
}

func TestImportText(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const path = "/api/v1/import/prometheus"
	for range 3 { // the second time the series is known by its text
		w := s.send(path, "temperature{room=\"attic\"} 21.5\n", "Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	}
	require.Contains(t, s.query(t, "temperature"), `"room":"attic"},"value":[`)
	require.Equal(t, http.StatusNoContent, s.send(path+"?extra_label=job=x", gzipped(t, "temperature{room=\"attic\"} 3\n"),
		"Content-Encoding", "gzip").Code)
	require.Contains(t, s.query(t, "temperature"), `"job":"x","room":"attic"},"value":[`)
	require.Contains(t, s.query(t, "count(temperature)"), `"2"`)

	w := s.send(path, "temperature{ 3\n")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "line 1 or later")
	w = s.send(path, "temperature 3 99999999999999\nhumidity 4\n")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "1 of 2 samples rejected (too_far_ahead: 1)")
	require.Contains(t, s.query(t, "humidity"), `"4"`)
	require.Equal(t, http.StatusBadRequest, s.send(path+"?timestamp=soon", "up 1\n").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, s.send(path, "up 1\n", "Content-Encoding", "br").Code)
	require.Equal(t, http.StatusBadRequest, s.send(path, "up 1\n", "Content-Encoding", "gzip").Code)

	list := s.senders()
	require.Contains(t, list, `"protocol":"Prometheus text import"`)
	require.Contains(t, list, `"too_far_ahead":1`)
	require.Contains(t, list, `"parameter":1`)
}

func TestPushgateway(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	require.Equal(t, http.StatusOK, s.send("/metrics/job/backup/instance/a%2Fb", "last_success 1\n").Code)
	require.Contains(t, s.query(t, "last_success"), `{"__name__":"last_success","instance":"a/b","job":"backup"}`)
	require.Equal(t, http.StatusOK, s.send("/api/v1/import/prometheus/metrics/job/a%2Fb/path@base64/L3g", "pushed 1\n").Code)
	require.Contains(t, s.query(t, "pushed"), `{"__name__":"pushed","job":"a/b","path":"/x"}`)
	require.Equal(t, http.StatusBadRequest, s.send("/metrics/job/", "up 1\n").Code)
	require.Equal(t, http.StatusBadRequest, s.send("/metrics/job/x", "up 1 1000\n").Code)
	require.Contains(t, s.senders(), `"protocol":"Pushgateway"`)
}

// TestWriteProtocol: the check of hosts recognises write requests.
func TestWriteProtocol(t *testing.T) {
	for path, want := range map[string]string{
		"/x/api/v1/write": "remote write 1.0", "/x/api/v1/import/prometheus": "Prometheus text import",
		"/x/metrics/job/a": "Pushgateway", "/x/api/v1/import/prometheus/metrics/job/a": "Pushgateway",
		"/x/otlp/v1/metrics": "OTLP", "/x/opentelemetry/v1/metrics": "OTLP", "/x/api/v1/push": "remote write 1.0",
		"/x/prometheus/api/v1/write": "remote write 1.0", "/x/metrics": "", "/metrics/job/a": "", "/x/api/v1/query": "",
	} {
		require.Equal(t, want, api.WriteProtocol(httptest.NewRequest(http.MethodPost, path, nil), "/x"), path)
	}
}

func TestInflux(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	ms := strconv.FormatInt(comparison.Now().UnixMilli()-1000, 10)
	require.Equal(t, http.StatusNoContent, s.send("/write?db=tele&precision=ns", gzipped(t,
		"cpu,host=a idle=1,text=\"x\" "+ms+"000000\ncpu,host=a idle=2 "+ms+"000001\n"), "Content-Encoding", "gzip").Code)
	require.Contains(t, s.query(t, "cpu_idle"), `{"__name__":"cpu_idle","db":"tele","host":"a"},"value":[`)
	require.Contains(t, s.query(t, "cpu_idle"), `"2"`) // the last one of the millisecond
	require.Contains(t, s.senders(), `"not_numeric":1`)
	require.Contains(t, s.senders(), `"same_millisecond":1`)

	w := s.send("/api/v2/write?bucket=b&precision=ms", "mem free=1 "+ms+"\nmem\nmem used=2 "+ms+"\n")
	require.Equal(t, http.StatusNoContent, s.send("/api/v2/write?bucket=b", "").Code)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.JSONEq(t, `{"code":"invalid","line":2,`+
		`"message":"partial write: line 2: unable to parse 'mem': missing fields dropped=1"}`, w.Body.String())
	require.Contains(t, s.query(t, "mem_free"), `"db":"b"`)
	w = s.send("/write?precision=days", "cpu idle=1")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `{"error":"invalid precision`)
	require.Contains(t, s.senders(), `"protocol":"InfluxDB 2 line protocol"`)

	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodHead, "/ping", nil))
	require.Equal(t, http.StatusNoContent, w.Code)
	require.NotEmpty(t, w.Header().Get("X-Influxdb-Version"))
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/health", nil))
	require.Contains(t, w.Body.String(), `"status":"pass"`)
	w = httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"ready"}`, w.Body.String())
}

// TestInfluxBelowPrefix: VictoriaMetrics's paths answer like InfluxDB's.
func TestInfluxBelowPrefix(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	ms := strconv.FormatInt(comparison.Now().UnixMilli()-1000, 10)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/write?db=a&precision=ms", "cpu,host=a idle=1 " + ms}, {"POST", "/write?db=a", "cpu"},
		{"POST", "/api/v2/write?bucket=b&precision=ms", "mem,host=a free=1 " + ms}, {"POST", "/api/v2/write?bucket=b", "mem"},
		{"GET", "/ping", ""}, {"HEAD", "/ping", ""}, {"GET", "/health", ""}, {"GET", "/ready", ""},
		{"GET", "/query?q=SHOW+DATABASES", ""},
		{"POST", "/query?q=CREATE+DATABASE+a", ""}, {"POST", "/query?q=DROP+DATABASE+a", ""}, {"GET", "/write", ""},
	} {
		var responses [2]*httptest.ResponseRecorder
		for n, prefix := range []string{"", "/influx"} {
			responses[n] = httptest.NewRecorder()
			s.Handler().ServeHTTP(responses[n], httptest.NewRequest(c.method, prefix+c.path, strings.NewReader(c.body)))
		}
		require.Equal(t, responses[0].Code, responses[1].Code, c.path)
		require.Equal(t, responses[0].Body.String(), responses[1].Body.String(), c.path)
		require.Equal(t, responses[0].Header(), responses[1].Header(), c.path)
	}
	require.Contains(t, s.query(t, "cpu_idle"), `"db":"a"`)
	require.Contains(t, s.query(t, "mem_free"), `"db":"b"`)
	require.Equal(t, 2, strings.Count(s.senders(), ` line protocol"`))
}

func TestOTLP(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	document := `{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},` +
		`"scopeMetrics":[{"metrics":[{"name":"depth","gauge":{"dataPoints":[{"asDouble":1.5,"timeUnixNano":"` +
		strconv.FormatInt(comparison.Now().UnixMilli(), 10) + `000000"},{"asDouble":2,"timeUnixNano":"9999999999000000000"}]}}]}]}]}`
	for _, path := range []string{"/v1/metrics", "/api/v1/otlp/v1/metrics", "/otlp/v1/metrics", "/opentelemetry/v1/metrics"} {
		w := s.send(path, gzipped(t, document), "Content-Type", "application/json", "Content-Encoding", "gzip")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Contains(t, w.Body.String(), `"rejectedDataPoints":"1"`)
	}
	require.Contains(t, s.query(t, "depth"), `{"__name__":"depth","job":"shop"},"value":[`)
	require.Equal(t, http.StatusBadRequest, s.send("/v1/metrics", "{", "Content-Type", "application/json").Code)
	require.Equal(t, http.StatusUnsupportedMediaType, s.send("/v1/metrics", "{}", "Content-Type", "text/plain").Code)
	require.Contains(t, s.senders(), `"protocol":"OTLP"`)
}

// TestLongStrings sends labels that Prometheus's labels cannot hold, by all protocols.
func TestLongStrings(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	half := strings.Repeat("x", 1<<23)
	long, at := half+half, strconv.FormatInt(comparison.Now().UnixMilli(), 10)
	otlp := func(attribute, name, exemplar string) string {
		return `{"resourceMetrics":[{"resource":{"attributes":[{"key":"a","value":` + attribute + `}]},` +
			`"scopeMetrics":[{"metrics":[{"name":"` + name + `","gauge":{"dataPoints":[{"asDouble":1,"timeUnixNano":"` + at +
			`000000","exemplars":[{"timeUnixNano":"` + at + `000000","asDouble":1,"filteredAttributes":[{"key":"e","value":` +
			exemplar + `}]}]}]}}]}]}]}`
	}
	list := `{"arrayValue":{"values":[{"stringValue":"` + half + `"},{"stringValue":"` + half + `"}]}}`
	const short = `{"stringValue":"s"}`
	for _, c := range []struct{ path, body, contentType string }{
		{"/v1/metrics", otlp(list, "m", short), "application/json"},
		{"/v1/metrics", otlp(short, long, short), "application/json"},
		{"/v1/metrics", otlp(short, "m", list), "application/json"},
		{"/api/v1/import/prometheus", "m{a=\"" + long + "\"} 1\n", ""},
		{"/api/v1/import", `{"metric":{"__name__":"m","a":"` + long + `"},"values":[1],"timestamps":[` + at + `]}`, ""},
		{"/api/v1/import/csv?format=1:label:a,2:metric:m", long + ",1\n", ""},
		{"/write?precision=ms", "m,a=" + long + " v=1 " + at, ""},
		{"/api/put", `{"metric":"m","timestamp":` + at + `,"value":1,"tags":{"a":"` + long + `"}}`, ""},
	} {
		w := s.send(c.path, gzipped(t, c.body), "Content-Type", c.contentType, "Content-Encoding", "gzip")
		require.Less(t, w.Body.Len(), 2000, c.path)
		if c.path == "/v1/metrics" {
			require.Equal(t, 200, w.Code, w.Body)
			require.Contains(t, w.Body.String(), `"rejectedDataPoints":"1"`)
			require.Contains(t, w.Body.String(), "2097152")
			continue
		}
		require.Contains(t, []int{400, 413}, w.Code, "%s: %s", c.path, w.Body)
	}
	require.Equal(t, 204, s.send("/api/v1/import/prometheus", "good 1\n").Code)
}

// TestProtocolsMix writes samples of one series by several protocols, and reads them back as one series.
func TestProtocolsMix(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	at := comparison.Now().UnixMilli() - 10_000
	text := func(n int64) string { return strconv.FormatInt(at+1000*n, 10) }
	require.Equal(t, 204, s.send("/api/v1/import/prometheus", "mixed_v{host=\"a\",job=\"j\"} 0 "+text(0)+"\n").Code)
	require.Equal(t, 204, s.send("/write?precision=ms", "mixed,job=j,host=a v=1 "+text(1)).Code)
	require.Equal(t, 204, s.send("/api/v2/write?precision=ms", "mixed,host=a,job=j v=9,w=1 "+text(2)).Code)
	_, err := s.ingester.Write(context.Background(), ingest.SamplesInput([]ingest.Sample{{
		Labels: labels.FromStrings("__name__", "mixed_v", "host", "a", "job", "j"), TsMs: at + 2000, Value: 2,
	}}))
	require.NoError(t, err)
	response := s.query(t, "mixed_v[1m]")
	require.Equal(t, 1, strings.Count(response, "metric"), response)
	for n := range int64(3) {
		require.Contains(t, response, `,"`+strconv.FormatInt(n, 10)+`"]`)
	}
}

// TestMimirPaths: clients that are configured for Mimir or Cortex find their paths.
func TestMimirPaths(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	require.Equal(t, 200, s.send("/prometheus/metrics/job/a%2Fb", "up 1\n").Code, "an escaped slash stays in its label")
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	at := strconv.FormatInt(comparison.Now().Unix(), 10)
	require.Contains(t, get("/prometheus/api/v1/query?query=up&time="+at).Body.String(), `"job":"a/b"`)
	require.Contains(t, get("/prometheus/api/v1/label/job/values?start="+at+"&end="+at).Body.String(), `"a/b"`)
	require.Equal(t, http.StatusNotFound, get("/prometheus/prometheus/api/v1/query?query=up").Code)
	require.Equal(t, http.StatusNotFound, get("/prometheus/nothing").Code)
	w := s.send("/api/v1/push", "no snappy", "Content-Type", "application/x-protobuf")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "snappy")
}
