package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
)

func TestOpenTSDBExpressions(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	body := fmt.Sprintf(`{"time":{"start":%d,"end":%d,"aggregator":"sum","downsampler":{"interval":"5m","aggregator":"max"}},
		"filters":[{"id":"f","tags":[{"type":"wildcard","tagk":"host","filter":"*","groupBy":true}]}],
		"metrics":[{"id":"a","metric":"sys.cpu","filter":"f"},{"id":"b","metric":"mem","filter":"f"}],
		"expressions":[{"id":"e","expr":"a + b","join":{"operator":"intersection","useQueryTags":true}}],
		"outputs":[{"id":"e","alias":"both"}]}`, otsdbStart, comparison.End)
	w := s.send(http.MethodPost, "/api/query/exp", body)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.JSONEq(t, fmt.Sprintf(`{"outputs":[{"id":"e","alias":"both","dps":[[%d000,44.5],[%d000,99.5]],
		"dpsMeta":{"firstTimestamp":%d000,"lastTimestamp":%d000,"setCount":2,"series":1},"meta":[{"index":0,"metrics":["timestamp"]},
		{"index":1,"metrics":["mem","sys.cpu"],
		"commonTags":{"dc":"lga","host":"web01"},"aggregatedTags":[]}]}],"warnings":[],"query":%s}`,
		otsdbStart, otsdbStart+300, otsdbStart, otsdbStart+300, body), w.Body.String())
	require.Equal(t, 400, s.send(http.MethodPost, "/api/query/exp", `{"time":{}}`).Code)
	require.Equal(t, 405, s.send(http.MethodGet, "/api/query/exp", "").Code)
}

func TestOpenTSDBFunctions(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	post := func(exp string) (int, string) {
		at := fmt.Sprintf("/api/query/gexp?start=%d&end=%d&exp=", otsdbStart, comparison.End)
		w := s.send(http.MethodGet, at+url.QueryEscape(exp), "")
		return w.Code, w.Body.String()
	}
	code, text := post("alias(scale(max:0all-max:sys.cpu{host=*},2),'cpu of @host')")
	require.Equal(t, 200, code, text)
	require.Equal(t, `[{"metric":"cpu of web01","tags":{},"aggregateTags":[],"dps":`+dps(0, "180.0")+
		`},{"metric":"cpu of web02","tags":{},"aggregateTags":[],"dps":`+dps(0, "92.0")+`}]`, text)
	code, text = post("sumSeries(max:0all-max:sys.cpu{host=*},max:0all-min:sys.cpu{host=*})")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, dps(0, "47.0"))
	// A series may occur twice.
	code, text = post("sumSeries(max:0all-max:sys.cpu{host=*},max:0all-max:sys.cpu{host=*})")
	require.Equal(t, 200, code, text)
	require.Contains(t, text, dps(0, "180.0"))
	require.Contains(t, text, dps(0, "92.0"))
	code, text = post("scale(sum:mem,x)")
	require.Equal(t, 400, code)
	require.Contains(t, text, `scale: the factor`)
	require.Equal(t, 400, s.send(http.MethodDelete, "/api/query/gexp?start=1&exp=absolute(sum:mem)", "").Code)
}

// TestOpenTSDBLast finds the newest point, of any age.
func TestOpenTSDBLast(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	old := ingest.Sample{
		Labels: labels.FromStrings("__name__", "old", "host", "web01"), TsMs: (comparison.End - 40*86_400) * 1000, Value: 2.5,
	}
	_, err := s.ingester.Write(context.Background(), ingest.SamplesInput([]ingest.Sample{old}))
	require.NoError(t, err)
	require.NoError(t, s.ingester.Flush(context.Background()))
	last := func(params string) (points []map[string]any) {
		w := s.send(http.MethodGet, "/api/query/last?"+params, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &points))
		return points
	}
	points := last("timeseries=sys.cpu&timeseries=old{host=web01}&resolve")
	require.Len(t, points, 3)
	require.Equal(t, "90", points[0]["value"])
	require.InDelta(t, (otsdbStart+540)*1000, points[0]["timestamp"], 0)
	require.Equal(t, map[string]any{"host": "web02", "dc": "lga"}, points[1]["tags"])
	require.Equal(t, "2.5", points[2]["value"])
	require.Equal(t, "old", points[2]["metric"])
	byID := last(fmt.Sprintf("tsuids=%s", points[0]["tsuid"]))
	require.Len(t, byID, 1)
	require.NotContains(t, byID[0], "metric")
	require.Empty(t, last("timeseries=old&back_scan=24"))
	w := s.send(http.MethodPost, "/api/query/last", `{"queries":[{"metric":"sys.cpu","tags":{"host":"web02"}}],"backScan":2}`)
	require.Contains(t, w.Body.String(), `"value":"46"`)
	w = s.send(http.MethodGet, "/api/query/last?timeseries=nosuch", "")
	require.Equal(t, 400, w.Code)
	require.Contains(t, w.Body.String(), "No such name for 'metrics': 'nosuch'")
}

// TestOpenTSDBHistograms: histograms of a group and of an interval add up.
func TestOpenTSDBHistograms(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	var samples []ingest.Sample
	for i := range int64(2) {
		for _, host := range []string{"web01", "web02"} {
			samples = append(samples, ingest.Sample{
				Labels: labels.FromStrings("__name__", "latency", "host", host), TsMs: (otsdbStart + 60*i) * 1000,
				H: &histogram.Histogram{
					Schema: histogram.CustomBucketsSchema, Count: 13, CustomValues: []float64{0, 10, 20.5},
					PositiveSpans: []histogram.Span{{Length: 4}}, PositiveBuckets: []int64{1, 3, 2, -4}, // 1, 4, 6, 2
				},
			})
		}
	}
	_, err := s.ingester.Write(context.Background(), ingest.SamplesInput(samples))
	require.NoError(t, err)
	series := func(suffix, tags, aggregated, points string) string {
		return fmt.Sprintf(`{"metric":"latency%s","tags":{%s},"aggregateTags":[%s],"dps":%s}`, suffix, tags, aggregated, points)
	}
	both := func(suffix, points string) string { return series(suffix, "", `"host"`, points) }
	require.Equal(t, "["+both("_pct_0.5", dps(0, "-1.0", 60, "-1.0"))+","+both("_pct_40.0", dps(0, "5.0", 60, "5.0"))+","+
		both("_pct_99.9", dps(0, "15.25", 60, "15.25"))+"]", s.get(t, "m=sum:percentiles[99.9,40,0.5]:latency"))
	require.Equal(t, "["+both("_UNDERFLOW", dps(0, 4))+","+both("_0.0_10.0", dps(0, 16))+","+both("_10.0_20.5", dps(0, 24))+","+
		both("_OVERFLOW", dps(0, 8))+"]", s.get(t, "m=sum:5m-sum:show-histogram-buckets:latency"))
	one := `"host":"web02"`
	require.Equal(t, "["+series("_pct_50.0", one, "", dps(0, "15.25", 60, "15.25"))+"]",
		s.get(t, "m=none:percentiles[50]:latency{host=web02}"))
	require.Equal(t, "[]", s.get(t, "m=sum:percentiles[50]:sys.cpu"))
}

// TestOpenTSDBAnnotated: a response has the annotations of its series, and global ones if the query wants them.
func TestOpenTSDBAnnotated(t *testing.T) {
	t.Parallel()
	s := newOTSDB(t, query.Options{})
	var points []struct{ TSUID string }
	w := s.send(http.MethodGet, "/api/query/last?timeseries=mem", "")
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &points))
	for id, text := range map[string]string{points[0].TSUID: "of mem", "": "of all"} {
		body := fmt.Sprintf(`{"tsuid":%q,"startTime":%d,"description":%q}`, id, otsdbStart+5, text)
		require.Equal(t, 200, s.send(http.MethodPost, "/api/annotation", body).Code)
	}
	const own, all = `"annotations":[{"tsuid":"`, `"globalAnnotations":[{"tsuid":""`
	text := s.get(t, "m=sum:mem")
	require.Contains(t, text, own+points[0].TSUID)
	require.NotContains(t, text, all)
	require.NotContains(t, text, "tsuids")
	require.NotContains(t, s.get(t, "m=sum:sys.cpu"), own)
	require.Contains(t, s.get(t, "m=sum:mem&global_annotations"), all)
	require.NotContains(t, s.get(t, "m=sum:mem&no_annotations&global_annotations"), "nnotations")
	require.NotContains(t, s.get(t, "m=sum:mem&global_annotations", "Authorization", "part"), all)
}
