package reference

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/exemplar"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"
	v1 "github.com/prometheus/prometheus/web/api/v1"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
	"halite/storage/index"
)

// recordPath holds Prometheus' responses for the tests of package api.
const recordPath = "../prometheus.json"

var record = flag.Bool("record", false, "write Prometheus' responses to testdata/prometheus.json")

// nobody is Prometheus' targets, rules and alertmanagers: none.
type nobody struct{}

func (nobody) ScrapePools() []string                       { return []string{} }
func (nobody) TargetsActive() map[string][]*scrape.Target  { return nil }
func (nobody) TargetsDropped() map[string][]*scrape.Target { return nil }
func (nobody) TargetsDroppedCounts() map[string]int        { return nil }
func (nobody) ScrapePoolConfig(name string) (*config.ScrapeConfig, error) {
	return nil, fmt.Errorf("scrape pool %q not found", name)
}
func (nobody) Alertmanagers() []*url.URL            { return nil }
func (nobody) DroppedAlertmanagers() []*url.URL     { return nil }
func (nobody) RuleGroups() []*rules.Group           { return nil }
func (nobody) AlertingRules() []*rules.AlertingRule { return nil }
func (nobody) ExemplarQuerier(context.Context) (promstorage.ExemplarQuerier, error) {
	return nobody{}, nil
}

func (nobody) Select(int64, int64, ...[]*labels.Matcher) ([]exemplar.QueryResult, error) {
	return []exemplar.QueryResult{}, nil
}
func (nobody) CleanTombstones() error                                         { return nil }
func (nobody) Delete(context.Context, int64, int64, ...*labels.Matcher) error { return nil }
func (nobody) Snapshot(string, bool) error                                    { return nil }
func (nobody) Stats(string, int) (*tsdb.Stats, error)                         { return nil, errors.New("none") }
func (nobody) WALReplayStatus() (tsdb.WALReplayStatus, error)                 { return tsdb.WALReplayStatus{}, nil }
func (nobody) BlockMetas() ([]tsdb.BlockMeta, error)                          { return []tsdb.BlockMeta{}, nil }

// newStorage is Prometheus' storage with the samples of the comparison.
func newStorage(tb testing.TB) *teststorage.TestStorage {
	tb.Helper()
	store := teststorage.New(tb)
	app := store.Appender(context.Background())
	for _, s := range comparison.Samples() {
		_, err := app.Append(0, s.Labels, s.TsMs, s.Value)
		require.NoError(tb, err)
	}
	require.NoError(tb, app.Commit())
	return store
}

// newPrometheus is Prometheus' API over Prometheus' storage.
func newPrometheus(tb testing.TB) http.Handler {
	tb.Helper()
	store := newStorage(tb)
	p := parser.NewParser(parser.Options{ExperimentalDurationExpr: true})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: 2 * time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true,
		EnableNegativeOffset: true, EnablePerStepStats: true, Parser: p,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
	})
	tb.Cleanup(func() { require.NoError(tb, engine.Close()) })
	return newPrometheusOver(store, engine, p)
}

// newPrometheusOver is Prometheus' API over a storage and an engine.
func newPrometheusOver(store promstorage.SampleAndChunkQueryable, engine promql.QueryEngine, p parser.Parser) http.Handler {
	none := nobody{}
	router := route.New().WithPrefix("/api/v1")
	v1.NewAPI(
		engine, store, nil, nil, none,
		func(context.Context) v1.ScrapePoolsRetriever { return none },
		func(context.Context) v1.TargetRetriever { return none },
		func(context.Context) v1.AlertmanagerRetriever { return none },
		func() config.Config { return config.Config{} }, map[string]string{}, v1.GlobalURLOptions{},
		func(f http.HandlerFunc) http.HandlerFunc { return f },
		none, "", false, false, 0, promslog.NewNopLogger(),
		func(context.Context) v1.RulesRetriever { return none },
		0, 1, 0, false, regexp.MustCompile("^(?:.*)$"),
		func() (v1.RuntimeInfo, error) { return v1.RuntimeInfo{}, nil }, &v1.PrometheusVersion{}, nil, nil,
		prometheus.NewRegistry(), nil, nil, false, nil, false, false, false, false, 5*time.Minute, false, false, nil, nil,
		v1.OpenAPIOptions{}, p,
	).Register(router)
	return router
}

// TestReference compares the responses of this repository's API with those of Prometheus. Both APIs read the same samples from a
// storage of Prometheus, so every difference comes from an API.
func TestReference(t *testing.T) {
	recorded, err := comparison.Record(newPrometheus(t))
	require.NoError(t, err)
	if *record {
		file, err := os.Create(recordPath)
		require.NoError(t, err)
		require.NoError(t, comparison.Write(file, recorded))
		require.NoError(t, file.Close())
	}
	differences := comparison.Differences(newOverPrometheus(t), recorded)
	for _, d := range differences {
		t.Error(d)
	}
	t.Logf("%d of %d requests answered as Prometheus does", len(recorded)-len(differences), len(recorded))
}

// TestRecordIsCurrent: the recorded responses equal Prometheus's responses.
func TestRecordIsCurrent(t *testing.T) {
	recorded, err := comparison.Record(newPrometheus(t))
	require.NoError(t, err)
	var now bytes.Buffer
	require.NoError(t, comparison.Write(&now, recorded))
	file, err := os.ReadFile(recordPath)
	require.NoError(t, err)
	require.True(t, bytes.Equal(now.Bytes(), file), "run this test with -args -record and read the difference")
}

// TestBytes: responses with a defined order equal Prometheus' responses byte by byte.
func TestBytes(t *testing.T) {
	theirs, ours := newPrometheus(t), newOverPrometheus(t)
	compared := 0
	for _, r := range comparison.Requests() {
		want := r.Send(theirs)
		if want.Code == http.StatusNotFound || want.Code == http.StatusMethodNotAllowed || want.Code == http.StatusNoContent ||
			r.Path == "parse_query" || strings.Contains(r.Query+r.Form, "stats=") ||
			strings.Contains(r.Query+r.Form, "count_values") || // in the order of a map
			strings.Contains(want.Body.String(), `"infos":[`) || strings.Contains(want.Body.String(), `"warnings":[`) ||
			strings.Contains(want.Body.String(), "?step=") || r.Path == "series" {
			continue
		}
		require.Equal(t, want.Body.String(), r.Send(ours).Body.String(), r.String())
		require.Equal(t, want.Header().Get("Content-Type"), r.Send(ours).Header().Get("Content-Type"))
		compared++
	}
	require.Greater(t, compared, 300)
	t.Logf("%d responses are the same bytes", compared)
}

// newOverPrometheus is this package's API over Prometheus' storage, which tells faults of the API from those of the
// database below it.
func newOverPrometheus(tb testing.TB) http.Handler {
	tb.Helper()
	store := newStorage(tb)
	engine, err := query.New(query.Options{Queryable: store, QueryBytesMax: 1 << 20})
	require.NoError(tb, err)
	server, err := api.New(api.Options{
		Writer: noWriter{}, Engine: engine, Index: prometheusCatalogue{store}, Queryable: store, Now: comparison.Now,
	})
	require.NoError(tb, err)
	return server.Handler()
}

type noWriter struct{}

func (noWriter) Write(context.Context, ingest.Input) (ingest.Result, error) {
	return ingest.Result{}, errors.New("read only")
}

// prometheusCatalogue answers look-ups from Prometheus' storage.
type prometheusCatalogue struct{ promstorage.Queryable }

func (c prometheusCatalogue) Select(
	ctx context.Context, _ index.Budget, mint, maxt int64, ms ...*labels.Matcher,
) (list []index.Series, err error) {
	q, err := c.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	set := q.Select(ctx, true, &promstorage.SelectHints{Start: mint, End: maxt, Func: "series"}, ms...)
	for set.Next() {
		list = append(list, index.Series{Labels: set.At().Labels()})
	}
	return list, set.Err()
}

func (c prometheusCatalogue) LabelNames(
	ctx context.Context, mint, maxt int64, limit int, ms ...*labels.Matcher,
) ([]string, error) {
	q, err := c.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	list, _, err := q.LabelNames(ctx, &promstorage.LabelHints{Limit: limit}, ms...)
	return list, err
}

func (c prometheusCatalogue) LabelValues(
	ctx context.Context, name string, mint, maxt int64, limit int, ms ...*labels.Matcher,
) ([]string, error) {
	q, err := c.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	list, _, err := q.LabelValues(ctx, name, &promstorage.LabelHints{Limit: limit}, ms...)
	return list, err
}

// Explain fails: no request of the comparison explains a look-up.
func (c prometheusCatalogue) Explain(
	context.Context, index.Budget, index.ResultKind, string, int64, int64, ...*labels.Matcher,
) (index.Work, error) {
	return index.Work{}, errors.New("look-ups of Prometheus's storage have no plan")
}

// BenchmarkPrometheusCodec encodes the result that BenchmarkEncodeMatrix of package api encodes, with Prometheus' codec.
func BenchmarkPrometheusCodec(b *testing.B) {
	m := make(promql.Matrix, 100)
	points := 0
	for i := range m {
		m[i].Metric = labels.FromStrings("__name__", "node_cpu_seconds_total", "cpu", "3", "instance", "host:9100",
			"job", "node", "mode", "idle")
		for k := range int64(240) {
			m[i].Floats = append(m[i].Floats, promql.FPoint{T: 1700000000000 + k*15000, F: float64(k) * 1.37})
			points++
		}
	}
	resp := &v1.Response{Status: "success", Data: &v1.QueryData{ResultType: m.Type(), Result: m}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (v1.JSONCodec{}).Encode(resp); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(points)*float64(b.N)/b.Elapsed().Seconds(), "points/s")
}
