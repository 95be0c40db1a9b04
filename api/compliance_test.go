package api_test

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

// The parts of remote write 2.0 that the server stores. It must reject all others.
const (
	storesHistograms = true
	storesExemplars  = true
)

type pairs = map[string]string

// v2Exemplar belongs to the series with the labels of its case.
type v2Exemplar struct {
	labels pairs
	value  float64
}

// v2Item is one TimeSeries of a case.
type v2Item struct {
	labels    pairs
	value     *float64
	ago       time.Duration
	start     time.Duration // before now; 0 if there is no start timestamp
	histogram *writev2.Histogram
	exemplars []v2Exemplar
	metadata  *writev2.Metadata
	help      string
	unit      string
}

// v2Case is a request, and the number of its valid series.
type v2Case struct {
	name   string
	items  []v2Item
	faulty int
}

func number(v float64) *float64 { return &v }

func point(labels pairs, v float64) v2Item { return v2Item{labels: labels, value: number(v)} }

func (i v2Item) with(exemplars ...v2Exemplar) v2Item {
	i.exemplars = exemplars
	return i
}

func (i v2Item) described(typ writev2.Metadata_MetricType, help, unit string) v2Item {
	i.metadata, i.help, i.unit = &writev2.Metadata{Type: typ}, help, unit
	return i
}

func hist(labels pairs, h writev2.Histogram) v2Item { return v2Item{labels: labels, histogram: &h} }

// request encodes a case. Labels are in the random order of the map: some senders do not sort them.
func (c v2Case) request() []byte {
	symbols := writev2.NewSymbolTable()
	refs := func(labels pairs) (refs []uint32) {
		for name, text := range labels {
			refs = append(refs, symbols.Symbolize(name), symbols.Symbolize(text))
		}
		return refs
	}
	now := comparison.Now()
	req := &writev2.Request{}
	for _, i := range c.items {
		at := now.Add(-i.ago).UnixMilli()
		ts := writev2.TimeSeries{LabelsRefs: refs(i.labels)}
		if i.value != nil {
			s := writev2.Sample{Timestamp: at, Value: *i.value}
			if i.start != 0 {
				s.StartTimestamp = now.Add(-i.start).UnixMilli()
			}
			ts.Samples = append(ts.Samples, s)
		}
		if i.histogram != nil {
			h := *i.histogram
			h.Timestamp = at
			ts.Histograms = append(ts.Histograms, h)
		}
		for _, e := range i.exemplars {
			ts.Exemplars = append(ts.Exemplars, writev2.Exemplar{LabelsRefs: refs(e.labels), Value: e.value, Timestamp: at})
		}
		if i.metadata != nil {
			ts.Metadata = *i.metadata
			ts.Metadata.HelpRef, ts.Metadata.UnitRef = symbols.Symbolize(i.help), symbols.Symbolize(i.unit)
		}
		req.Timeseries = append(req.Timeseries, ts)
	}
	req.Symbols = symbols.Symbols()
	b, err := req.Marshal()
	if err != nil {
		panic(err)
	}
	return snappy.Encode(nil, b)
}

// written counts the items of valid series, which the server must store. all says whether these are all items of the
// request.
func (c v2Case) written() (samples, histograms, exemplars int, all bool) {
	all = c.faulty == 0
	for _, i := range c.items[c.faulty:] {
		if i.value != nil {
			samples++
		}
		if i.histogram != nil {
			all = all && storesHistograms
			if storesHistograms {
				histograms++
			}
		}
		all = all && (storesExemplars || len(i.exemplars) == 0)
		if storesExemplars {
			exemplars += len(i.exemplars)
		}
	}
	return samples, histograms, exemplars, all
}

func sendWrite(h http.Handler, body []byte, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
	r.Header.Set("X-Prometheus-Remote-Write-Version", "2.0.0")
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestRemoteWriteV2Compliance goes through the cases of the receiver tests in github.com/prometheus/compliance, with stricter
// expectations: the status and the counts are exact.
func TestRemoteWriteV2Compliance(t *testing.T) {
	handler := newStack(t).Handler()
	for _, c := range complianceCases() {
		t.Run(c.name, func(t *testing.T) {
			samples, histograms, exemplars, all := c.written()
			w := sendWrite(handler, c.request())
			if all {
				require.Equal(t, http.StatusNoContent, w.Code, w.Body)
				require.Empty(t, w.Body.Bytes())
			} else {
				require.Equal(t, http.StatusBadRequest, w.Code)
				require.Contains(t, w.Body.String(), "samples rejected (")
			}
			for kind, count := range map[string]int{"Samples": samples, "Histograms": histograms, "Exemplars": exemplars} {
				require.Equal(t, strconv.Itoa(count), w.Header().Get("X-Prometheus-Remote-Write-"+kind+"-Written"), kind)
			}
		})
	}
}

// TestRemoteWriteV2Refusals runs the cases of that suite that do not depend on the series of a request.
func TestRemoteWriteV2Refusals(t *testing.T) {
	handler := newStack(t).Handler()
	good := v2Case{items: []v2Item{point(pairs{"__name__": "up"}, 1)}}.request()
	corrupt := bytes.Clone(good)
	corrupt[0] = '0'
	for _, c := range [][]string{
		{"Content-Type", "application/json"}, {"Content-Type", "image/png"}, {"Content-Encoding", "gzip"},
		{"Content-Encoding", "deflate"},
	} {
		w := sendWrite(handler, corrupt, c...)
		require.Equal(t, http.StatusUnsupportedMediaType, w.Code, c)
		require.NotContains(t, fmt.Sprint(w.Header()), "Written")
	}
	w := sendWrite(handler, corrupt)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "0", w.Header().Get("X-Prometheus-Remote-Write-Samples-Written"))

	req := &prompb.WriteRequest{}
	for _, ls := range [][]prompb.Label{
		{{Name: "job", Value: "testjob"}, {Name: "__name__", Value: "up"}}, {{Name: "__name__", Value: "http_requests_total"}},
	} {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels: ls, Samples: []prompb.Sample{{Value: 1, Timestamp: comparison.Now().UnixMilli()}},
		})
	}
	b, err := req.Marshal()
	require.NoError(t, err)
	v1 := snappy.Encode(nil, b)
	w = sendWrite(handler, v1, "Content-Type", "application/x-protobuf")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.NotContains(t, fmt.Sprint(w.Header()), "Written")
	v1[0] = 0xff
	require.Equal(t, http.StatusBadRequest, sendWrite(handler, v1, "Content-Type", "application/x-protobuf").Code)
	// A body of the other version is an empty request.
	w = sendWrite(handler, good, "Content-Type", "application/x-protobuf")
	require.Equal(t, http.StatusNoContent, w.Code)
	require.Equal(t, http.StatusNoContent, sendWrite(handler, snappy.Encode(nil, b)).Code)
}

func complianceCases() []v2Case {
	cases := append(floatCases(), exemplarCases()...)
	cases = append(cases, histogramCases()...)
	cases = append(cases, metadataCases()...)
	return append(cases, combinedCases()...)
}

func floatCases() (cases []v2Case) {
	instance := func(port string) pairs {
		return pairs{"__name__": "up", "job": "testjob", "instance": "localhost:" + port}
	}
	for name, v := range map[string]float64{
		"1": 1, "StaleNaN": math.Float64frombits(value.StaleNaN), "NaN": math.NaN(), "Inf": math.Inf(1), "-Inf": math.Inf(-1),
	} {
		one := func(title string, labels pairs, faulty int) {
			cases = append(cases, v2Case{name + " " + title, []v2Item{point(labels, v)}, faulty})
		}
		one("simple", pairs{"__name__": "up"}, 0)
		one("labels", instance("9090"), 0)
		one("newlines", pairs{"__name__": "up", "job": "test\njob\n", "instance": "localhost:9090"}, 0)
		one("dots", pairs{"__name__": "resource.cpu.usage", "job.name": "testjob", "instance.name": "localhost:9090"}, 0)
		one("spaces", pairs{"__name__": "resource cpu usage", "job name": "testjob"}, 0)
		one("no name", pairs{"job": "testjob", "instance": "localhost:9090"}, 1)
		one("empty", pairs{}, 1)
		var many []v2Item
		for _, port := range []string{"9090", "9091", "9092", "9093"} {
			many = append(many, point(instance(port), v))
		}
		cases = append(cases, v2Case{name + " multiple", many, 0})
		nameless := point(pairs{"job": "testjob", "instance": "localhost:9090"}, v)
		cases = append(cases, v2Case{name + " multiple without name", []v2Item{nameless, nameless, nameless, nameless}, 4},
			v2Case{name + " multiple, one without name", append([]v2Item{nameless}, many[1:]...), 1})
	}
	started := point(pairs{"__name__": "http_requests_total", "job": "api"}, 100)
	started.start = time.Hour
	return append(cases, v2Case{"start timestamp", []v2Item{started}, 0})
}

func exemplarCases() (cases []v2Case) {
	for n, c := range []struct {
		labels, exemplar pairs
		value            float64
		faulty           int
	}{
		{pairs{"__name__": "http_requests_total", "job": "api"}, pairs{"trace_id": "abc123def456"}, 1, 0},
		{pairs{"__name__": "request_duration_seconds", "method": "GET"}, pairs{"trace_id": "xyz789", "span_id": "span123"}, 0.125, 0},
		{pairs{"__name__": "cpu_usage", "instance": "host1"}, pairs{"user_id": "user123"}, 0.85, 0},
		{pairs{"__name__": "request_latency"}, pairs{"trace_id": "trace456", "user": "admin", "endpoint": "/login"}, 0.05, 0},
		{pairs{"__name__": "simple_counter"}, pairs{}, 1, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "trace-with-dashes_and_underscores.123"}, 42, 0},
		{pairs{"__name__": "unicode_test", "region": "🌍"}, pairs{"trace_id": "unicode_trace_测试"}, 100, 0},
		{pairs{"job": "test"}, pairs{"trace_id": "test_trace"}, 1, 1},
		{pairs{"__name__": ""}, pairs{"trace_id": "test_trace"}, 1, 1},
		{pairs{"__name__": "valid_metric"}, pairs{"trace_id": "test_trace"}, 1, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, 0, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, -123.456, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, 1e10, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, 1e-10, 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, math.NaN(), 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, math.Inf(1), 0},
		{pairs{"__name__": "test_metric"}, pairs{"trace_id": "special"}, math.Inf(-1), 0},
	} {
		cases = append(cases, v2Case{
			fmt.Sprint("exemplar ", n), []v2Item{point(c.labels, c.value).with(v2Exemplar{c.exemplar, c.value})}, c.faulty,
		})
	}
	old := func(ago time.Duration, v float64) v2Item {
		i := point(pairs{"__name__": "latency_hist"}, v).with(v2Exemplar{pairs{"trace_id": "old"}, v})
		i.ago = ago
		return i
	}
	started := point(pairs{"__name__": "http_requests_total", "job": "api"}, 250).with(v2Exemplar{pairs{"trace_id": "abc"}, 250})
	started.start = 2 * time.Hour
	return append(cases, v2Case{"exemplar timestamps", []v2Item{old(time.Hour, 0.05), old(time.Minute, 0.15), old(0, 0.08)}, 0},
		v2Case{"exemplar and start timestamp", []v2Item{started}, 0},
		v2Case{"multiple exemplars", []v2Item{
			point(pairs{"__name__": "request_duration", "method": "GET"}, 0.1).with(v2Exemplar{pairs{"trace_id": "trace1"}, 0.1}),
			point(pairs{"__name__": "request_duration", "method": "POST"}, 0.25).with(v2Exemplar{pairs{"trace_id": "trace2"}, 0.25}),
			point(pairs{"__name__": "error_count", "service": "payment"}, 1).with(v2Exemplar{pairs{"trace_id": "trace3"}, 1}),
		}, 0})
}

// wireHistogram is a histogram of the given buckets, as that suite makes them.
func wireHistogram(sum float64, positive, negative, zero, custom bool) writev2.Histogram {
	h, count := writev2.Histogram{Sum: sum}, uint64(0)
	if positive {
		h.PositiveSpans = []writev2.BucketSpan{{Length: 3}, {Offset: 2, Length: 2}}
		h.PositiveDeltas = []int64{1, 2, 1, 3, 1}
		count += 23
	}
	if negative {
		h.NegativeSpans, h.NegativeDeltas = []writev2.BucketSpan{{Length: 2}}, []int64{1, 1}
		count += 3
	}
	if zero {
		h.ZeroCount = &writev2.Histogram_ZeroCountInt{ZeroCountInt: 1}
		count++
	}
	if custom {
		h.Schema, h.CustomValues = -53, []float64{0.1, 0.5, 1, 2.5, 5, 10}
		h.PositiveSpans, h.PositiveDeltas = []writev2.BucketSpan{{Length: 6}}, []int64{2, 1, 2, 3, -1, -2}
		count = 30
	}
	h.Count = &writev2.Histogram_CountInt{CountInt: count}
	return h
}

func histogramCases() (cases []v2Case) {
	name := pairs{"__name__": "test_histogram", "job": "test"}
	for n, h := range []writev2.Histogram{
		wireHistogram(1, true, true, true, false), wireHistogram(1, true, false, false, true),
		wireHistogram(1, true, false, true, false), wireHistogram(1, false, true, false, false),
		wireHistogram(1, false, false, true, false), wireHistogram(0, false, false, false, false),
	} {
		cases = append(cases, v2Case{fmt.Sprint("histogram ", n), []v2Item{hist(name, h)}, 0})
	}
	bad := wireHistogram(1, true, false, false, false)
	bad.Count = &writev2.Histogram_CountInt{CountInt: 99}
	started := wireHistogram(1.5, true, true, true, false)
	started.StartTimestamp = comparison.Now().Add(-30 * time.Minute).UnixMilli()
	full := wireHistogram(0.456, true, true, true, false)
	trace := v2Exemplar{pairs{"trace_id": "abc123def456", "span_id": "span789"}, 1.23}
	const typ = writev2.Metadata_METRIC_TYPE_HISTOGRAM
	return append(cases, v2Case{"histogram with a bad count", []v2Item{hist(name, bad)}, 1},
		v2Case{"histogram with start timestamp", []v2Item{hist(name, started)}, 0},
		v2Case{"histograms", []v2Item{
			hist(name, full), hist(pairs{"__name__": "hist2"}, wireHistogram(5.2, false, true, false, false)),
		}, 0},
		v2Case{"histogram with metadata", []v2Item{hist(name, full).described(typ, "HTTP request duration", "seconds")}, 0},
		v2Case{"histogram with exemplar", []v2Item{hist(name, full).with(trace)}, 0},
		v2Case{"custom buckets with exemplar", []v2Item{hist(name, wireHistogram(0.05, false, false, false, true)).with(trace)}, 0},
		v2Case{"histogram with both", []v2Item{hist(name, full).with(trace).described(typ, "Response size", "bytes")}, 0},
		v2Case{"histograms with metadata", []v2Item{
			hist(name, full).described(typ, "CPU usage distribution", "ratio"),
			hist(pairs{"__name__": "memory_usage_histogram"}, full).described(typ, "Memory usage distribution", "bytes"),
		}, 0})
}

func metadataCases() (cases []v2Case) {
	for typ := range writev2.Metadata_MetricType_name {
		cases = append(cases, v2Case{
			fmt.Sprint("metadata of type ", typ),
			[]v2Item{point(pairs{"__name__": "metric_a"}, 1).described(writev2.Metadata_MetricType(typ), "Help", "unit")}, 0,
		})
	}
	const counter, gauge = writev2.Metadata_METRIC_TYPE_COUNTER, writev2.Metadata_METRIC_TYPE_GAUGE
	started := point(pairs{"__name__": "http_requests_total", "job": "api"}, 150).described(counter, "HTTP requests", "requests")
	started.start = time.Hour
	return append(cases, v2Case{"metadata without texts", []v2Item{point(pairs{"__name__": "m"}, 1).described(counter, "", "")}, 0},
		v2Case{"metadata with special characters", []v2Item{
			point(pairs{"__name__": "m", "job": "test"}, 1).described(gauge, "Test metric with\nnewlines and \"quotes\"", "bytes/sec"),
		}, 0},
		v2Case{"metadata and start timestamp", []v2Item{started}, 0},
		v2Case{"multiple metadata", []v2Item{
			point(pairs{"__name__": "cpu_usage"}, 85.5).described(gauge, "CPU usage percentage", "percent"),
			point(pairs{"__name__": "memory_usage"}, 4096000000).described(gauge, "Memory usage in bytes", "bytes"),
			point(pairs{"__name__": "disk_usage", "device": "sda1"}, 75.2).described(gauge, "Disk usage percentage", "percent"),
		}, 0},
		v2Case{"metadata without name", []v2Item{point(pairs{"job": "test"}, 1).described(counter, "Test help", "unit")}, 1},
		v2Case{"metadata with empty name", []v2Item{point(pairs{"__name__": ""}, 1).described(gauge, "Test help", "unit")}, 1},
		v2Case{"metadata alone", []v2Item{v2Item{labels: pairs{"__name__": "orphan"}}.described(counter, "Orphaned", "count")}, 0})
}

func combinedCases() (cases []v2Case) {
	const counter, gauge = writev2.Metadata_METRIC_TYPE_COUNTER, writev2.Metadata_METRIC_TYPE_GAUGE
	special := pairs{"__name__": "test_metric", "job": "test-job_with.special@chars", "environment": "test🚀"}
	old := point(pairs{"__name__": "old_metric"}, 1).with(v2Exemplar{pairs{"trace_id": "old_trace"}, 1})
	old.ago = time.Hour
	var points, hists []v2Item
	for n := range 50 {
		labels := pairs{"__name__": fmt.Sprint("counter_metric_", n), "series": fmt.Sprint(n)}
		trace := v2Exemplar{pairs{"trace_id": fmt.Sprint("trace_", n)}, float64(n)}
		points = append(points, point(labels, float64(n)).with(trace).described(counter, fmt.Sprint("Counter ", n), "count"))
		h := wireHistogram(float64(n)/10, true, n%2 == 0, true, false)
		hists = append(hists, hist(labels, h).with(trace).described(writev2.Metadata_METRIC_TYPE_HISTOGRAM, "Histogram", "seconds"))
	}
	return append(cases, v2Case{"samples, metadata and exemplars", []v2Item{
		point(pairs{"__name__": "cpu_usage", "instance": "server1"}, 0.85).described(gauge, "CPU usage ratio", "ratio").
			with(v2Exemplar{pairs{"trace_id": "high_cpu_trace", "process": "worker"}, 0.85}),
		point(pairs{"__name__": "memory_usage", "instance": "server1"}, 8589934592).described(gauge, "Memory usage", "bytes"),
	}, 0},
		v2Case{"special characters", []v2Item{
			point(special, 42).described(gauge, "Characters: äöü, newlines\nand \"quotes\"", "special/units").
				with(v2Exemplar{pairs{"trace_id": "special_trace_äöü-123", "span_id": "span_with.dots"}, 42}),
		}, 0},
		v2Case{"exemplars alone", []v2Item{v2Item{labels: pairs{"__name__": "orphan"}}.with(v2Exemplar{pairs{"a": "o"}, 42})}, 0},
		v2Case{"mixed timestamps", []v2Item{old, point(pairs{"__name__": "new_metric"}, 2)}, 0},
		v2Case{"many samples", points, 0}, v2Case{"many histograms", hists, 0})
}
