package reference

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

// TestFilesOverHTTP sends the samples of Prometheus's PromQL test files by remote write 2.0 to the real server, and each query by
// HTTP to the server and to Prometheus's API. Status, result, errors, warnings and infos must be equal.
func TestFilesOverHTTP(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tsdb")
	build := exec.Command("go", "build", "-o", binary, "./cmd/tsdb")
	build.Dir = "../../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	p := parser.NewParser(promqltest.TestParserOpts)
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: p,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 60_000 },
		EnableAtModifier:         true, EnableNegativeOffset: true, EnableDelayedNameRemoval: true, UseStartTimestamps: true,
	})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	comparing := &comparingEngine{QueryEngine: engine}
	promqltest.RunBuiltinTestsWithStorage(t, comparing, func(tb testing.TB) promstorage.Storage {
		store := teststorage.New(tb, func(opt *tsdb.Options) {
			opt.EnableSTStorage, opt.EnableHistogramSTEncoding, opt.FloatChunkEncoding = true, true, chunkenc.EncXOR2
		})
		s := &twoServers{TestStorage: store, tb: tb, prometheus: newPrometheusOver(store, engine, p)}
		s.start(binary)
		return s
	})
	require.Greater(t, comparing.queries, 20_000)
	t.Logf("%d queries", comparing.queries)
}

// twoServers is Prometheus's storage, and a server of this repository that gets the same samples.
type twoServers struct {
	*teststorage.TestStorage
	tb         testing.TB
	prometheus http.Handler
	cmd        *exec.Cmd
	url        string
}

func (s *twoServers) start(binary string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(s.tb, err)
	address := listener.Addr().String()
	require.NoError(s.tb, listener.Close())
	s.url = "http://" + address
	s.cmd = exec.Command(binary, "serve", "--storage.path", s.tb.TempDir(), "--web.listen-address", address,
		"--no-web.self-scrape", "--storage.retention.raw=0", "--query.experimental", "--query.delayed-name-removal",
		"--query.use-start-timestamps")
	require.NoError(s.tb, s.cmd.Start())
	s.tb.Cleanup(s.stop)
	require.Eventually(s.tb, func() bool {
		resp, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
}

func (s *twoServers) stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Close implements storage.Storage.
func (s *twoServers) Close() error {
	s.stop()
	return s.TestStorage.Close()
}

// AppenderV2 implements storage.Storage.
func (s *twoServers) AppenderV2(ctx context.Context) promstorage.AppenderV2 {
	return &sendingAppender{AppenderV2: s.TestStorage.AppenderV2(ctx), s: s, symbols: writev2.NewSymbolTable()}
}

// sendingAppender sends appended samples by remote write 2.0.
type sendingAppender struct {
	promstorage.AppenderV2
	s       *twoServers
	symbols writev2.SymbolsTable
	request writev2.Request
}

// Append implements storage.AppenderV2.
func (a *sendingAppender) Append(
	ref promstorage.SeriesRef, ls labels.Labels, startMs, tsMs int64, v float64, h *histogram.Histogram,
	fh *histogram.FloatHistogram, opts promstorage.AppendV2Options,
) (promstorage.SeriesRef, error) {
	series := writev2.TimeSeries{LabelsRefs: a.symbols.SymbolizeLabels(ls, nil)}
	switch {
	case fh != nil:
		series.Histograms = []writev2.Histogram{writev2.FromFloatHistogram(startMs, tsMs, fh)}
	case h != nil:
		series.Histograms = []writev2.Histogram{writev2.FromIntHistogram(startMs, tsMs, h)}
	default:
		series.Samples = []writev2.Sample{{Value: v, Timestamp: tsMs, StartTimestamp: startMs}}
	}
	a.request.Timeseries = append(a.request.Timeseries, series)
	return a.AppenderV2.Append(ref, ls, startMs, tsMs, v, h, fh, opts)
}

// Commit implements storage.AppenderV2.
func (a *sendingAppender) Commit() error {
	a.request.Symbols = a.symbols.Symbols()
	body, err := a.request.Marshal()
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, a.s.url+"/api/v1/write", bytes.NewReader(snappy.Encode(nil, body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	req.Header.Set("Content-Encoding", "snappy")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	require.Equal(a.s.tb, http.StatusNoContent, resp.StatusCode, "%s", text)
	return a.AppenderV2.Commit()
}

// comparingEngine queries both servers before it evaluates a query.
type comparingEngine struct {
	promql.QueryEngine
	queries int
}

// NewInstantQuery implements promql.QueryEngine.
func (e *comparingEngine) NewInstantQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, text string, at time.Time,
) (promql.Query, error) {
	e.compare(q.(*twoServers), "/api/v1/query", url.Values{"query": {text}, "time": {seconds(at)}})
	return e.QueryEngine.NewInstantQuery(ctx, q, opts, text, at)
}

// NewRangeQuery implements promql.QueryEngine.
func (e *comparingEngine) NewRangeQuery(
	ctx context.Context, q promstorage.Queryable, opts promql.QueryOpts, text string, start, end time.Time, step time.Duration,
) (promql.Query, error) {
	e.compare(q.(*twoServers), "/api/v1/query_range", url.Values{
		"query": {text}, "start": {seconds(start)}, "end": {seconds(end)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
	return e.QueryEngine.NewRangeQuery(ctx, q, opts, text, start, end, step)
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

func (e *comparingEngine) compare(s *twoServers, path string, params url.Values) {
	e.queries++
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path+"?"+params.Encode(), nil)
	s.prometheus.ServeHTTP(w, r)
	resp, err := http.Get(s.url + path + "?" + params.Encode())
	require.NoError(s.tb, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.tb, err)
	query := params.Get("query")
	if resp.StatusCode != w.Code || !comparison.EqualValues(responseOf(s.tb, w.Body.Bytes(), query), responseOf(s.tb, text, query)) {
		s.tb.Errorf("%s %v\nPrometheus %d %s\nHalite %d %s", path, params, w.Code, w.Body, resp.StatusCode, text)
	}
}

// responseOf decodes a response. It sorts what has no order: notes, and series of a query that does not sort.
func responseOf(tb testing.TB, text []byte, query string) map[string]any {
	var response map[string]any
	require.NoError(tb, json.Unmarshal(text, &response), "%s", text)
	for _, key := range []string{"warnings", "infos"} {
		if notes, ok := response[key].([]any); ok {
			slices.SortFunc(notes, func(a, b any) int { return cmp.Compare(a.(string), b.(string)) })
		}
	}
	data, _ := response["data"].(map[string]any)
	series, _ := data["result"].([]any)
	if kind := data["resultType"]; strings.HasPrefix(query, "sort") || kind != "vector" && kind != "matrix" {
		return response
	}
	metric := func(series any) string {
		text, _ := json.Marshal(series.(map[string]any)["metric"])
		return string(text)
	}
	slices.SortStableFunc(series, func(a, b any) int { return cmp.Compare(metric(a), metric(b)) })
	return response
}
