package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/batch"
	"halite/query"
	"halite/storage/index"
)

// world holds the data of the fakes: Prometheus' own storage with a few series.
const world = `
load 15s
	up{job="node", instance="a:9100"} 1x40
	up{job="node", instance="b:9100"} 0x40
	requests_total{job="web", code="200"} 0+10x40
	requests_total{job="web", code="500"} 0+1x40
	{"utf8.metric", "label with space"="ü<&>"} 7x40
`

// fakeWriter records its input and gives a preset response.
type fakeWriter struct {
	mu       sync.Mutex
	bodies   [][]byte
	response func(body []byte) (ingest.Result, error)
}

// Write records a body, or the keys of the series that Parse adds.
func (f *fakeWriter) Write(_ context.Context, in ingest.Input) (ingest.Result, error) {
	body := in.Body
	if in.Parse != nil {
		var b batch.Batch
		b.Reset(batch.Bounds{ItemsMax: 1000})
		if err := in.Parse(&b); err != nil {
			return ingest.Result{}, &ingest.BadRequestError{Err: err}
		}
		body = nil
		for b.Next() {
			body = append(body, b.Series().Key...)
		}
	}
	f.mu.Lock()
	f.bodies = append(f.bodies, slices.Clone(body))
	f.mu.Unlock()
	return f.response(body)
}

// last is the body of the newest request, never nil.
func (f *fakeWriter) last() []byte { return append([]byte{}, f.bodies[len(f.bodies)-1]...) }

// promIndex answers look-ups from a Prometheus storage.
type promIndex struct{ promstorage.Queryable }

func (c promIndex) with(mint, maxt int64, do func(promstorage.Querier) error) error {
	q, err := c.Querier(mint, maxt)
	if err != nil {
		return err
	}
	return errors.Join(do(q), q.Close())
}

func (c promIndex) Select(
	ctx context.Context, _ index.Budget, mint, maxt int64, ms ...*labels.Matcher,
) (list []index.Series, err error) {
	err = c.with(mint, maxt, func(q promstorage.Querier) error {
		hints := &promstorage.SelectHints{Start: mint, End: maxt, Func: "series"}
		set := q.Select(ctx, true, hints, ms...)
		for set.Next() {
			list = append(list, index.Series{Labels: set.At().Labels()})
		}
		return set.Err()
	})
	return list, err
}

// Explain of a Prometheus store finds nothing.
func (promIndex) Explain(
	context.Context, index.Budget, index.ResultKind, string, int64, int64, ...*labels.Matcher,
) (index.Work, error) {
	return index.Work{}, nil
}

func (c promIndex) LabelNames(
	ctx context.Context, mint, maxt int64, limit int, ms ...*labels.Matcher,
) (list []string, err error) {
	err = c.with(mint, maxt, func(q promstorage.Querier) error {
		list, _, err = q.LabelNames(ctx, &promstorage.LabelHints{Limit: limit}, ms...)
		return err
	})
	return list, err
}

func (c promIndex) LabelValues(
	ctx context.Context, name string, mint, maxt int64, limit int, ms ...*labels.Matcher,
) (list []string, err error) {
	err = c.with(mint, maxt, func(q promstorage.Querier) error {
		list, _, err = q.LabelValues(ctx, name, &promstorage.LabelHints{Limit: limit}, ms...)
		return err
	})
	return list, err
}

// failing is an index whose calls run before and then fail with err.
type failing struct {
	err    error
	before func(ctx context.Context)
}

// Explain fails.
func (f failing) Explain(
	ctx context.Context, _ index.Budget, _ index.ResultKind, _ string, _, _ int64, _ ...*labels.Matcher,
) (index.Work, error) {
	return index.Work{}, f.fail(ctx)
}

func (f failing) fail(ctx context.Context) error {
	if f.before != nil {
		f.before(ctx)
	}
	return f.err
}

func (f failing) Select(ctx context.Context, _ index.Budget, _, _ int64, _ ...*labels.Matcher) ([]index.Series, error) {
	return nil, f.fail(ctx)
}

func (f failing) LabelNames(ctx context.Context, _, _ int64, _ int, _ ...*labels.Matcher) ([]string, error) {
	return nil, f.fail(ctx)
}

func (f failing) LabelValues(
	ctx context.Context, _ string, _, _ int64, _ int, _ ...*labels.Matcher,
) ([]string, error) {
	return nil, f.fail(ctx)
}

type fakeMetadata map[string][]ingest.Metadata

func (f fakeMetadata) Metadata(metric string, limit int) map[string][]ingest.Metadata {
	found := map[string][]ingest.Metadata{}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if (metric == "" || metric == name) && (limit == 0 || len(found) < limit) {
			found[name] = f[name]
		}
	}
	return found
}

func (f fakeMetadata) TargetMetadata(metric, _, _ string) (ingest.Metadata, bool) {
	if entries := f[metric]; len(entries) > 0 {
		return entries[0], true
	}
	return ingest.Metadata{}, false
}

type fakeStats struct{}

func (fakeStats) StoreStats(limit int) StoreStats {
	ranking := []index.NameCount{{Name: "up", Count: 2}, {Name: "other", Count: 1}}
	return StoreStats{
		Series: 3, LabelPairs: 4, Chunks: 5, MinTimeMs: 6, MaxTimeMs: 7,
		SeriesByMetric: ranking[:min(limit, 2)],
	}
}

type fakeFlusher struct {
	calls int
	err   error
}

func (f *fakeFlusher) Flush(context.Context) error { f.calls++; return f.err }

// fixture is a server over fakes.
type fixture struct {
	*Server
	writer   *fakeWriter
	registry *prometheus.Registry
}

// newFixture builds a server over fakes; change may alter its options.
func newFixture(t testing.TB, change func(*Options)) *fixture {
	t.Helper()
	store := promqltest.LoadedStorage(t, world)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	engine, err := query.New(query.Options{Queryable: store, QueryBytesMax: 1 << 20})
	require.NoError(t, err)
	f := &fixture{
		writer: &fakeWriter{response: func([]byte) (ingest.Result, error) {
			return ingest.Result{Accepted: 3}, nil
		}},
		registry: prometheus.NewRegistry(),
	}
	opts := Options{
		Writer: f.writer, Engine: engine, Index: promIndex{store}, Queryable: store,
		Gatherer: f.registry, Registerer: f.registry,
		Now: func() time.Time { return time.UnixMilli(600_000).UTC() },
	}
	if change != nil {
		change(&opts)
	}
	f.Server, err = New(opts)
	require.NoError(t, err)
	return f
}

// do sends a request to the handler.
func (f *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w
}

func (f *fixture) get(target string) *httptest.ResponseRecorder {
	return f.do(httptest.NewRequest(http.MethodGet, target, nil))
}

// post sends a form.
func (f *fixture) post(target, form string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return f.do(r)
}

// metric returns the value of a counter or gauge, NaN if there is none with these labels.
func (f *fixture) metric(t testing.TB, name string, want map[string]string) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			got := map[string]string{}
			for _, l := range m.GetLabel() {
				got[l.GetName()] = l.GetValue()
			}
			if maps.Equal(got, want) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return math.NaN()
}

// body reads a response's body.
func body(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	b, err := io.ReadAll(w.Result().Body)
	require.NoError(t, err)
	return string(b)
}

// newRequest is a form POST to a URL that need not be well-formed.
func newRequest(method string, target *url.URL, form string) *http.Request {
	r := httptest.NewRequest(method, "/", strings.NewReader(form))
	r.URL = target
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func validJSON(b []byte) bool { return json.Valid(b) }
