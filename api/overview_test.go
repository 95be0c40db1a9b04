package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/senders"
	"halite/api/ui"
	"halite/ingest"
)

// namesOf is an index of one metric with one sample time and one job.
type namesOf struct {
	Index
	tsMs int64
	job  string
}

func (c namesOf) LabelValues(_ context.Context, _ string, mintMs, maxtMs int64, _ int, matchers ...*labels.Matcher,
) ([]string, error) {
	for _, m := range matchers {
		if m.Name != "job" || !m.Matches(c.job) {
			return nil, nil
		}
	}
	if c.tsMs < mintMs || c.tsMs > maxtMs {
		return nil, nil
	}
	return []string{"m"}, nil
}

// overviewOf gets the overview.
func overviewOf(t *testing.T, f *fixture) ui.Overview {
	t.Helper()
	var response struct{ Data ui.Overview }
	require.NoError(t, json.Unmarshal([]byte(body(t, f.get("/api/v1/status/overview"))), &response))
	return response.Data
}

// TestOverviewSaysWhatIsMissing: the page says whether senders other than the server itself sent samples in the past
// hour.
func TestOverviewSaysWhatIsMissing(t *testing.T) {
	now := time.UnixMilli(1_763_000_000_000)
	for _, c := range []struct {
		ago     time.Duration
		job     string
		arrives bool
	}{
		{time.Minute, "node", true}, {2 * time.Hour, "node", false}, {time.Minute, "halite", false},
	} {
		f := newFixture(t, func(o *Options) {
			o.Index = namesOf{tsMs: now.Add(-c.ago).UnixMilli(), job: c.job}
			o.OwnJob, o.Now = "halite", func() time.Time { return now }
		})
		got := overviewOf(t, f)
		require.Equal(t, c.arrives, got.Arriving)
		require.Equal(t, !c.arrives, got.Waiting)
		require.Equal(t, "halite", got.OwnJob)
	}
}

// TestOverviewSaysWhatWasRefused: the page shows each refusal of the past hour with its reason and the configuration
// that fixes it.
func TestOverviewSaysWhatWasRefused(t *testing.T) {
	now := time.UnixMilli(1_763_000_000_000)
	f := newFixture(t, func(o *Options) {
		o.Index = namesOf{tsMs: 0, job: "node"}
		o.OwnJob, o.Now = "halite", func() time.Time { return now }
	})
	require.Empty(t, overviewOf(t, f).Refused)
	f.write(strings.NewReader("x"), "Content-Type", "application/x-protobuf;proto=<b>x.Y", "User-Agent", "Prometheus/2.0")
	f.writer.response = func([]byte) (ingest.Result, error) {
		return ingest.Result{
			Accepted: 5, Rejected: 3, Reasons: map[string]int{ingest.ReasonTooManyLabels: 3}, First: "series up{}: 600 labels",
		}, nil
	}
	f.write(strings.NewReader("x"))
	got := overviewOf(t, f)
	require.Len(t, got.Refused, 2)
	for _, r := range got.Refused {
		require.Equal(t, now.UnixMilli(), r.AtMs)
		switch r.What {
		case "1 write request":
			require.Equal(t, "protobuf_message: io.prometheus.write.v2.Request", r.Line)
			require.Contains(t, r.Example, "message <b>x.Y")
			require.Contains(t, r.From, "(Prometheus/2.0)")
		case "3 samples":
			require.Equal(t, "the series have too many labels", r.Why)
			require.Equal(t, "--ingest.max-labels=1000", r.Line)
			require.Contains(t, r.Example, "series up{}: 600 labels")
		default:
			t.Errorf("unexpected refusal %+v", r)
		}
	}
	now = now.Add(2 * time.Hour)
	require.Empty(t, overviewOf(t, f).Refused)
}

// TestOverviewNamesItsAddress: the page shows the address of the request, unless its Host header is not a host.
func TestOverviewNamesItsAddress(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Build.Version, o.RoutePrefix = "1.2.3", "/halite" })
	require.Equal(t, "1.2.3", overviewOf(t, f).Version)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/status/overview", nil)
	for host, want := range map[string]string{
		"halite.example:9090": "https://halite.example:9090/halite",
		`x"><script>`:         "https://localhost/halite", "[::1]:9": "https://[::1]:9/halite",
	} {
		r.Host, r.Header = host, http.Header{"X-Forwarded-Proto": {"https"}}
		require.Contains(t, body(t, f.do(r)), `"url":"`+want+`"`)
	}
	f = newFixture(t, func(o *Options) { o.ExternalURL = "https://h/x" })
	require.Equal(t, "https://h/x", overviewOf(t, f).URL)
}

// TestSelf: a sender learns its own rights.
func TestSelf(t *testing.T) {
	f := guarded(t, nil)
	for name, want := range map[string]string{
		"reader": `{"name":"reader","scopes":["read"],"restricted":false,"tenants":[],"readsSeries":true,"adminApi":true}`,
		"part":   `{"name":"part","scopes":["read"],"restricted":true,"tenants":[],"readsSeries":true,"adminApi":true}`,
	} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/status/self", nil)
		r.Header.Set("Authorization", "Bearer "+name)
		require.Contains(t, body(t, f.do(r)), want)
	}
}

// TestScriptsGetNoDialog: a 401 to the web interface has no password challenge, because a browser would open a dialog.
func TestScriptsGetNoDialog(t *testing.T) {
	f := guarded(t, nil)
	r := httptest.NewRequest(http.MethodGet, "/api/v1/status/self", nil)
	r.Header.Set("X-Requested-With", "halite")
	w := f.do(r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Equal(t, []string{`Bearer realm="Halite"`}, w.Header().Values("WWW-Authenticate"))
}

// TestInterface: the page and its files need no log-in, and may load nothing from other hosts.
func TestInterface(t *testing.T) {
	f := guarded(t, nil)
	w := f.get("/")
	page := body(t, w)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'; style-src 'self';")
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
	names := regexp.MustCompile(`(?:src|href)="\./(assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		w := f.get("/" + name[1])
		require.Equal(t, http.StatusOK, w.Code, name)
		require.Contains(t, w.Header().Get("Cache-Control"), "immutable")
	}
	require.NotContains(t, page, "<style")
	require.NotRegexp(t, `<script[^>]*>[^<]`, page)
	require.Equal(t, http.StatusNotFound, f.get("/assets/none.js").Code)
	require.Equal(t, http.StatusNotFound, f.get("/index.html").Code)
}

// TestSendersEndpoint: the list has the sender of each request, whatever its outcome.
func TestSendersEndpoint(t *testing.T) {
	ready := true
	f := newFixture(t, func(o *Options) {
		o.Ready = func() Readiness { return Readiness{Ready: ready, Reason: "the server is shutting down"} }
	})
	const v2 = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p", "X-Prometheus-Remote-Write-Version", "2.0.0")
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p", "Sec-Fetch-Site", "cross-site", "Origin", "http://x")
	ready = false
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p")
	ready = true
	f.writer.response = func([]byte) (ingest.Result, error) { return ingest.Result{}, ingest.ErrTooLarge }
	f.write(strings.NewReader("x"), "Content-Type", v2, "User-Agent", "p")
	var response struct {
		Data struct{ Senders []senders.Status }
	}
	require.NoError(t, json.Unmarshal([]byte(body(t, f.get("/api/v1/status/senders"))), &response))
	require.Len(t, response.Data.Senders, 1)
	s := response.Data.Senders[0]
	require.Equal(t, senders.Sender{Address: "192.0.2.1", UserAgent: "p", Protocol: senders.ProtocolV2}, s.Sender)
	require.Equal(t, uint64(4), s.Requests)
	require.Equal(t, uint64(3), s.Accepted.Samples)
	require.Equal(t, map[string]uint64{"cross_origin": 1, "not_ready": 1, "too_large": 1}, s.RefusedRequests)
	require.Equal(t, ingest.ErrTooLarge.Error(), s.LastRefusal.Message)
	require.Equal(t, http.StatusBadRequest, f.get("/api/v1/status/senders?limit=x").Code)
	require.Equal(t, `{"status":"success","data":{"senders":[],"evicted":0,"haClusters":[]}}`,
		body(t, newFixture(t, nil).get("/api/v1/status/senders")))
}

// TestRefusalsAreCountedFromTheStart: the counters of all reasons exist before the first refusal.
func TestRefusalsAreCountedFromTheStart(t *testing.T) {
	f := newFixture(t, nil)
	for _, reason := range []string{"content_type", "encoding", "too_large", "body", "overload", "cross_origin", "not_ready",
		"repeated_panic"} {
		require.Zero(t, f.metric(t, "tsdb_http_rejected_total", map[string]string{"handler": WritePath, "reason": reason}), reason)
	}
}
