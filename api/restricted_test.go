package api_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
	"halite/storage/principal"
	"halite/storage/storagetest/seeds"
)

// marker is in all data that a restricted guest must not see, and in no request.
const marker = "hidden-"

// guest accepts every request as the principal in the header Authorization: part, or all.
type guest struct{}

func (guest) Identify(r *http.Request) (*principal.Principal, error) {
	p := &principal.Principal{Name: "all", Scopes: principal.Every}
	if r.Header.Get("Authorization") == "part" {
		p = &principal.Principal{Name: "part", Scopes: principal.Read | principal.Admin, Match: []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchEqual, "team", "a"),
		}}
	}
	return p, nil
}

// newTeams is a database with series of team a, and series of team b that carry the marker.
func newTeams(t *testing.T) *stack {
	s := newStack(t)
	s.auth = guest{}
	s.Server = s.server(t, query.Options{
		Changes: s.ingester, ResultCacheBytes: 1 << 20, ResultCacheRecent: time.Millisecond, Now: comparison.Now,
	})
	req := &prompb.WriteRequest{Metadata: []prompb.MetricMetadata{
		{MetricFamilyName: "m0", Help: "of both", Type: prompb.MetricMetadata_GAUGE},
		{MetricFamilyName: marker + "metric", Help: marker + "help", Type: prompb.MetricMetadata_GAUGE},
	}}
	add := func(pairs ...string) {
		ts := prompb.TimeSeries{Labels: prompb.FromLabels(labels.FromStrings(pairs...), nil)}
		for i := range int64(120) {
			at := (comparison.End - 3600 + i*30) * 1000
			ts.Samples = append(ts.Samples, prompb.Sample{Timestamp: at, Value: float64(i * int64(len(req.Timeseries)+1))})
		}
		ts.Exemplars = []prompb.Exemplar{{
			Labels: prompb.FromLabels(labels.FromStrings("trace", pairs[len(pairs)-1]), nil), Value: 1,
			Timestamp: ts.Samples[60].Timestamp,
		}}
		req.Timeseries = append(req.Timeseries, ts)
	}
	for i := range 12 {
		name, inst := fmt.Sprintf("m%d", i%3), fmt.Sprint(i/3)
		add("__name__", name, "team", "a", "inst", inst, "job", "j")
		add("__name__", name, "team", "b", "inst", inst, "job", "j", "secret", marker+inst)
	}
	add("__name__", "up", "team", "a", "inst", "0", "job", "j", "instance", "x")
	add("__name__", "up", "team", "b", "job", marker+"job", "instance", marker+"x")
	add("__name__", marker+"metric", "team", "b", "job", "j", marker+"label", marker+"value")
	message, err := req.Marshal()
	require.NoError(t, err)
	result, err := s.ingester.Write(context.Background(), ingest.Input{Body: snappy.Encode(nil, message)})
	require.NoError(t, err)
	require.Zero(t, result.Rejected, result.First)
	return s
}

// as sends a request as a guest.
func (s *stack) as(who, method, target string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	r.Header.Set("Authorization", who)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// readers makes random requests. Where only team a may be selected, team is `team="a"`, otherwise "".
type readers struct{ *rand.Rand }

func (r readers) selector(team string) string {
	list := []string{
		`__name__="m0"`, `__name__=~"m.*"`, `inst!="1"`, `team=~".*"`, `team!="a"`, `team="b"`, `secret=~".+"`, `secret=""`,
		`job=~".+"`, `inst=~"0|2"`,
	}
	picked := []string{list[r.IntN(2)]}
	if r.IntN(4) == 0 {
		picked = []string{`job=~".+"`}
	}
	for range r.IntN(3) {
		picked = append(picked, list[r.IntN(len(list))])
	}
	if team != "" {
		picked = append(picked, team)
	}
	return "{" + strings.Join(picked, ",") + "}"
}

// expression is a random expression; selector makes its selectors.
func (r readers) expression(selector func() string) string {
	v := selector()
	switch r.IntN(12) {
	case 0:
		return v
	case 1:
		return "sum by (team) (" + v + ")"
	case 2:
		return "count(" + v + ")"
	case 3:
		return "sum by (secret, inst) (rate(" + v + "[5m]))"
	case 4:
		return "count(" + v + " * on (__name__, inst) group_left () count by (__name__, inst) (" + selector() + "))"
	case 5:
		return "count(absent(" + v + "))"
	case 6:
		return "topk(2, sum by (secret) (" + v + "))"
	case 7:
		return "max_over_time(count(" + v + ")[10m:1m])"
	case 8:
		return "count(count_values(\"x\", " + v + ")) or group by (team) (" + selector() + ")"
	case 9:
		return "quantile_over_time(0.5, " + v + "[10m])"
	case 10:
		return "count(" + v + " unless on (inst) " + selector() + ")"
	}
	return "label_replace(avg_over_time(" + v + "[3m]), \"x\", \"$1\", \"secret\", \"(.*)\")"
}

// request is a random request of part, and one of all that must have an equal response.
func (r readers) request() (part, all string) {
	seed := r.Uint64()
	make := func(team string) string {
		r := readers{rand.New(rand.NewPCG(seed, 1))}
		selector := func() string { return r.selector(team) }
		end, q := int64(comparison.End-60*r.IntN(3)), url.Values{}
		kind := r.IntN(8)
		name := []string{"team", "secret", "inst", "__name__", "job", "instance"}[r.IntN(6)]
		switch kind {
		case 0, 1:
			q.Set("query", r.expression(selector))
			q.Set("time", fmt.Sprint(end))
			return "/api/v1/query?" + q.Encode()
		case 2, 3:
			q.Set("query", r.expression(selector))
			q.Set("start", fmt.Sprint(end-1800))
			q.Set("end", fmt.Sprint(end))
			q.Set("step", "60")
			return "/api/v1/query_range?" + q.Encode()
		}
		q.Add("match[]", selector())
		if r.IntN(2) == 0 {
			q.Add("match[]", selector())
		}
		if r.IntN(3) == 0 && kind != 4 && kind != 7 {
			if q.Del("match[]"); team != "" {
				q.Set("match[]", "{"+team+"}")
			}
		}
		switch kind {
		case 4:
			return "/api/v1/series?" + q.Encode()
		case 5:
			return "/api/v1/labels?" + q.Encode()
		case 6:
			return "/api/v1/label/" + name + "/values?" + q.Encode()
		}
		return "/federate?" + q.Encode()
	}
	return make(""), make(`team="a"`)
}

// TestRestrictedReaders: a restricted guest gets the same responses as with its matchers in each selector, from caches
// too.
func TestRestrictedReaders(t *testing.T) {
	s := newTeams(t)
	first, count := seeds.Range(t, seeds.Default{Full: 3, Short: 1})
	for seed := first; seed < first+count; seed++ {
		r := readers{rand.New(rand.NewPCG(seed, 0))}
		for range 300 {
			part, all := r.request()
			s.as("all", http.MethodGet, part, nil) // fills the cache of results for everybody
			got, want := s.as("part", http.MethodGet, part, nil), s.as("all", http.MethodGet, all, nil)
			require.Equal(t, want.Code, got.Code, "seed %d: %s\n%s", seed, part, got.Body)
			if got.Code == http.StatusOK {
				require.Equal(t, want.Body.String(), got.Body.String(), "seed %d: %s", seed, part)
			}
			require.NotContains(t, got.Body.String(), marker, part)
		}
	}
}

// TestNoEndpointShowsMore sends to every endpoint. Everybody sees the marker somewhere, the restricted guest nowhere.
func TestNoEndpointShowsMore(t *testing.T) {
	s := newTeams(t)
	form := url.Values{
		"query": {`{job=~".+"}`}, "match[]": {`{job=~".+"}`}, "start": {fmt.Sprint(comparison.End - 3600)},
		"end": {fmt.Sprint(comparison.End)}, "step": {"60"}, "time": {fmt.Sprint(comparison.End)}, "limit": {"1000"},
		"type": {"tagv"}, "max": {"10000"}, "m": {"{job=*}"}, // of OpenTSDB
	}
	seen := map[string]bool{}
	for _, path := range s.Paths() {
		for _, name := range []string{"team", "secret", "__name__", "job"} {
			if strings.HasPrefix(path, "/api/v1/admin") {
				continue
			}
			if strings.Contains(path, " ") {
				continue // another method than GET
			}
			target := strings.NewReplacer("{name}", name, "/api/search", "/api/search/lookup").Replace(path) + "?" + form.Encode()
			method, body := http.MethodGet, []byte(nil)
			if path == "/api/v1/read" {
				continue // below
			}
			seen[path] = seen[path] || strings.Contains(s.as("all", method, target, body).Body.String(), marker)
			require.NotContains(t, s.as("part", method, target, body).Body.String(), marker, target)
		}
	}
	for _, kind := range []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS} {
		read := func(who string) string { return s.readAll(t, who, kind) }
		require.Contains(t, read("all"), marker)
		require.NotContains(t, read("part"), marker)
		require.Contains(t, read("part"), "team")
	}
	for _, path := range []string{
		"/api/v1/query", "/api/v1/query_range", "/api/v1/query_exemplars", "/api/v1/series", "/api/v1/labels", "/federate",
		"/api/v1/label/{name}/values", "/api/v1/metadata", "/api/suggest", "/api/search",
	} {
		require.True(t, seen[path], path)
	}
	require.Contains(t, s.as("part", http.MethodGet, "/api/v1/metadata", nil).Body.String(), "of both")
	require.Contains(t, s.as("part", http.MethodGet, "/api/v1/query_exemplars?"+form.Encode(), nil).Body.String(), "trace")
}

// readAll reads all series and returns the decoded body.
func (s *stack) readAll(t *testing.T, who string, kind prompb.ReadRequest_ResponseType) string {
	message, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{kind},
		Queries: []*prompb.Query{{
			StartTimestampMs: (comparison.End - 3600) * 1000, EndTimestampMs: comparison.End * 1000,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "job", Value: ".+"}},
		}},
	}).Marshal()
	require.NoError(t, err)
	w := s.as(who, http.MethodPost, "/api/v1/read", snappy.Encode(nil, message))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	if kind == prompb.ReadRequest_STREAMED_XOR_CHUNKS {
		return w.Body.String()
	}
	decoded, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	return string(decoded)
}

var _ api.Authenticator = guest{}
