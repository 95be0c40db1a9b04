package api_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protodelim"

	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/keyschema/exemplar"
)

// kindsFromMs is the time of the first sample of kindsSamples, a minute apart; the last one is at the comparison's clock.
func kindsFromMs() int64 { return comparison.Now().UnixMilli() - 9*60_000 }

// kindsSamples are histograms of integers and of floats, gauges, custom buckets, and a series that changes to floats.
func kindsSamples() (list []ingest.Sample) {
	add := func(metric string, tsMs int64, s ingest.Sample) {
		s.Labels, s.TsMs = labels.FromStrings("__name__", metric, "job", "kinds"), tsMs
		list = append(list, s)
	}
	for i := range int64(10) {
		tsMs := kindsFromMs() + i*60_000
		add("integers", tsMs, ingest.Sample{H: tsdbutil.GenerateTestHistogram(i), Exemplars: []exemplar.Exemplar{
			{TsMs: tsMs - 500, Value: float64(i), Labels: labels.FromStrings("trace_id", fmt.Sprint("t", i))},
		}})
		add("floats", tsMs, ingest.Sample{FH: tsdbutil.GenerateTestFloatHistogram(i)})
		add("gauges", tsMs, ingest.Sample{FH: tsdbutil.GenerateTestGaugeFloatHistogram(i)})
		add("custom", tsMs, ingest.Sample{H: tsdbutil.GenerateTestCustomBucketsHistogram(i)})
		if i < 5 {
			add("turns", tsMs, ingest.Sample{H: tsdbutil.GenerateTestHistogram(i)})
		} else {
			add("turns", tsMs, ingest.Sample{Value: float64(i)})
		}
	}
	return list
}

// kindsInAllPlaces runs check with the samples in the head, half of them in the tables, and all in the tables.
func kindsInAllPlaces(t *testing.T, check func(t *testing.T, s *stack)) {
	s, list := newStack(t), kindsSamples()
	write := func(part []ingest.Sample) {
		result, err := s.ingester.Write(context.Background(), ingest.SamplesInput(part))
		require.NoError(t, err)
		require.Zero(t, result.Rejected, result.First)
	}
	write(list[:len(list)/2])
	require.NoError(t, s.ingester.Flush(context.Background()))
	write(list[len(list)/2:])
	t.Run("both", func(t *testing.T) { check(t, s) })
	require.NoError(t, s.ingester.Flush(context.Background()))
	t.Run("tables", func(t *testing.T) { check(t, s) })
	s = newStack(t)
	write(list)
	t.Run("head", func(t *testing.T) { check(t, s) })
}

func get(s *stack, accept, path string, params url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path+"?"+params.Encode(), nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestReadHistogramsLikePrometheus has our handler and Prometheus's own read histograms from the same database.
func TestReadHistogramsLikePrometheus(t *testing.T) {
	kindsInAllPlaces(t, func(t *testing.T, s *stack) {
		theirs := remote.NewReadHandler(promslog.NewNopLogger(), nil, s.queryable,
			func() config.Config { return config.Config{} }, 1_000_000, 1, frameBytesMax)
		for _, types := range [][]prompb.ReadRequest_ResponseType{nil, {prompb.ReadRequest_STREAMED_XOR_CHUNKS}} {
			compareReads(t, s.Handler(), theirs, &prompb.ReadRequest{AcceptedResponseTypes: types, Queries: []*prompb.Query{{
				StartTimestampMs: kindsFromMs() + 60_000, EndTimestampMs: comparison.Now().UnixMilli(), Matchers: everything(),
			}}})
		}
	})
}

// TestQueryHistograms shows the responses in Prometheus's format.
func TestQueryHistograms(t *testing.T) {
	kindsInAllPlaces(t, func(t *testing.T, s *stack) {
		now := fmt.Sprint(comparison.Now().Unix())
		w := get(s, "", "/api/v1/query", url.Values{"query": {"integers"}, "time": {now}})
		require.Equal(t, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"integers","job":"kinds"},`+
			`"histogram":[`+now+`,{"count":"93","sum":"184","buckets":[`+
			`[1,"-4","-2.82842712474619","10"],[1,"-2.82842712474619","-2","10"],[1,"-1.414213562373095","-1","11"],`+
			`[1,"-1","-0.7071067811865475","10"],[3,"-0.001","0.001","11"],[0,"0.7071067811865475","1","10"],`+
			`[0,"1","1.414213562373095","11"],[0,"2","2.82842712474619","10"],[0,"2.82842712474619","4","10"]]}]}]}}`,
			w.Body.String())
		for query, says := range map[string]string{
			"histogram_count(custom)":                  `"value"`,
			"sum(rate(integers[5m]))":                  `"histogram"`,
			"histogram_quantile(0.5, floats)":          `"value"`,
			"turns[10m]":                               `"histograms"`,
			"histogram_sum({__name__=~'int.*'})":       `"value"`,
			"rate(turns[9m])":                          "mix of histograms and floats",
			"increase(gauges[5m])":                     "not a counter",
			"integers + on(job) histogram_avg(floats)": `"result":[]`,
		} {
			require.Contains(t, get(s, "", "/api/v1/query", url.Values{"query": {query}, "time": {now}}).Body.String(), says, query)
		}
		explained := get(s, "", "/api/v1/explain", url.Values{"query": {"sum(rate(integers[5m]))"}, "time": {now}}).Body.String()
		require.Contains(t, explained, "metric integers has native histograms in the time range")
		explained = get(s, "", "/api/v1/explain", url.Values{"query": {"sum({__name__=~'inte.*'})"}, "time": {now}}).Body.String()
		require.Contains(t, explained, `"givenUp":true`)
		require.Contains(t, explained, "metric integers has native histograms in the time range")
	})
}

// TestFederateHistograms: protobuf holds native histograms, text only histograms with custom buckets.
func TestFederateHistograms(t *testing.T) {
	kindsInAllPlaces(t, func(t *testing.T, s *stack) {
		match := url.Values{"match[]": {`{job="kinds"}`}}
		text := get(s, "text/plain", "/federate", match).Body.String()
		require.Contains(t, text, "# TYPE custom histogram\ncustom_bucket{job=\"kinds\",instance=\"\",le=\"0\"}")
		require.Contains(t, text, "turns{job=\"kinds\",instance=\"\"} 9")
		require.NotContains(t, text, "integers")
		w := get(s, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited", "/federate", match)
		types := map[string]dto.MetricType{}
		for r := bytes.NewReader(w.Body.Bytes()); r.Len() > 0; {
			var f dto.MetricFamily
			require.NoError(t, protodelim.UnmarshalFrom(r, &f))
			types[f.GetName()] = f.GetType()
			if f.GetName() != "integers" {
				continue
			}
			want := tsdbutil.GenerateTestHistogram(9).ToFloat(nil)
			got := f.Metric[0].Histogram
			require.Equal(t, want.Count, got.GetSampleCountFloat())
			require.Equal(t, want.PositiveBuckets, got.PositiveCount)
			require.Equal(t, want.NegativeBuckets, got.NegativeCount)
			require.Equal(t, []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 2}}, want.PositiveSpans)
			require.EqualValues(t, 1, got.PositiveSpan[1].GetOffset())
			require.EqualValues(t, comparison.Now().UnixMilli(), f.Metric[0].GetTimestampMs())
		}
		require.Equal(t, map[string]dto.MetricType{
			"integers": dto.MetricType_HISTOGRAM, "floats": dto.MetricType_HISTOGRAM, "gauges": dto.MetricType_GAUGE_HISTOGRAM,
			"custom": dto.MetricType_HISTOGRAM, "turns": dto.MetricType_UNTYPED,
		}, types)
	})
}

// TestQueryExemplars finds exemplars by selector and time.
func TestQueryExemplars(t *testing.T) {
	kindsInAllPlaces(t, func(t *testing.T, s *stack) {
		export := func(query string, fromMs, toMs int64) string {
			seconds := func(ms int64) string { return fmt.Sprintf("%.3f", float64(ms)/1000) }
			return get(s, "", "/api/v1/query_exemplars",
				url.Values{"query": {query}, "start": {seconds(fromMs)}, "end": {seconds(toMs)}}).Body.String()
		}
		at := kindsFromMs() + 4*60_000 - 500
		require.Equal(t, fmt.Sprintf(`{"status":"success","data":[{"seriesLabels":{"__name__":"integers","job":"kinds"},`+
			`"exemplars":[{"labels":{"trace_id":"t4"},"value":"4","timestamp":%.3f},`+
			`{"labels":{"trace_id":"t5"},"value":"5","timestamp":%.3f}]}]}`, float64(at)/1000, float64(at)/1000+60),
			export(`sum(rate(integers[5m])) / sum({job="kinds"})`, at, at+60_000))
		require.Equal(t, `{"status":"success","data":[]}`, export("integers", at+1, at+59_999))
		require.Equal(t, `{"status":"success","data":[]}`, export("floats", 0, at))
		// A late exemplar joins the others.
		_, err := s.ingester.Write(context.Background(), ingest.SamplesInput([]ingest.Sample{{
			Labels: labels.FromStrings("__name__", "late", "job", "kinds"), TsMs: kindsFromMs(), Value: 1,
			Exemplars: []exemplar.Exemplar{{TsMs: at - 86_400_000, Value: 1.5, Labels: labels.FromStrings("trace_id", "x")}},
		}}))
		require.NoError(t, err)
		require.Contains(t, export("late", 0, at), `"value":"1.5"`)
	})
}
