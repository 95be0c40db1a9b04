package otlp

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

const document = `{"resourceMetrics":[{"resource":{"attributes":[
{"key":"service.name","value":{"stringValue":"shop"}},{"key":"service.instance.id","value":{"stringValue":"i1"}},
{"key":"region","value":{"stringValue":"eu"}}]},
"scopeMetrics":[{"metrics":[
{"name":"orders","unit":"1","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[
{"asInt":"5","startTimeUnixNano":"1000000000",
"timeUnixNano":"2000000000","attributes":[{"key":"kind","value":{"stringValue":"a"}}]}]}},
{"name":"wait","unit":"s","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[
{"count":"3","sum":4.5,"scale":1,"zeroCount":"1","positive":{"offset":1,"bucketCounts":["1","1"]},"timeUnixNano":"2000000000"}]}},
{"name":"delta","sum":{"aggregationTemporality":1,"isMonotonic":true,"dataPoints":[
{"asInt":"5","timeUnixNano":"2000000000"}]}}]}]}]}`

// parsed returns the series by their labels, and the request.
func parsed(t testing.TB, contentType string, body []byte) (map[string]batch.Series, *request, error) {
	t.Helper()
	return parsedBy(t, DefaultOptions(5*time.Minute), contentType, body)
}

// parsedBy is parsed with options.
func parsedBy(t testing.TB, o Options, contentType string, body []byte) (map[string]batch.Series, *request, error) {
	t.Helper()
	r := httptest.NewRequest("POST", "/v1/metrics", nil)
	r.Header.Set("Content-Type", contentType)
	x, ok := Export(func() Options { return o })(r).(*request)
	require.True(t, ok)
	require.NoError(t, x.Check())
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	if err := x.Parse(body, b); err != nil {
		return nil, x, err
	}
	out := map[string]batch.Series{}
	for b.Next() {
		s := b.Series()
		pairs, err := remotewrite.AppendLabels(nil, s.Key)
		require.NoError(t, err)
		builder := labels.NewScratchBuilder(0)
		out[(&prompb.TimeSeries{Labels: pairs}).ToLabels(&builder, nil).String()] = s
	}
	return out, x, nil
}

func TestExport(t *testing.T) {
	series, x, err := parsed(t, jsonType, []byte(document))
	require.NoError(t, err)
	orders := series[`{__name__="orders_total", instance="i1", job="shop", kind="a"}`]
	require.Equal(t, []remotewrite.Sample{{TsMs: 2000, StartMs: 1000, Value: 5}}, orders.Samples, "%v", series)
	wait := series[`{__name__="wait_seconds", instance="i1", job="shop"}`]
	require.Len(t, wait.Histograms, 1)
	require.Equal(t, 4.5, wait.Histograms[0].H.Sum)
	require.Contains(t, series, `{__name__="target_info", instance="i1", job="shop", region="eu"}`)
	require.Len(t, series, 3)
	response := x.Respond(&ingest.Result{Rejected: 2, First: "why"})
	require.Equal(t, 200, response.Status)
	require.JSONEq(t, `{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"2 of 2 samples rejected; first: why"}}`,
		string(response.Body))

	export := pmetricotlp.NewExportRequest()
	require.NoError(t, export.UnmarshalJSON([]byte(document)))
	packed, err := export.MarshalProto()
	require.NoError(t, err)
	again, _, err := parsed(t, protobufType, packed)
	require.NoError(t, err)
	require.Len(t, again, 3)
	require.JSONEq(t, "{}", string((&request{contentType: jsonType}).Respond(&ingest.Result{}).Body))
	require.Empty(t, (&request{contentType: protobufType}).Respond(&ingest.Result{}).Body)
	_, _, err = parsed(t, protobufType, []byte("no protobuf"))
	require.Error(t, err)
}

// TestNulls: null stands for an absent field. A number or an exemplar without a value is refused, and nothing else.
func TestNulls(t *testing.T) {
	const body = `{"resourceMetrics":[{"resource":null,"scopeMetrics":[{"metrics":[
{"name":"temp","gauge":{"dataPoints":[
{"asDouble" : null,"timeUnixNano":"2000000000","attributes":[{"key":"null","value":{"stringValue":"no \":null"}}]},
{"asDouble":1.5,"timeUnixNano":"2000000000",
"attributes":[{"key":"asDouble\":null","value":{"stringValue":"null"}}]},
{"asDouble":null,"flags":1,"timeUnixNano":"2000000000","attributes":[{"key":"none","value":{"stringValue":"x"}}]}]}},
{"name":"wait","histogram":{"aggregationTemporality":2,"dataPoints":[
{"count":"1","sum":null,"exemplars":[{"asDouble":null,"timeUnixNano":"1"},{"asInt":"7","timeUnixNano":"1"}],
"explicitBounds":[1],"bucketCounts":["1","0"],"timeUnixNano":"2000000000"}]}}]}]}]}`
	r := httptest.NewRequest("POST", "/v1/metrics", nil)
	r.Header.Set("Content-Type", jsonType)
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	before := strings.Clone(body)
	require.NoError(t, Export(func() Options { return DefaultOptions(0) })(r).Parse([]byte(body), b))
	require.Equal(t, before, body)
	require.Equal(t, []batch.Rejection{
		{Count: 2, Reason: ingest.ReasonNotNumeric, Detail: "a data point of metric temp has no value"},
	}, b.Rejections())
	series, _, err := parsed(t, jsonType, []byte(body))
	require.NoError(t, err)
	require.Equal(t, 1.5, series[`{__name__="temp", asDouble__null="null"}`].Samples[0].Value, "%v", series)
	require.Len(t, series[`{__name__="wait_bucket", le="+Inf"}`].Exemplars, 1)
	require.True(t, value.IsStaleNaN(series[`{__name__="temp", none="x"}`].Samples[0].Value))
	require.Contains(t, series, `{__name__="wait_count"}`)
	require.NotContains(t, series, `{__name__="wait_sum"}`)
}

// TestTemporality counts the data points of metrics whose temporality is not stored.
func TestTemporality(t *testing.T) {
	points := func(n int) string {
		return `"dataPoints":[` + strings.Repeat(`{"asInt":"1","timeUnixNano":"2000000000"},`, n-1) +
			`{"asInt":"1","timeUnixNano":"1"}]`
	}
	body := `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
{"name":"a","sum":{"aggregationTemporality":1,` + points(1) + `}},
{"name":"b","histogram":{"aggregationTemporality":1,` + points(2) + `}},
{"name":"c","exponentialHistogram":{"aggregationTemporality":1,` + points(4) + `}},
{"name":"d","sum":{` + points(8) + `}},{"name":"e","gauge":{` + points(16) + `}},
{"name":"f","sum":{"aggregationTemporality":2,` + points(32) + `}}]}]}]}`
	for _, c := range []struct {
		store bool
		want  int
	}{{false, 15}, {true, 8}} {
		o := DefaultOptions(0)
		o.StoreDelta = c.store
		r := httptest.NewRequest("POST", "/v1/metrics", nil)
		r.Header.Set("Content-Type", jsonType)
		b := &batch.Batch{}
		b.Reset(batch.Bounds{ItemsMax: 1 << 20})
		require.NoError(t, Export(func() Options { return o })(r).Parse([]byte(body), b))
		require.Len(t, b.Rejections(), 1)
		require.Equal(t, c.want, b.Rejections()[0].Count)
		require.Equal(t, ingest.ReasonTemporality, b.Rejections()[0].Reason)
		require.Contains(t, b.Rejections()[0].Detail, `for metric "d"`)
		require.Equal(t, !c.store, strings.Contains(b.Rejections()[0].Detail, `for metric "a"`))
	}
}

// TestScales counts the data points of an exponential histogram from the first one with a scale that native histograms lack.
func TestScales(t *testing.T) {
	body := `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"a","exponentialHistogram":{"aggregationTemporality":2,
"dataPoints":[{"scale":-4,"timeUnixNano":"1000000"},{"scale":-5,"timeUnixNano":"1"},
{"scale":3,"timeUnixNano":"1"}]}},
{"name":"b","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[{"scale":25,"timeUnixNano":"1000000"}]}}]}]}]}`
	r := httptest.NewRequest("POST", "/v1/metrics", nil)
	r.Header.Set("Content-Type", jsonType)
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	require.NoError(t, Export(func() Options { return DefaultOptions(0) })(r).Parse([]byte(body), b))
	require.Equal(t, 2, b.Count())
	require.Len(t, b.Rejections(), 1)
	require.Equal(t, 2, b.Rejections()[0].Count)
	require.Equal(t, ingest.ReasonHistogramInvalid, b.Rejections()[0].Reason)
	require.Contains(t, b.Rejections()[0].Detail, "Scale must be >= -4, was -5")
}

// TestRefuse: errors are a google.rpc.Status in the encoding of the request.
func TestRefuse(t *testing.T) {
	open := func(contentType string) receiver.Request {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", contentType)
		return Export(func() Options { return DefaultOptions(0) })(r)
	}
	for _, contentType := range []string{"", "text/plain", ";"} {
		x := open(contentType)
		require.ErrorIs(t, x.Check(), receiver.ErrContentType)
		require.Equal(t, jsonType, x.Refuse(415, x.Check()).Type)
	}
	response := open("application/json; charset=utf-8").Refuse(400, errText("why"))
	require.Equal(t, jsonType, response.Type)
	require.JSONEq(t, `{"code":3,"message":"why"}`, string(response.Body))
	response = open(protobufType).Refuse(503, errText("wh\xffy"))
	require.Equal(t, protobufType, response.Type)
	var status rpcstatus.Status
	require.NoError(t, proto.Unmarshal(response.Body, &status))
	require.Equal(t, int32(codes.Unavailable), status.Code)
	require.Equal(t, "wh�y", status.Message)
}

// TestWriteError: errors before the body is read have the encoding of the request too.
// TestManyFailures: the detail of a rejection names some metrics and counts the others.
func TestManyFailures(t *testing.T) {
	body := `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[` + strings.Repeat(`{"name":"a"},`, 5000) + `{"name":"b"}]}]}]}`
	x := parseJSON(t, DefaultOptions(0), body, new(batch.Batch))
	require.Equal(t, 8, strings.Count(x.dropped, "\n"), x.dropped)
	require.Contains(t, x.dropped, "\nand 4993 more")
}

// TestAttributesMax: resources, scopes and data points with too many attributes are rejected, and the others are stored.
func TestAttributesMax(t *testing.T) {
	attributes := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"key":"k%d","value":{"stringValue":"v"}}`, i)
		}
		return `"attributes":[` + strings.Join(list, ",") + `]`
	}
	metric := func(kind string, n int) string {
		return `{"name":"m_` + kind + `","` + kind + `":{"aggregationTemporality":2,"dataPoints":[{"asInt":"1",` +
			`"timeUnixNano":"2000000000",` + attributes(n) + `}]}}`
	}
	scope := func(n int, metrics ...string) string {
		return `{"scope":{` + attributes(n) + `},"metrics":[` + strings.Join(metrics, ",") + `]}`
	}
	resource := func(n int, scopes ...string) string {
		return `{"resource":{` + attributes(n) + `},"scopeMetrics":[` + strings.Join(scopes, ",") + `]}`
	}
	o := DefaultOptions(0)
	o.AttributesMax = 5
	var b batch.Batch
	parseJSON(t, o, `{"resourceMetrics":[`+strings.Join([]string{
		resource(6, scope(0, metric("gauge", 0), metric("sum", 0))),
		resource(5, scope(6, metric("gauge", 0)), scope(5, metric("gauge", 5), metric("gauge", 6), metric("sum", 6),
			metric("histogram", 6), metric("exponentialHistogram", 6), metric("summary", 6))),
	}, ",")+`]}`, &b)
	require.Len(t, b.Rejections(), 1)
	require.Equal(t, batch.Rejection{
		Count: 8, Reason: ingest.ReasonTooManyLabels,
		Detail: "a resource has 6 attributes, more than the limit of 5 (otlp.max_attributes)",
	}, b.Rejections()[0])
	require.Equal(t, 1, b.Count(), "the gauge with five attributes")
}

// TestUnnamed: a metric without a name and a data point with an attribute without a key are rejected, and no other data point.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	var b batch.Batch
	const point = `{"timeUnixNano":"2000000000","asInt":"1"}`
	const unnamed = `{"timeUnixNano":"2000000000","asInt":"1","attributes":[{"key":"","value":{"stringValue":"v"}}]}`
	parseJSON(t, DefaultOptions(0), `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[`+point+`,`+point+
		`]}},{"name":"m","gauge":{"dataPoints":[`+unnamed+`,`+point+`]}}]}]}]}`, &b)
	require.Equal(t, []batch.Rejection{
		{Count: 1, Reason: ingest.ReasonEmptyLabelName, Detail: "a data point of metric m has an attribute without a key"},
		{Count: 2, Reason: ingest.ReasonNoMetricName, Detail: "a metric has no name"},
	}, b.Rejections())
	require.Equal(t, 1, b.Count())
}

// TestTimes: a data point without a time is rejected. One far from the others neither costs them nor repeats target_info.
func TestTimes(t *testing.T) {
	t.Parallel()
	parse := func(first string) (*request, *batch.Batch) {
		b := new(batch.Batch)
		return parseJSON(t, DefaultOptions(5*time.Minute), `{"resourceMetrics":[{"resource":{"attributes":[`+
			`{"key":"service.name","value":{"stringValue":"shop"}},{"key":"region","value":{"stringValue":"eu"}}]},`+
			`"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{`+first+`"asInt":"1"},`+
			`{"timeUnixNano":"1795806240000000000","asInt":"2"}]}}]}]}]}`, b), b
	}
	_, b := parse("")
	require.Equal(t, 2, b.Count(), "m and target_info")
	require.Equal(t, []batch.Rejection{
		{Count: 1, Reason: ingest.ReasonBeforeRetention, Detail: "a data point of metric m has no time"},
	}, b.Rejections())
	for _, first := range []string{"1000000", "9223372036854775807"} {
		_, b = parse(`"timeUnixNano":"` + first + `",`)
		require.Empty(t, b.Rejections())
		require.InDelta(t, 2+targetInfoMax, b.Count(), 2)
	}
	_, b = parse(`"timeUnixNano":"1795805640000000000",`)
	require.Equal(t, 2+5, b.Count(), "target_info at each half look-back of ten minutes")
}

func parseJSON(t *testing.T, o Options, body string, b *batch.Batch) *request {
	t.Helper()
	r := httptest.NewRequest("POST", "/v1/metrics", nil)
	r.Header.Set("Content-Type", jsonType)
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	x := Export(func() Options { return o })(r).(*request)
	require.NoError(t, x.Parse([]byte(body), b))
	return x
}

// TestNestedMax: an attribute may be as deep as the limit, wherever it is. A deeper one would overflow the stack.
func TestNestedMax(t *testing.T) {
	t.Parallel()
	fill := func(attributes pcommon.Map, levels int) {
		value := attributes.PutEmpty("deep")
		for n := range levels - 1 {
			if n%2 == 0 {
				value = value.SetEmptySlice().AppendEmpty()
			} else {
				value = value.SetEmptyMap().PutEmpty("in")
			}
		}
		value.SetStr(`]}\"{[`)
	}
	for name, place := range map[string]func(pmetric.ResourceMetrics) pcommon.Map{
		"resource": func(r pmetric.ResourceMetrics) pcommon.Map { return r.Resource().Attributes() },
		"scope":    func(r pmetric.ResourceMetrics) pcommon.Map { return r.ScopeMetrics().At(0).Scope().Attributes() },
		"metadata": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().Metadata()
		},
		"gauge": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptyGauge().DataPoints().AppendEmpty().Attributes()
		},
		"sum": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptySum().DataPoints().AppendEmpty().Exemplars().AppendEmpty().
				FilteredAttributes()
		},
		"histogram": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty().Attributes()
		},
		"exemplar of a histogram": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptyHistogram().DataPoints().AppendEmpty().Exemplars().
				AppendEmpty().FilteredAttributes()
		},
		"exponential histogram": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty().Attributes()
		},
		"exemplar of an exponential histogram": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptyExponentialHistogram().DataPoints().AppendEmpty().
				Exemplars().AppendEmpty().FilteredAttributes()
		},
		"summary": func(r pmetric.ResourceMetrics) pcommon.Map {
			return r.ScopeMetrics().At(0).Metrics().AppendEmpty().SetEmptySummary().DataPoints().AppendEmpty().Attributes()
		},
	} {
		for levels, refused := range map[int]bool{nestedMax: false, nestedMax + 1: true, 2 * nestedMax: true} {
			all := pmetric.NewMetrics()
			r := all.ResourceMetrics().AppendEmpty()
			r.ScopeMetrics().AppendEmpty()
			fill(place(r), levels)
			body, err := pmetricotlp.NewExportRequestFromMetrics(all).MarshalProto()
			require.NoError(t, err)
			_, _, err = parsed(t, protobufType, body)
			require.Equal(t, refused, err != nil, "%s: %d levels: %v", name, levels, err)
			if body, err = pmetricotlp.NewExportRequestFromMetrics(all).MarshalJSON(); levels != nestedMax+1 {
				require.NoError(t, err)
				_, _, err = parsed(t, jsonType, body)
				require.Equal(t, refused, err != nil, "%s: %d levels of JSON: %v", name, levels, err)
			}
		}
	}
	_, _, err := parsed(t, jsonType, []byte(`{"x":`+strings.Repeat("[", jsonDepthMax)))
	require.ErrorContains(t, err, "byte 421: the JSON has more than 416 levels")
}

func TestWriteError(t *testing.T) {
	for contentType, want := range map[string]string{protobufType: protobufType, jsonType: jsonType, "": jsonType} {
		r, w := httptest.NewRequest("POST", "/v1/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Content-Type", contentType)
		WriteError(w, r, 401, "log in")
		require.Equal(t, 401, w.Code)
		require.Equal(t, want, w.Header().Get("Content-Type"))
		var status rpcstatus.Status
		if want == protobufType {
			require.NoError(t, proto.Unmarshal(w.Body.Bytes(), &status))
		} else {
			require.NoError(t, protojson.Unmarshal(w.Body.Bytes(), &status))
		}
		require.Equal(t, int32(codes.Unauthenticated), status.Code)
		require.Equal(t, "log in", status.Message)
	}
}

// TestOptions: the options reach the translation.
func TestOptions(t *testing.T) {
	o := DefaultOptions(5 * time.Minute)
	o.PromoteResourceAttributes, o.KeepIdentifyingResourceAttributes = []string{"region"}, true
	o.TranslationStrategy, o.StoreDelta = otlptranslator.NoTranslation, true
	series, x, err := parsedBy(t, o, jsonType, []byte(document))
	require.NoError(t, err)
	require.Empty(t, x.dropped)
	for _, name := range []string{
		`{__name__="orders", instance="i1", job="shop", kind="a", region="eu"}`,
		`{__name__="delta", instance="i1", job="shop", region="eu"}`,
		`{__name__="target_info", instance="i1", job="shop", region="eu", "service.instance.id"="i1", "service.name"="shop"}`,
	} {
		require.Contains(t, series, name)
	}
}

// TestEachOption sets one option after the other.
func TestEachOption(t *testing.T) {
	const body = `{"resourceMetrics":[{"resource":{"attributes":[
{"key":"region","value":{"stringValue":"eu"}},{"key":"_zone","value":{"stringValue":"z"}},
{"key":"a..b","value":{"stringValue":"c"}}]},
"scopeMetrics":[{"scope":{"name":"lib","version":"1"},"metrics":[
{"name":"temp.x","unit":"s","gauge":{"dataPoints":[{"asInt":"5","timeUnixNano":"2000000000"}]}},
{"name":"lag","histogram":{"aggregationTemporality":2,"dataPoints":[
{"count":"1","sum":1,"bucketCounts":["1","0"],"explicitBounds":[2],"timeUnixNano":"2000000000"}]}}]}]}]}`
	for name, c := range map[string]struct {
		set  func(o *Options)
		want string
	}{
		"default": {func(*Options) {}, `{__name__="temp_x_seconds"}`},
		"promote_all": {
			func(o *Options) { o.PromoteAllResourceAttributes = true },
			`{__name__="temp_x_seconds", a__b="c", key_zone="z", region="eu"}`,
		},
		"ignore": {func(o *Options) {
			o.PromoteAllResourceAttributes, o.IgnoreResourceAttributes = true, []string{"region", "_zone"}
		}, `{__name__="temp_x_seconds", a__b="c"}`},
		"sanitization off": {func(o *Options) {
			o.PromoteResourceAttributes, o.LabelNameUnderscoreSanitization = []string{"_zone"}, false
		}, `{__name__="temp_x_seconds", _zone="z"}`},
		"underscores merged": {func(o *Options) {
			o.PromoteResourceAttributes, o.LabelNamePreserveMultipleUnderscores = []string{"a..b"}, false
		}, `{__name__="temp_x_seconds", a_b="c"}`},
		"scope": {func(o *Options) { o.PromoteScopeMetadata = true },
			`{__name__="temp_x_seconds", otel_scope_name="lib", otel_scope_version="1"}`},
		"without suffixes": {func(o *Options) {
			o.TranslationStrategy = otlptranslator.UnderscoreEscapingWithoutSuffixes
		}, `{__name__="temp_x"}`},
		"UTF-8": {func(o *Options) {
			o.TranslationStrategy = otlptranslator.NoUTF8EscapingWithSuffixes
		}, `{__name__="temp.x_seconds"}`},
		"classic": {func(*Options) {}, `{__name__="lag_count"}`},
		"NHCB":    {func(o *Options) { o.ConvertHistogramsToNHCB = true }, `{__name__="lag"}`},
	} {
		o := DefaultOptions(5 * time.Minute)
		c.set(&o)
		series, _, err := parsedBy(t, o, jsonType, []byte(body))
		require.NoError(t, err)
		require.Contains(t, series, c.want, name)
		require.Equal(t, name == "NHCB", len(series[`{__name__="lag"}`].Histograms) == 1, name)
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// FuzzParse: nothing panics, and every series has label fields.
func FuzzParse(f *testing.F) {
	f.Add([]byte(document), true)
	export := pmetricotlp.NewExportRequest()
	if err := export.UnmarshalJSON([]byte(document)); err != nil {
		f.Fatal(err)
	}
	packed, err := export.MarshalProto()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed, false)
	f.Add([]byte(`{"resourceMetrics":[{"resource":null,"\"a":null,"é":null,"":null,"b":[null,"c"]}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		contentType := protobufType
		if isJSON {
			contentType = jsonType
			require.True(t, !json.Valid(body) || json.Valid(withoutNulls(body)))
		}
		_, x, err := parsed(t, contentType, body)
		if err == nil {
			require.Equal(t, 200, x.Respond(&ingest.Result{}).Status)
		}
	})
}

// BenchmarkParse parses requests of a Collector: counters with five attributes.
func BenchmarkParse(b *testing.B) {
	for _, points := range []int{10, 1000} {
		b.Run(strconv.Itoa(points), func(b *testing.B) {
			export := pmetricotlp.NewExportRequest()
			resource := export.Metrics().ResourceMetrics().AppendEmpty()
			resource.Resource().Attributes().PutStr("service.name", "shop")
			metrics := resource.ScopeMetrics().AppendEmpty().Metrics()
			for n := range points / 10 {
				m := metrics.AppendEmpty()
				m.SetName("http.server.requests." + strconv.Itoa(n))
				sum := m.SetEmptySum()
				sum.SetIsMonotonic(true)
				sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				for i := range 10 {
					p := sum.DataPoints().AppendEmpty()
					p.SetTimestamp(2e9)
					p.SetIntValue(int64(i))
					for _, key := range []string{"http.method", "http.route", "http.status_code", "net.host.name", "server.port"} {
						p.Attributes().PutStr(key, "value-"+strconv.Itoa(i))
					}
				}
			}
			body, err := export.MarshalProto()
			require.NoError(b, err)
			r := httptest.NewRequest("POST", "/v1/metrics", nil)
			r.Header.Set("Content-Type", protobufType)
			open := Export(func() Options { return DefaultOptions(5 * time.Minute) })
			out := &batch.Batch{}
			b.ReportAllocs()
			for b.Loop() {
				out.Reset(batch.Bounds{ItemsMax: 1 << 20})
				if err := open(r).Parse(body, out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(points), "ns/point")
		})
	}
}
