package api_test

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
	"halite/query/read"
)

// plan is what clients read of an explanation.
type plan struct {
	Operators []string
	GivenUp   bool
	Engine    []struct{ Expression, Reason string }
	Selectors []struct {
		Selector          string
		From, To          float64
		FirstDay, LastDay string
		Days              int
	}
	Reading struct{ Series, RowsRead, RowsUsed, SamplesDecoded int64 }
	Cache   struct {
		Outcome, Reason, SameRangeOnly string
		StepsReused, StepsEvaluated    int
	}
	Stages map[string]float64
}

func send(h http.Handler, method, target, form string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// steady is a counter of some instances over two days, at whole minutes.
func steady(t *testing.T, s *stack) (endMs int64) {
	t.Helper()
	endMs = comparison.Now().UnixMilli() / 60_000 * 60_000
	var list []ingest.Sample
	for i := range 5 {
		ls := labels.FromStrings("__name__", "steady_total", "inst", string(rune('a'+i)))
		for at := endMs - 48*3_600_000; at <= endMs; at += 60_000 {
			list = append(list, ingest.Sample{Labels: ls, TsMs: at, Value: float64(at / 60_000 % 100_000)})
		}
	}
	result, err := s.ingester.Write(context.Background(), ingest.SamplesInput(list))
	require.NoError(t, err)
	require.Zero(t, result.Rejected, result.First)
	return endMs
}

func seconds(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// TestExplain reads plans: the work of operators, the expressions for Prometheus's engine and the reason, and the reads
// with their sources.
func TestExplain(t *testing.T) {
	s := newStack(t)
	end := steady(t, s)
	require.NoError(t, s.ingester.Flush(context.Background()))
	h := s.server(t, query.Options{Changes: s.ingester}).Handler()
	explain := func(method, expr string, fromMs, toMs int64, more ...string) (p plan) {
		v := url.Values{"query": {expr}, "start": {seconds(fromMs)}, "end": {seconds(toMs)}, "step": {"60"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		w := send(h, method, "/api/v1/explain?"+v.Encode(), "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		response := struct{ Data *plan }{&p}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
		return p
	}
	const hour = 3_600_000
	p := explain("GET", "sum by (inst) (rate(steady_total[5m]))", end-hour, end)
	require.Equal(t, []string{"aggregate sum by (inst)", "  rate over 5m0s of steady_total"}, p.Operators)
	require.Empty(t, p.Engine)
	require.EqualValues(t, 5, p.Reading.Series)
	require.LessOrEqual(t, p.Reading.RowsRead, int64(15))
	require.GreaterOrEqual(t, p.Reading.RowsRead, p.Reading.RowsUsed)
	require.EqualValues(t, 5*65, p.Reading.SamplesDecoded)
	require.Len(t, p.Selectors, 1)
	require.Equal(t, float64(end-hour-300_000+1)/1000, p.Selectors[0].From)
	require.Equal(t, float64(end)/1000, p.Selectors[0].To)
	require.Equal(t, time.UnixMilli(end).UTC().Format(time.DateOnly), p.Selectors[0].LastDay)
	require.Equal(t, "miss", p.Cache.Outcome)
	for _, stage := range []string{"queue", "plan", "select", "read", "evaluate", "total"} {
		require.Contains(t, p.Stages, stage)
	}

	p = explain("POST", "sum by (inst) (rate(steady_total[5m]))", end-hour, end)
	require.Equal(t, "hit", p.Cache.Outcome)
	require.Empty(t, p.Operators)
	require.Zero(t, p.Reading.SamplesDecoded)
	require.Equal(t, 61, p.Cache.StepsReused)
	p = explain("GET", "sum by (inst) (rate(steady_total[5m]))", end-hour+120_000, end+120_000)
	require.Equal(t, "partial", p.Cache.Outcome, "the same expression, moved by two minutes")
	require.Equal(t, 59, p.Cache.StepsReused)
	require.Equal(t, 2, p.Cache.StepsEvaluated)
	p = explain("GET", "sum by (inst) (rate(steady_total[5m]))", end-hour, end, "nocache", "1")
	require.Equal(t, "bypassed", p.Cache.Outcome)

	p = explain("GET", "max_over_time(rate(steady_total[5m])[1h:1m]) + on (inst) deriv(steady_total[10m] offset 1d)", end-hour, end)
	require.Equal(t, "join +", p.Operators[0])
	require.Contains(t, strings.Join(p.Operators, "\n"), "deriv over 10m0s")
	require.Empty(t, p.Engine)
	require.Len(t, p.Selectors, 2)
	require.Equal(t, float64(end-hour-hour-300_000+1)/1000, p.Selectors[0].From, "the subquery's range comes on top")
	require.Equal(t, "order", p.Cache.SameRangeOnly, "windows of deriv share sums")

	p = explain("GET", "steady_total @ end()", end-hour, end)
	require.Equal(t, "at", p.Cache.SameRangeOnly)
	require.Empty(t, p.Engine, "operators evaluate it once")
}

// TestExplainWithResult: explain=1 adds the plan to the ordinary response.
func TestExplainWithResult(t *testing.T) {
	s := newStack(t)
	end := steady(t, s)
	h := s.Handler()
	for _, target := range []string{
		"/api/v1/query?query=steady_total&time=" + seconds(end),
		"/api/v1/query_range?query=steady_total&step=60&start=" + seconds(end-600_000) + "&end=" + seconds(end),
	} {
		plain, explained := send(h, "GET", target, ""), send(h, "GET", target+"&explain=1", "")
		var a, b struct {
			Data struct {
				ResultType string
				Result     json.RawMessage
				Explain    *plan
			}
		}
		require.NoError(t, json.Unmarshal(plain.Body.Bytes(), &a))
		require.NoError(t, json.Unmarshal(explained.Body.Bytes(), &b))
		require.Nil(t, a.Data.Explain)
		require.NotNil(t, b.Data.Explain)
		require.Equal(t, "off", b.Data.Explain.Cache.Outcome)
		b.Data.Explain = nil
		require.Equal(t, a, b)
	}
	w := send(h, "GET", "/api/v1/query?query=1&stats=perhaps", "")
	require.Contains(t, w.Body.String(), `"warnings":["value \"perhaps\" for parameter \"stats\" is deprecated`)
}

// endless is an expression that Prometheus's engine evaluates for a minute or more unless it is stopped. It has many operators
// rather than very many steps: before the engine looks at the context, it clears 16 bytes for each step.
var endless = "max_over_time((nothing" + strings.Repeat(" + nothing", 40) + ")[4h:1ms])"

// unbounded lets it pass.
var unbounded = query.Options{
	SubqueryPointsMax: math.MaxInt64, SubqueryStepsMax: math.MaxInt64, ConcurrencyMax: 1, Columnar: query.Off,
}

// awaitActive waits until one query runs.
func awaitActive(t *testing.T, h http.Handler) (id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var response struct {
			Data []struct {
				ID, Query, Kind  string
				Start, End, Step int64
				Waiting          bool
			}
		}
		require.NoError(t, json.Unmarshal(send(h, "GET", "/api/v1/status/active_queries", "").Body.Bytes(), &response))
		if len(response.Data) != 1 || response.Data[0].Waiting {
			return false
		}
		require.Equal(t, endless, response.Data[0].Query)
		require.Equal(t, "instant", response.Data[0].Kind)
		id = response.Data[0].ID
		return true
	}, time.Minute, time.Millisecond)
	return id
}

func awaitNone(t *testing.T, h http.Handler) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.HasSuffix(send(h, "GET", "/api/v1/status/active_queries", "").Body.String(), `"data":[]}`)
	}, time.Minute, time.Millisecond)
}

// TestCancelQuery ends a query by its id. The client of the query gets an error.
func TestCancelQuery(t *testing.T) {
	s := newStack(t)
	end := steady(t, s)
	h := s.server(t, unbounded).Handler()
	answered := make(chan *httptest.ResponseRecorder)
	go func() {
		answered <- send(h, "POST", "/api/v1/query", url.Values{"query": {endless}, "time": {seconds(end)}}.Encode())
	}()
	id := awaitActive(t, h)
	require.Equal(t, http.StatusNoContent, send(h, "POST", "/api/v1/admin/cancel_query?id="+id, "").Code)
	w := <-answered
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), `"errorType":"canceled"`)
	require.Contains(t, w.Body.String(), "query was cancelled by request")
	awaitNone(t, h)
}

// TestDisconnect: when the client disconnects, the evaluation ends and releases its slot.
func TestDisconnect(t *testing.T) {
	s := newStack(t)
	end := steady(t, s)
	server := httptest.NewServer(s.server(t, unbounded).Handler())
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	get := func(ctx context.Context, expr string) (*http.Response, error) {
		body := url.Values{"query": {expr}, "time": {seconds(end)}}.Encode()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/v1/query", strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return server.Client().Do(r)
	}
	left := make(chan error)
	go func() {
		_, err := get(ctx, endless)
		left <- err
	}()
	awaitActive(t, server.Config.Handler)
	leave()
	began := time.Now()
	require.ErrorIs(t, <-left, context.Canceled)
	awaitNone(t, server.Config.Handler)
	t.Logf("the evaluation had ended %s after its client left", time.Since(began))
	// The only slot is free again.
	res, err := get(t.Context(), "1")
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(b))
}

// TestExplainSelections: the plan of a look-up or a read has a class, and finds what the endpoint finds.
func TestExplainSelections(t *testing.T) {
	s := newStack(t)
	end := steady(t, s)
	_, err := s.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{
		{Labels: labels.FromStrings("__name__", "other", "inst", "a"), TsMs: end, Value: 1},
	}))
	require.NoError(t, err)
	h := s.Handler()
	type selection struct {
		Of, Class, ClassReason string
		Selectors              []struct {
			Selector                             string
			MetricsInMemory, DaySegments, Blocks int
			ValuesCompared, SeriesTested, Found  int
		}
		Reading *struct {
			Class                              string
			Ranges, RowsRead, RowsUsed, Series int
			SamplesDecoded                     int
			Scans                              []any
		}
	}
	explain := func(parameters ...string) (p selection) {
		v := url.Values{"start": {seconds(end - 3_600_000)}, "end": {seconds(end)}}
		for i := 0; i < len(parameters); i += 2 {
			v.Add(parameters[i], parameters[i+1])
		}
		w := send(h, "POST", "/api/v1/explain", v.Encode())
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		response := struct{ Data *selection }{&p}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
		require.NotEmpty(t, p.ClassReason)
		return p
	}
	p := explain("match[]", "steady_total")
	require.Equal(t, "scan", p.Class)
	require.Equal(t, "series", p.Of)
	require.Nil(t, p.Reading)
	require.Equal(t, 5, p.Selectors[0].Found)
	require.Zero(t, p.Selectors[0].ValuesCompared)

	p = explain("match[]", `{inst=~"a|b"}`, "match[]", `{inst=~"[^c]"}`)
	require.Equal(t, "search", p.Class)
	require.Equal(t, 3, p.Selectors[0].Found)
	require.Equal(t, 5, p.Selectors[1].Found)
	require.Equal(t, 5, p.Selectors[1].ValuesCompared)
	require.Equal(t, 6, p.Selectors[1].SeriesTested)
	require.Equal(t, "merge", explain("match[]", "steady_total", "match[]", "other").Class)
	require.Equal(t, "none", explain("match[]", "absent").Class)
	require.Equal(t, 2, explain("of", "labels").Selectors[0].Found)
	require.Equal(t, 5, explain("of", "label_values", "label", "inst").Selectors[0].Found)

	p = explain("of", "read", "match[]", "other")
	require.Equal(t, "none", p.Reading.Class, "the head has the samples")
	require.NoError(t, s.ingester.Flush(t.Context()))
	p = explain("of", "export", "match[]", "steady_total")
	require.Equal(t, "merge", p.Class)
	require.Equal(t, 5, p.Reading.Series)
	require.Equal(t, 5*61, p.Reading.SamplesDecoded)
	require.Greater(t, p.Reading.Ranges, 1)
	require.NotEmpty(t, p.Reading.Scans)
	require.Equal(t, "scan", explain("of", "export", "match[]", `steady_total{inst="a"}`).Class)
	require.Equal(t, 5*6, explain("of", "federate", "match[]", "steady_total").Reading.SamplesDecoded)
}

// TestExplainSelectionFaults: bad parameters are named.
func TestExplainSelectionFaults(t *testing.T) {
	h := newStack(t).Handler()
	for parameters, fault := range map[string]string{
		"of=rows&match[]=up": `none of series`, "of=label_values": "required with of=label_values",
		"label=a&match[]=up": "required with of=label_values",
		"match[]=up{":        "match[]", "of=series&start=never": "start",
	} {
		w := send(h, "GET", "/api/v1/explain?"+parameters, "")
		require.Equal(t, http.StatusBadRequest, w.Code, parameters)
		require.Contains(t, w.Body.String(), fault)
	}
}

// TestClasses: the class of reads depends on ranges and on the share of rows that the query uses.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		figures read.Figures
		want    read.Class
	}{
		{read.Figures{RowsCached: 7}, read.ClassNone},
		{read.Figures{Ranges: 2, Rows: 4, RowsUsed: 4, Scans: []read.Scan{{Ranges: 1}, {Ranges: 1}}}, read.ClassScan},
		{read.Figures{Ranges: 1, Scans: []read.Scan{{Ranges: 1}}}, read.ClassNone},
		{read.Figures{Ranges: 3, Rows: 4, RowsUsed: 2, Scans: []read.Scan{{Ranges: 2}, {Ranges: 1}}}, read.ClassMerge},
		{read.Figures{Ranges: 1, Rows: 5, RowsUsed: 2, Scans: []read.Scan{{Ranges: 1}}}, read.ClassSearch},
	} {
		got, reason := c.figures.Class()
		require.Equal(t, c.want, got, reason)
	}
}
