package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/grafana"
)

// With a self-scrape each second, Grafana uses steps of a second and rates over four seconds.
const (
	dashboardStep     = time.Second
	dashboardInterval = "4s"
	dashboardLoad     = 10 * time.Second
	// A panel must be readable.
	dashboardSeriesMax = 200
)

// TestDashboards sends every query of every panel and variable as Grafana does, and expects data for each.
func TestDashboards(t *testing.T) {
	flags := []string{"--web.self-scrape-interval=1s", "--web.enable-admin-api"}
	startEmulator(t)
	// Both mostly wait for the intervals of their rates.
	t.Run(grafana.EnginePebble, func(t *testing.T) {
		t.Parallel()
		checkDashboards(t, startServer(t, t.TempDir(), flags...), grafana.EnginePebble)
	})
	t.Run(grafana.EngineBigtable, func(t *testing.T) {
		t.Parallel()
		checkDashboards(t, startServer(t, t.TempDir(), append(slices.Clone(flags), bigtableFlags...)...), grafana.EngineBigtable)
	})
}

func checkDashboards(t *testing.T, s *server, engine string) {
	from := time.Now()
	s.loadForDashboards()
	to := time.Now()
	metrics := s.metricNames()
	panels, answered, queries := 0, 0, 0
	for _, d := range grafana.Dashboards() {
		instances := s.checkVariables(d, from, to)
		for _, p := range d.Panels {
			if p.Type == "row" || p.Engine != "" && p.Engine != engine {
				continue
			}
			panels++
			queries += len(p.Targets)
			if s.checkPanel(&d, &p, metrics, instances, from, to) {
				answered++
			}
		}
	}
	t.Logf("%s: %d of %d panels answer with data in all of their %d queries", engine, answered, panels, queries)
	require.Equal(t, panels, answered)
	require.Greater(t, panels, 50)
	require.NoError(t, s.end(syscall.SIGTERM), s.log.String())
}

// loadForDashboards causes all events that a panel shows, evenly, so that all rates have values.
func (s *server) loadForDashboards() {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), dashboardLoad)
	defer stop()
	ticker := time.NewTicker(250 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		now := time.Now()
		old := now.Add(-time.Duration(3+i%60) * time.Hour)
		s.write(wave("dashboard_metric", 20, now, now.Add(time.Millisecond), time.Second))
		s.write(wave("dashboard_old", 20, old, old.Add(20*time.Minute), time.Minute))
		s.write(wave(fmt.Sprintf("dashboard_new_%d", i), 1, now, now.Add(time.Millisecond), time.Second))
		s.queryDashboards("sum(rate(dashboard_old[5m]))", old, old.Add(20*time.Minute))
		s.queryDashboards("sum(dashboard_metric)", now.Add(-time.Minute), now)
		if i%4 == 0 {
			s.flush()
			s.refusedForDashboards(now)
		}
		<-ticker.C
	}
}

func (s *server) queryDashboards(query string, from, to time.Time) {
	s.t.Helper()
	_, _, err := s.queryRange(query, from, to, 15*time.Second)
	require.NoError(s.t, err)
	code, a := s.get("/api/v1/query", url.Values{"query": {query}})
	require.Equal(s.t, http.StatusOK, code, a.Error)
}

// refusedForDashboards sends requests that a server refuses for different reasons.
func (s *server) refusedForDashboards(now time.Time) {
	s.t.Helper()
	code, _, _ := s.post("/api/v1/write", encodeWrite([]point{{"too_far_ahead", "a", now.Add(time.Hour).UnixMilli(), 1}}))
	require.Equal(s.t, http.StatusBadRequest, code)
	code, _, _ = s.post("/api/v1/write", []byte("not snappy"))
	require.Equal(s.t, http.StatusBadRequest, code)
	resp, err := http.Post(s.url+"/api/v1/write", "text/plain", strings.NewReader("up 1"))
	require.NoError(s.t, err)
	resp.Body.Close()
	require.Equal(s.t, http.StatusUnsupportedMediaType, resp.StatusCode)
	code, _ = s.get("/api/v1/query", url.Values{"query": {"sum("}})
	require.Equal(s.t, http.StatusBadRequest, code)
}

var metricName = regexp.MustCompile(`(?m)^([a-zA-Z_:][a-zA-Z0-9_:]*)`)

// metricNames are the names of the samples that /metrics shows.
func (s *server) metricNames() []string {
	s.t.Helper()
	resp, err := http.Get(s.url + "/metrics")
	require.NoError(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return metricName.FindAllString(string(text), -1)
}

// checkVariables queries the values of the variables and returns the instances.
func (s *server) checkVariables(d grafana.Dashboard, from, to time.Time) (instances []string) {
	s.t.Helper()
	labelValues := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Query.(grafana.VariableQuery).Query)
		require.NotNil(s.t, m, "%s: %v", d.UID, v.Query)
		form := url.Values{
			"match[]": {strings.ReplaceAll(m[1], "$job", "halite-self-scrape")},
			"start":   {strconv.FormatInt(from.Unix(), 10)}, "end": {strconv.FormatInt(to.Unix()+1, 10)},
		}
		code, a := s.get("/api/v1/label/"+m[2]+"/values", form)
		require.Equal(s.t, http.StatusOK, code, a.Error)
		var values []string
		require.NoError(s.t, json.Unmarshal(a.Data, &values))
		require.Len(s.t, values, 1, "%s: $%s", d.UID, v.Name)

		a = s.postForm("/api/v1/series", form) // older Grafanas send this
		var series []map[string]string
		require.NoError(s.t, json.Unmarshal(a.Data, &series))
		require.Len(s.t, series, 1)
		require.Equal(s.t, values[0], series[0][m[2]])
		instances = values
	}
	return instances
}

// checkPanel runs the queries of a panel with all instances chosen and with one, and says whether there was data.
func (s *server) checkPanel(
	d *grafana.Dashboard, p *grafana.Panel, metrics, instances []string, from, to time.Time,
) (ok bool) {
	ok = true
	fail := func(q grafana.Target, format string, args ...any) {
		ok = false
		s.t.Errorf("%s, %s, query %s: %s\n%s", d.UID, p.Title, q.RefID, fmt.Sprintf(format, args...), q.Expr)
	}
	for _, q := range p.Targets {
		for _, chosen := range [][2]string{{".+", ".+"}, {"halite-self-scrape", escapeVariable(instances[0])}} {
			text := strings.NewReplacer("$__rate_interval", dashboardInterval, "$job", chosen[0], "$instance", chosen[1]).Replace(q.Expr)
			for _, name := range namesIn(s.t, text) {
				if !slices.Contains(metrics, name) {
					fail(q, "the server has no metric %s", name)
				}
			}
			series, finite, err := s.queryPanel(q, text, from, to)
			switch {
			case err != nil:
				fail(q, "%v", err)
			case series == 0 || finite == 0:
				fail(q, "%d series with %d finite values", series, finite)
			case series > dashboardSeriesMax:
				fail(q, "%d series, at most %d", series, dashboardSeriesMax)
			}
		}
	}
	return ok
}

// escapeVariable writes a chosen value as Grafana does into a regular expression within quotes.
func escapeVariable(value string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(value), `\`, `\\`)
}

func namesIn(t testing.TB, text string) (names []string) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err, text)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			names = append(names, v.Name)
		}
		return nil
	})
	return names
}

func (s *server) queryPanel(q grafana.Target, text string, from, to time.Time) (series, finite int, err error) {
	if q.Range {
		return s.queryRange(text, from, to, dashboardStep)
	}
	a := s.postForm("/api/v1/query", url.Values{"query": {text}, "time": {strconv.FormatInt(to.Unix(), 10)}})
	return countFinite(a)
}

// queryRange queries as Grafana does: a form, times in seconds. Times fall on multiples of the step.
func (s *server) queryRange(text string, from, to time.Time, step time.Duration) (series, finite int, err error) {
	s.t.Helper()
	form := url.Values{
		"query": {text}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
		"start": {strconv.FormatInt(from.Truncate(step).Unix(), 10)}, "end": {strconv.FormatInt(to.Truncate(step).Unix(), 10)},
	}
	return countFinite(s.postForm("/api/v1/query_range", form))
}

func (s *server) postForm(path string, form url.Values) (a apiResponse) {
	s.t.Helper()
	resp, err := http.PostForm(s.url+path, form)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&a))
	return a
}

// countFinite counts the series of a response, and their values that are numbers.
func countFinite(a apiResponse) (series, finite int, err error) {
	if a.Status != "success" {
		return 0, 0, fmt.Errorf("%s: %s", a.ErrorType, a.Error)
	}
	var data struct {
		Result []struct {
			Value  []any   `json:"value"`
			Values [][]any `json:"values"`
		} `json:"result"`
	}
	if err := json.Unmarshal(a.Data, &data); err != nil {
		return 0, 0, err
	}
	for _, r := range data.Result {
		if r.Value != nil {
			r.Values = append(r.Values, r.Value)
		}
		for _, v := range r.Values {
			f, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				return 0, 0, err
			}
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				finite++
			}
		}
	}
	return len(data.Result), finite, nil
}
