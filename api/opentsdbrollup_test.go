package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/api/opentsdb/querystats"
	"halite/ingest"
	"halite/query"
)

// storedRollups writes rollups of 1m and 5m for sys.cpu of web01. Their values differ from the samples.
func (s *otsdb) storedRollups(t *testing.T) {
	t.Helper()
	var samples []ingest.Sample
	add := func(interval, aggregator string, offset int64, v float64) {
		series := labels.FromStrings("__name__", "sys.cpu", "host", "web01", "dc", "lga",
			"_rollup_interval", interval, "_rollup_aggregator", aggregator)
		samples = append(samples, ingest.Sample{TsMs: (otsdbStart + offset) * 1000, Value: v, Labels: series})
	}
	for i := range int64(10) {
		add("1m", "SUM", 60*i, 1000+float64(i))
		add("1m", "COUNT", 60*i, 4)
		add("1m", "MAX", 60*i, 10*float64(i))
	}
	add("5m", "SUM", 0, 9000)
	add("5m", "SUM", 300, 9100)
	add("5m", "COUNT", 0, 20)
	_, err := s.ingester.Write(context.Background(), ingest.SamplesInput(samples))
	require.NoError(t, err)
}

// TestOpenTSDBRollupUsage: rollupUsage reads stored rollups as OpenTSDB does: the longest interval first, then shorter ones or
// samples.
func TestOpenTSDBRollupUsage(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	s.storedRollups(t)
	of := func(points string) string {
		return `[{"metric":"sys.cpu","tags":{"dc":"lga","host":"web01"},"aggregateTags":[],"dps":` + points + `}]`
	}
	const web01 = ":sys.cpu{host=web01}"
	samples := of(dps(0, "100.0", 300, "350.0"))
	for spec, want := range map[string]string{
		"sum:5m-sum":                        samples,
		"sum:5m-sum:rollup_raw":             samples,
		"sum:5m-sum:rollup_nofallback":      of(dps(0, "9000.0", 300, "9100.0")),
		"sum:5m-zimsum:rollup_nofallback":   of(dps(0, "9000.0", 300, "9100.0")),
		"sum:10m-sum:ROLLUP_FALLBACK":       of(dps(300, "9100.0")),
		"sum:5m-count:rollup_nofallback":    of(dps(0, "20.0")),
		"sum:5m-avg:rollup_nofallback":      of(dps(0, "450.0")),
		"sum:5m-avg-zero:rollup_nofallback": of(dps(0, "450.0", 300, "0.0", 600, "0.0")),
		"sum:5m-max:rollup_nofallback":      "[]",
		"sum:5m-max:rollup_fallback":        of(dps(0, "40.0", 300, "90.0")),
		"sum:5m-max:rollup_fallback_raw":    of(dps(0, "40.0", 300, "90.0")),
		"sum:5m-min:rollup_fallback":        of(dps(0, "0.0", 300, "50.0")),
		"sum:1m-min:rollup_nofallback":      "[]",
		"sum:90s-max:rollup_nofallback": of(dps(60, "20.0", 150, "30.0", 240, "50.0", 330, "60.0", 420, "80.0", 510,
			"90.0")),
		"sum:0all-max:rollup_nofallback":            of(dps(0, "90.0")),
		"max:2m-mimmax:rollup_nofallback":           of(dps(60, "20.0", 180, "40.0", 300, "60.0", 420, "80.0", 540, "90.0")),
		"sum:5m-sum:rate:rollup_nofallback":         of(dps(300, "0.3333333333333333")),
		"none:5m-sum:explicit_tags:rollup_fallback": "[]",
		"sum:5m-last:rollup_fallback":               of(dps(0, "40.0", 300, "90.0")),
	} {
		require.Equal(t, want, s.get(t, "m="+spec+web01), spec)
	}
	const sampleID = "m=sum:5m-sum" + web01 + "&show_tsuids"
	var one, other []struct{ TSUIDs []string }
	require.NoError(t, json.Unmarshal([]byte(s.get(t, sampleID)), &one))
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "m=sum:5m-sum:rollup_fallback"+web01+"&show_tsuids")), &other))
	require.Equal(t, one, other, "a rollup has the tsuid of its samples")
	byID := s.get(t, "tsuid=sum:5m-sum:rollup_fallback:"+one[0].TSUIDs[0])
	require.Contains(t, byID, dps(0, "9000.0", 300, "9100.0"))
	require.Contains(t, s.get(t, "show_query&m=sum:5m-sum:rollup_nofallback"+web01),
		`"rollupUsage":"rollup_nofallback","rollupTable":"5m"`)
	require.Contains(t, s.get(t, "show_query&m=sum:5m-sum:rollup_raw"+web01), `"rollupTable":"raw"`)
	w := s.send(http.MethodDelete, fmt.Sprintf("/api/query?start=%d&m=sum:5m-sum:rollup_fallback:sys.cpu", otsdbStart), "")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "rollupUsage")
	require.Empty(t, s.deleted.requests)
}

// TestOpenTSDBTimeOffset: a metric with an offset has the values of an earlier time.
func TestOpenTSDBTimeOffset(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	post := func(offset string) (int, string) {
		w := s.send(http.MethodPost, "/api/query/exp", fmt.Sprintf(`{"time":{"start":%d,"end":%d,"aggregator":"sum",
			"downsampler":{"interval":"1m","aggregator":"max"}},"metrics":[{"id":"a","metric":"mem"},
			{"id":"b","metric":"mem","timeOffset":%q}],"expressions":[{"id":"e","expr":"a - b",
			"join":{"operator":"intersection"},"fillPolicy":{"policy":"nan"}}]}`, otsdbStart+240, otsdbStart+359, offset))
		return w.Code, w.Body.String()
	}
	for _, offset := range []string{"2m-ago", "120s-ago"} {
		code, text := post(offset)
		require.Equal(t, http.StatusOK, code, text)
		require.Contains(t, text, fmt.Sprintf(`"dps":[[%d000,2.0],`, otsdbStart+240), "4.5 now and 2.5 two minutes before")
	}
	code, text := post("30y-ago")
	require.Equal(t, http.StatusOK, code, text)
	code, text = post("yesterday")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, text, "timeOffset of the metric b")
}

// TestOpenTSDBQueryStats: /api/stats/query lists queries with their outcome.
func TestOpenTSDBQueryStats(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	s.get(t, "m=sum:5m-max:sys.cpu", "User-Agent", "test", "Cookie", "secret")
	s.get(t, "m=sum:5m-max:sys.cpu", "User-Agent", "test")
	at := fmt.Sprintf("/api/query/gexp?start=%d&end=%d&exp=absolute(sum:mem)", otsdbStart, comparison.End)
	require.Equal(t, 200, s.send(http.MethodGet, at, "").Code)
	require.Equal(t, 400, s.send(http.MethodGet, "/api/query?start=1h-ago&m=sum:nosuch", "").Code)
	body := fmt.Sprintf(`{"time":{"start":%d,"aggregator":"sum"},"metrics":[{"id":"a","metric":"mem"}]}`, otsdbStart)
	require.Equal(t, 200, s.send(http.MethodPost, "/api/query/exp", body).Code)
	w := s.send(http.MethodGet, "/api/stats/query", "")
	require.Equal(t, 200, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
	var list querystats.Document
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	require.Empty(t, list.Running)
	require.Len(t, list.Completed, 4)
	require.JSONEq(t, body, string(list.Completed[0].Query))
	failed, first := list.Completed[1], list.Completed[3]
	require.Equal(t, querystats.Response{Code: 400, Reason: "Bad Request"}, failed.Response)
	require.Equal(t, "No such name for 'metrics': 'nosuch'", failed.Exception)
	require.False(t, failed.Sent)
	require.Equal(t, 2, first.Executed)
	require.True(t, first.Sent)
	require.Equal(t, "admin", *first.User)
	require.Equal(t, map[string]string{"User-Agent": "test"}, first.Headers)
	require.Positive(t, first.Figures["dpsPostFilter"])
	require.Contains(t, string(first.Query), fmt.Sprintf(`{"start":"%d","end":"%d","timezone":"UTC"`, otsdbStart, comparison.End))
	require.Contains(t, string(first.Query), `"metric":"sys.cpu"`)
	require.Equal(t, 403, s.send(http.MethodGet, "/api/stats/query", "", "Authorization", "part").Code)
}
