package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/api/promjson"
	"halite/query"
	"halite/query/budget"
	"halite/storage"
)

func allowOrigin(o *Options) { o.CORSOrigin = regexp.MustCompile(`^https://good\.example$`) }

// TestReadiness: until the server is ready, requests that need the store get 503 and the reason.
func TestReadiness(t *testing.T) {
	state := Readiness{Reason: "replaying the log", RetryAfter: 7 * time.Second}
	f := newFixture(t, func(o *Options) { o.Ready = func() Readiness { return state } })
	w := f.get("/-/ready")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "Service Unavailable: replaying the log\n", body(t, w))
	require.Equal(t, "7", w.Header().Get("Retry-After"))
	require.Equal(t, "false", w.Header().Get("X-Prometheus-Stopping"))
	for _, target := range []string{"/api/v1/query?query=1", "/api/v1/labels", "/api/v1/status/buildinfo"} {
		w := f.get(target)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, target)
		require.Equal(t, "7", w.Header().Get("Retry-After"))
		require.Equal(t, `{"status":"error","errorType":"unavailable",`+
			`"error":"service unavailable: replaying the log"}`, body(t, w))
	}
	require.Equal(t, http.StatusServiceUnavailable, f.write(strings.NewReader("x")).Code)
	require.Equal(t, http.StatusServiceUnavailable, f.post("/api/v1/read", "x").Code)
	require.Empty(t, f.writer.bodies)
	require.Equal(t, 1., f.metric(t, "tsdb_http_rejected_total",
		map[string]string{"handler": WritePath, "reason": "not_ready"}))
	for _, target := range []string{"/-/healthy", "/metrics", "/api/v1/status/walreplay", "/api/v1/status/overview", "/"} {
		require.Equal(t, http.StatusOK, f.get(target).Code, target)
	}
	require.Contains(t, body(t, f.get("/api/v1/status/overview")), `"ready":false,"reason":"replaying the log"`)

	state = Readiness{Stopping: true, Reason: "shutting down"}
	require.Equal(t, "true", f.get("/-/ready").Header().Get("X-Prometheus-Stopping"))

	state = Readiness{Ready: true}
	require.Equal(t, "Halite is Ready.\n", body(t, f.get("/-/ready")))
	require.Equal(t, "Halite is Healthy.\n", body(t, f.get("/-/healthy")))
	for _, target := range []string{"/-/ready", "/-/healthy"} {
		w := f.do(httptest.NewRequest(http.MethodHead, target, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, body(t, w))
	}
}

// TestRefusing: while the server refuses writes, it is not ready but serves reads. If only a restart helps, it is not
// healthy either.
func TestRefusing(t *testing.T) {
	var refusing error
	f := newFixture(t, func(o *Options) { o.Refusing = func() error { return refusing } })
	require.Equal(t, http.StatusOK, f.get("/-/ready").Code)
	for _, c := range []struct {
		err     error
		healthy int
	}{
		{fmt.Errorf("%w: disk full", storage.ErrUnavailable), http.StatusOK},
		{fmt.Errorf("%w: %w: device error", storage.ErrUnavailable, storage.ErrFailed), http.StatusServiceUnavailable},
	} {
		refusing = c.err
		w := f.get("/-/ready")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Contains(t, body(t, w), c.err.Error())
		require.Equal(t, c.healthy, f.get("/-/healthy").Code)
		require.Equal(t, http.StatusOK, f.get("/api/v1/query?query=1").Code)
	}
	refusing = nil
	require.Equal(t, http.StatusOK, f.get("/-/ready").Code)
}

// TestMethods checks that a response to a wrong method lists the right ones, and that unknown paths below /api/ get 404 in JSON.
func TestMethods(t *testing.T) {
	f := newFixture(t, nil)
	for _, c := range []struct {
		method, path, allow string
		code                int
	}{
		{http.MethodPut, "/api/v1/query", "GET, POST, OPTIONS", 405},
		{http.MethodDelete, "/api/v1/labels", "GET, POST, OPTIONS", 405},
		{http.MethodPost, "/api/v1/label/job/values", "GET, OPTIONS", 405},
		{http.MethodGet, "/api/v1/write", "POST, OPTIONS", 405},
		{http.MethodGet, "/api/v1/read", "POST, OPTIONS", 405},
		{http.MethodPost, "/-/healthy", "GET, HEAD, OPTIONS", 405},
		{http.MethodOptions, "/api/v1/query", "GET, POST, OPTIONS", 204},
		{http.MethodOptions, "/api/v1/write", "POST, OPTIONS", 204},
		{http.MethodGet, "/api/v1/nothing", "", 404},
		{http.MethodGet, "/api/v1/nothing/", "", 404},
		{http.MethodGet, "/api/v1/label/a/b/values", "", 404},
		{http.MethodGet, "/nothing", "", 404},
		{http.MethodGet, "/etc/passwd", "", 404},
	} {
		w := f.do(httptest.NewRequest(c.method, c.path, nil))
		require.Equal(t, c.code, w.Code, "%s %s", c.method, c.path)
		require.Equal(t, c.allow, w.Header().Get("Allow"), "%s %s", c.method, c.path)
		if c.code == 405 || c.code == 404 && strings.HasPrefix(c.path, "/api/") {
			require.True(t, json.Valid([]byte(body(t, w))), c.path)
		}
	}
	require.Contains(t, body(t, f.get("/api/v1/nothing")), `"errorType":"not_found"`)
	require.Equal(t, 6., f.metric(t, "tsdb_http_requests_total", map[string]string{"handler": "unknown", "code": "404"}))
}

// TestPathsLikeTemplates: a label whose name looks like the variable of a route is a label.
func TestPathsLikeTemplates(t *testing.T) {
	w := newFixture(t, nil).get("/api/v1/label/%7Bname%7D/values")
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

// TestSlashes: a path with repeated slashes leads to its endpoint, with the same method and parameters.
func TestSlashes(t *testing.T) {
	f := newFixture(t, nil)
	for target, location := range map[string]string{
		"//api/v1/query?query=1": "/api/v1/query?query=1", "/api/v1//query": "/api/v1/query", "/api/v1/labels/": "/api/v1/labels",
		"/-/healthy/": "/-/healthy", "//api/v1/label/a%2Fb/values": "/api/v1/label/a%2Fb/values", "//-/ready": "/-/ready",
	} {
		r := httptest.NewRequest(http.MethodGet, "http://halite.example"+target, nil)
		w := f.do(r)
		require.Equal(t, http.StatusTemporaryRedirect, w.Code, target)
		require.Equal(t, location, w.Header().Get("Location"), target)
		require.NotEqual(t, http.StatusNotFound, f.get(location).Code, location)
	}
	w := f.do(httptest.NewRequest(http.MethodPost, "http://halite.example//api/v1/write", nil))
	require.Equal(t, http.StatusTemporaryRedirect, w.Code)
	for target, location := range map[string]string{
		"//elsewhere.example": "/elsewhere.example", "//elsewhere.example/api/v1/query": "/elsewhere.example/api/v1/query",
		"///": "/", "/prometheus//api/v1/query": "/prometheus/api/v1/query", "/api/v1//nothing": "/api/v1/nothing",
		"/api/v1/label//values": "/api/v1/label/values", "/nothing/": "", "/api/v1/../../etc/passwd": "/etc/passwd",
		"/api/v1/label/values": "",
	} {
		w := f.do(httptest.NewRequest(http.MethodGet, "http://halite.example"+target, nil))
		want := http.StatusTemporaryRedirect // as in Prometheus, even if no endpoint has the path
		if location == "" {
			want = http.StatusNotFound
		}
		require.Equal(t, want, w.Code, target)
		require.Equal(t, location, w.Header().Get("Location"), target)
	}
}

// TestCORS: without the option no page of another origin can read a response.
func TestCORS(t *testing.T) {
	headersFor := func(f *fixture, origin string) http.Header {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/labels", nil)
		r.Header.Set("Origin", origin)
		return f.do(r).Header()
	}
	closed, open := newFixture(t, nil), newFixture(t, allowOrigin)
	require.Empty(t, headersFor(closed, "https://good.example").Get("Access-Control-Allow-Origin"))
	require.Empty(t, headersFor(open, "https://evil.example").Get("Access-Control-Allow-Origin"))
	h := headersFor(open, "https://good.example")
	require.Equal(t, "https://good.example", h.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "GET, POST, OPTIONS", h.Get("Access-Control-Allow-Methods"))
	require.Contains(t, h.Values("Vary"), "Origin")
}

// TestGzip compares a compressed response with the plain one.
func TestGzip(t *testing.T) {
	f := newFixture(t, nil)
	const target = "/api/v1/query_range?query=requests_total&start=0&end=600&step=1"
	plain := body(t, f.get(target))
	require.Greater(t, len(plain), 10<<10)
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := f.do(r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Less(t, w.Body.Len(), len(plain)/2)
	zr, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	unzipped, err := io.ReadAll(zr)
	require.NoError(t, err)
	require.Equal(t, plain, string(unzipped))
	// Small responses and errors stay as they are.
	r = httptest.NewRequest(http.MethodGet, "/api/v1/query?query=1", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	require.Empty(t, f.do(r).Header().Get("Content-Encoding"))
}

// TestLargeResponse: a response that is sent in parts equals one that is sent at once.
func TestLargeResponse(t *testing.T) {
	f := newFixture(t, nil)
	const target = "/api/v1/query_range?query=requests_total&start=0&end=600&step=0.1"
	w := f.get(target)
	require.Greater(t, w.Body.Len(), 3*promjson.SpillBytes/2)
	require.Empty(t, w.Header().Get("Content-Length"))
	var response struct {
		Data struct{ Result []struct{ Values [][2]any } }
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
	require.Len(t, response.Data.Result, 2)
	require.Len(t, response.Data.Result[0].Values, 6001)
	require.Equal(t, []any{60.1, "40"}, response.Data.Result[0].Values[601][:])
	require.NotEmpty(t, f.get("/api/v1/labels").Header().Get("Content-Length"))
}

// TestPanic: a panic becomes a 500 and is counted and logged; in the middle of a response it breaks the connection.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t, func(o *Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Index = failing{before: func(context.Context) { panic("fault in the index") }}
	})
	w := f.get("/api/v1/labels")
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Equal(t, `{"status":"error","errorType":"internal",`+
		`"error":"unexpected error; the server's log has the details"}`, body(t, w))
	require.Equal(t, 1., f.metric(t, "tsdb_http_panics_total", map[string]string{}))
	require.Equal(t, 1., f.metric(t, "tsdb_http_requests_total",
		map[string]string{"handler": "/api/v1/labels", "code": "500"}))
	require.Contains(t, log.String(), "fault in the index")
	require.Contains(t, log.String(), "http_test.go")
	require.True(t, f.lookups.TryAcquire(int64(f.opts.Limits.LookupConcurrencyMax)), "the slot was released")

	midway := f.newRoute("midway", access{open: true}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half an ans")
		panic("fault")
	})
	for _, compressed := range []http.Handler{nil, gzhttp.GzipHandler(http.HandlerFunc(midway.serve))} {
		midway.compressed = compressed
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { midway.ServeHTTP(httptest.NewRecorder(), r) })
	}
	require.Equal(t, 0., f.metric(t, "tsdb_http_requests_in_flight", map[string]string{}))
}

// TestLookupFailures pins the responses to errors of the index.
func TestLookupFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		typ  string
	}{
		{errors.New("boom"), 422, "execution"},
		{context.Canceled, 499, "canceled"},
		{context.DeadlineExceeded, 503, "timeout"},
		{promql.ErrQueryTimeout("query"), 503, "timeout"},
		{promql.ErrQueryCanceled("query"), 499, "canceled"},
		{promql.ErrStorage{Err: errors.New("disk")}, 500, "internal"},
		{fmt.Errorf("quota: %w", storage.ErrUnavailable), 503, "unavailable"},
		{&query.Error{Type: query.ErrorUnavailable, Err: query.ErrBusy}, 503, "unavailable"},
		{&query.Error{Type: query.ErrorCanceled, Err: query.ErrCancelled}, 503, "canceled"},
		{&budget.LimitError{Resource: budget.Bytes, Max: 1}, 422, "execution"},
		{&budget.LimitError{Resource: budget.PoolBytes, Max: 1}, 503, "unavailable"},
	} {
		f := newFixture(t, func(o *Options) { o.Index = failing{err: c.err} })
		for _, target := range []string{"labels", "label/a/values", "series?match[]=up"} {
			w := f.get("/api/v1/" + target)
			require.Equal(t, c.code, w.Code, target)
			require.Contains(t, body(t, w), `"errorType":"`+c.typ+`"`)
			require.Equal(t, c.code == http.StatusServiceUnavailable, w.Header().Get("Retry-After") != "")
		}
	}
}

// TestLookupQueue: look-ups over the limit wait for a slot, but not longer than the time limit.
func TestLookupQueue(t *testing.T) {
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	f := newFixture(t, func(o *Options) {
		o.Limits.LookupConcurrencyMax = 1
		o.Limits.LookupTimeout = 20 * time.Millisecond
		o.Index = failing{before: func(ctx context.Context) {
			_, bounded := ctx.Deadline()
			if bounded {
				entered <- struct{}{}
				<-leave
			}
		}}
	})
	first := make(chan int)
	go func() { first <- f.get("/api/v1/labels").Code }()
	<-entered
	w := f.get("/api/v1/labels")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, body(t, w), `"errorType":"unavailable"`)
	close(leave)
	require.Equal(t, 200, <-first)
}

// TestMetrics scrapes the server's own figures.
func TestMetrics(t *testing.T) {
	f := newFixture(t, nil)
	response := body(t, f.get("/api/v1/query?query=1"))
	text := body(t, f.get("/metrics"))
	for _, line := range []string{
		`tsdb_http_requests_total{code="200",handler="/api/v1/query"} 1`,
		`tsdb_http_request_duration_seconds_count{handler="/api/v1/query"} 1`,
		`tsdb_http_requests_in_flight 1`,
		fmt.Sprintf(`tsdb_http_response_bytes_total{handler="/api/v1/query"} %d`, len(response)),
	} {
		require.True(t, strings.Contains(text, line), line)
	}
	_, err := New(f.opts)
	require.ErrorContains(t, err, "register metrics")
}

// TestMetricsAtOnce: while one request of /metrics runs, another one above the limit gets 503.
func TestMetricsAtOnce(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(o *Options) {
		o.Limits.MetricsRequestsMax = 1
		o.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			close(entered)
			<-leave
			return nil, nil
		})
	})
	first := make(chan int)
	go func() { first <- f.get("/metrics").Code }()
	<-entered
	w := f.get("/metrics")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, body(t, w), "Limit of concurrent requests reached (1)")
	close(leave)
	require.Equal(t, http.StatusOK, <-first)
}

// TestClientGone: when a client disconnects, its request ends.
func TestClientGone(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	f := newFixture(t, func(o *Options) {
		o.Index = failing{err: context.Canceled, before: func(ctx context.Context) {
			close(began)
			<-ctx.Done()
			ended <- context.Cause(ctx)
		}}
	})
	server := httptest.NewServer(f.Handler())
	defer server.Close()
	ctx, hangUp := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/labels", nil)
	require.NoError(t, err)
	go func() {
		<-began
		hangUp()
	}()
	_, err = server.Client().Do(r)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
}
