package api_test

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/api"
	"halite/api/internal/comparison"
	"halite/ingest"
)

// export returns the sorted lines of an export.
func (s *stack) export(t testing.TB, path string, params url.Values) []string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"?"+params.Encode(), nil))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	lines := strings.SplitAfter(w.Body.String(), "\n")
	slices.Sort(lines)
	return lines
}

// TestExportImport exports all samples as JSON lines, imports them into another store, and exports them there.
func TestExportImport(t *testing.T) {
	t.Parallel()
	from, to := newStack(t), newStack(t)
	from.load(t)
	nowMs := comparison.Now().UnixMilli()
	odd := labels.FromStrings("__name__", "odd", "text", "quote \" slash \\ line\nü")
	_, err := from.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{
		{Labels: odd, TsMs: nowMs - 3, Value: math.Float64frombits(value.StaleNaN)},
		{Labels: odd, TsMs: nowMs - 2, Value: math.Inf(-1)},
		{Labels: odd, TsMs: nowMs - 1, Value: 5e-324}, {Labels: odd, TsMs: nowMs, H: tsdbutil.GenerateTestHistogram(1)},
	}))
	require.NoError(t, err)
	all := url.Values{"match[]": {`{__name__!=""}`, `{__name__=~"up|odd"}`}}
	want := from.export(t, api.ExportPath, all)
	require.Greater(t, len(want), 10)
	w := to.send(api.ImportPath, gzipped(t, strings.Join(want, "")), "Content-Encoding", "gzip")
	require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	require.Equal(t, want, to.export(t, api.ExportPath, all))

	all.Set("max_rows_per_line", "1")
	all.Set("reduce_mem_usage", "1")
	each := to.export(t, api.ExportPath, all)
	require.Greater(t, len(each), len(want))
	require.Equal(t, 1, strings.Count(each[len(each)-1], `"timestamps":[`+fmt.Sprint(nowMs-1)+"]")+
		strings.Count(strings.Join(each[:len(each)-1], ""), `"timestamps":[`+fmt.Sprint(nowMs-1)+"]"))
	some := to.export(t, api.ExportPath, url.Values{"match": {"odd"}, "start": {fmt.Sprintf("%.3f", float64(nowMs-2)/1000)},
		"end": {fmt.Sprintf("%.3f", float64(nowMs-1)/1000)}})
	require.Equal(t, `{"metric":{"__name__":"odd","text":"quote \" slash \\ line\u000aü"},"values":["-Infinity",5e-324],`+
		fmt.Sprintf(`"timestamps":[%d,%d]}`+"\n", nowMs-2, nowMs-1), strings.Join(some, ""))
}

func TestExportFaults(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, c := range []struct{ query, fault string }{
		{"", "no match[] parameter"}, {"match[]={", "1:2: parse error"}, {"match[]={a=~\".*\"}", "non-empty matcher"},
		{"match[]=up&start=x", "invalid time value for 'start'"},
		{"match[]=up&start=2&end=1", "end timestamp must not be before start"},
		{"match[]=up&max_rows_per_line=-1", "is not a number of samples"},
	} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.ExportPath+"?"+c.query, nil))
		require.Equal(t, http.StatusBadRequest, w.Code, c.query)
		require.Contains(t, w.Body.String(), c.fault, c.query)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.ExportPath+"?match[]=none", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Body.String())
}

// TestImportLines sends more than fits into memory at once, with bad lines near the end.
func TestImportLines(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var body strings.Builder
	nowMs := comparison.Now().UnixMilli()
	const count = 40_000
	for n := range count {
		fmt.Fprintf(&body, `{"metric":{"__name__":"many","n":"%d"},"values":[%d],"timestamps":[%d]}`+"\n", n%100, n, nowMs-int64(n))
	}
	body.WriteString("bad\n")
	fmt.Fprintf(&body, `{"metric":{"n":"1"},"values":[1,2],"timestamps":[%d,%d]}`+"\n", nowMs, nowMs)
	fmt.Fprintf(&body, `{"metric":{"__name__":"last"},"values":[1],"timestamps":[%d]}`, nowMs)
	w := s.send(api.ImportPath, body.String())
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), fmt.Sprintf("3 of %d samples rejected (malformed_line: 1, missing_metric_name: 2)",
		count+4))
	require.Contains(t, w.Body.String(), fmt.Sprintf("line %d: it is not a JSON object", count+1))
	require.Contains(t, s.query(t, "sum(count_over_time(many[1h]))"), fmt.Sprintf(`"%d"`, count))
	require.Contains(t, s.query(t, "last"), `"1"`)
	require.Contains(t, s.senders(), "JSON lines import")

	w = s.send(api.ImportPath, gzipped(t, body.String())[:1000], "Content-Encoding", "gzip")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "unexpected EOF")
}

// TestMalformedImports ends bodies of any size once most of their lines are malformed. Bodies with more valid samples continue.
func TestMalformedImports(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	nowMs := comparison.Now().UnixMilli()
	last := fmt.Sprintf(`{"metric":{"__name__":"last"},"values":[1],"timestamps":[%d]}`, nowMs)
	bad := strings.Repeat("{\n", api.DefaultBadLinesMax+1) + strings.Repeat("\n", 2<<20) // so the last line is in another piece
	for _, path := range []string{api.ImportPath, api.ImportCSVPath + "?format=1:label:a,2:metric:m"} {
		w := s.send(path, bad+last)
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "more than 100000 lines are malformed (ingest.max-bad-lines)")
		require.Contains(t, w.Body.String(), "first: line ")
	}
	require.NotContains(t, s.query(t, "last"), `"1"`)

	var valid strings.Builder
	const samples = 1000
	for n := range 2 * api.DefaultBadLinesMax / samples {
		times := make([]string, samples)
		for i := range times {
			times[i] = fmt.Sprint(nowMs - int64(i))
		}
		fmt.Fprintf(&valid, `{"metric":{"__name__":"valid","n":"%d"},"values":[0%s],"timestamps":[%s]}`+"\n", n,
			strings.Repeat(",0", samples-1), strings.Join(times, ","))
	}
	w := s.send(api.ImportPath, valid.String()+bad+last)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "100001 of 300002 samples rejected")
	require.Contains(t, s.query(t, "last"), `"1"`)
}

// TestExportCSV exports rows and imports them into another store. Rows have no native histograms.
func TestExportCSV(t *testing.T) {
	t.Parallel()
	from, to := newStack(t), newStack(t)
	nowMs := comparison.Now().UnixMilli()
	for n, value := range []float64{1, -0.5, math.Inf(1), 1e300} {
		_, err := from.ingester.Write(t.Context(), ingest.SamplesInput([]ingest.Sample{{
			Labels: labels.FromStrings("__name__", "rows", "text", fmt.Sprintf("a,\"%d\"\n", n)), TsMs: nowMs, Value: value,
		}, {Labels: labels.FromStrings("__name__", "rows"), TsMs: nowMs - int64(n), H: tsdbutil.GenerateTestHistogram(1)}}))
		require.NoError(t, err)
	}
	params := url.Values{"match[]": {"rows"}, "format": {"__name__,text,__timestamp__,__value__"}}
	w := httptest.NewRecorder()
	from.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.ExportCSVPath+"?"+params.Encode(), nil))
	require.Equal(t, "4", w.Result().Trailer.Get("X-Omitted-Histograms"))
	require.Equal(t, 1+8, strings.Count(w.Body.String(), "\n"))
	response := to.send(api.ImportCSVPath, w.Body.String())
	require.Equal(t, http.StatusNoContent, response.Code, response.Body)
	require.Equal(t, from.export(t, api.ExportCSVPath, params), to.export(t, api.ExportCSVPath, params))
	params.Del("format")
	w = httptest.NewRecorder()
	from.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, api.ExportCSVPath+"?"+params.Encode(), nil))
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "parameter format is missing")
}
