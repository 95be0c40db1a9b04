package promjson

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/jsonutil"
	"github.com/stretchr/testify/require"
)

// stream runs one of Prometheus' own encoding functions.
func stream(write func(*jsoniter.Stream)) string {
	s := jsoniter.NewStream(jsoniter.ConfigCompatibleWithStandardLibrary, nil, 64)
	write(s)
	return string(s.Buffer())
}

func floats(rng *rand.Rand) []float64 {
	list := []float64{
		0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, 1e21, 9.99e20, 1e300, 5e-324, math.MaxFloat64,
		math.NaN(), math.Inf(1), math.Inf(-1), 1.0 / 3, 123456789, 1e15, 1 << 53, 1<<53 - 1, 1<<53 + 2,
		-1 << 53, 1 << 62, 1 << 63, -1 << 63, 1 << 64, math.Float64frombits(0x7ff0000000000002),
	}
	for range 2000 {
		list = append(list, math.Float64frombits(rng.Uint64()), math.Trunc(rng.NormFloat64()*1e6), rng.NormFloat64(),
			math.Trunc(rng.NormFloat64()*1e17))
	}
	return list
}

// TestNumbersAsPrometheus compares values and timestamps with Prometheus' own functions.
func TestNumbersAsPrometheus(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for _, v := range floats(rng) {
		want := stream(func(s *jsoniter.Stream) { jsonutil.MarshalFloat(v, s) })
		require.Equal(t, want, string(appendFloat(nil, v)))
	}
	times := []int64{0, 1, 9, 10, 99, 100, 999, 1000, 1001, 1010, 1100, -1, -999, -1000, -1500, math.MaxInt64}
	for range 2000 {
		times = append(times, rng.Int64N(4e12)-2e12)
	}
	for _, ts := range times {
		want := stream(func(s *jsoniter.Stream) { jsonutil.MarshalTimestamp(ts, s) })
		require.Equal(t, want, string(AppendTimestamp(nil, ts)))
	}
	require.Equal(t, "-9223372036854775.808", string(AppendTimestamp(nil, math.MinInt64)))
}

// TestStringsAsPrometheus compares strings of valid UTF-8 with the library that Prometheus uses, escaped for HTML and
// not.
func TestStringsAsPrometheus(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	alphabet := []rune("ab\"\\/<>&'\x00\x01\x1f\x7f\n\r\t\b\fü€\u2027\u2028\u2029\u202a\ufffd𝄞")
	for range 3000 {
		var b strings.Builder
		b.WriteString("0123456789_long enough to be read by the word"[:rng.IntN(40)])
		for range rng.IntN(12) {
			b.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		text := b.String()
		html, err := jsoniter.ConfigCompatibleWithStandardLibrary.Marshal(text)
		require.NoError(t, err)
		require.Equal(t, string(html), string(AppendString(nil, text)))
		plain := stream(func(s *jsoniter.Stream) { s.WriteString(text) })
		require.Equal(t, plain, string(appendText(nil, text, false)))
	}
}

// FuzzString: for any bytes the result is JSON with the same content.
func FuzzString(f *testing.F) {
	f.Add("", true)
	f.Add("a\xffb\xc3", false)
	f.Add("\u2028<\x00", true)
	f.Fuzz(func(t *testing.T, text string, html bool) {
		encoded := appendText(nil, text, html)
		require.True(t, utf8.Valid(encoded))
		var back string
		require.NoError(t, json.Unmarshal(encoded, &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), collapse(text, back))
	})
}

// collapse makes runs of U+FFFD one, where text is not UTF-8, as ToValidUTF8 does.
func collapse(text, back string) string {
	if utf8.ValidString(text) {
		return back
	}
	var b strings.Builder
	last := rune(-1)
	for _, r := range back {
		if r != utf8.RuneError || last != utf8.RuneError {
			b.WriteRune(r)
		}
		last = r
	}
	return b.String()
}

func testHistogram() *histogram.FloatHistogram {
	return &histogram.FloatHistogram{
		Schema: 1, ZeroThreshold: 0.001, ZeroCount: 12, Count: 44, Sum: 3.14,
		PositiveSpans:   []histogram.Span{{Offset: 0, Length: 2}, {Offset: 1, Length: 2}},
		PositiveBuckets: []float64{1, 0, 5, 6.5},
		NegativeSpans:   []histogram.Span{{Offset: -2, Length: 2}},
		NegativeBuckets: []float64{7, 8},
	}
}

// TestHistogramAsPrometheus covers all four kinds of bucket bounds and empty buckets.
func TestHistogramAsPrometheus(t *testing.T) {
	custom := &histogram.FloatHistogram{
		Schema: histogram.CustomBucketsSchema, Count: 5, Sum: math.NaN(), CustomValues: []float64{1, 2, 4},
		PositiveSpans: []histogram.Span{{Length: 4}}, PositiveBuckets: []float64{1, 2, 0, 2},
	}
	for _, h := range []*histogram.FloatHistogram{testHistogram(), custom, {}} {
		want := stream(func(s *jsoniter.Stream) { jsonutil.MarshalHistogram(h, s) })
		require.Equal(t, want, string(appendHistogram(nil, h)))
	}
	require.Equal(t, "0123", string([]byte{
		boundsCode(false, true), boundsCode(true, false), boundsCode(false, false), boundsCode(true, true),
	}))
}

// encode writes a value as an endpoint does.
func encode(v parser.Value) string {
	var out bytes.Buffer
	j := NewWriter(&out, nil)
	j.Value(v)
	j.Flush()
	return out.String()
}

// TestResultsGolden pins the JSON of every kind of result.
func TestResultsGolden(t *testing.T) {
	metric := labels.FromStrings("__name__", "m", "a", `x"<y>`)
	for _, c := range []struct {
		value parser.Value
		want  string
	}{
		{promql.Vector{}, `[]`},
		{promql.Matrix{}, `[]`},
		{promql.Vector(nil), `[]`},
		{promql.Scalar{T: 1500, V: 1e30}, `[1.5,"1000000000000000000000000000000"]`},
		{promql.Scalar{T: 0, V: math.NaN()}, `[0,"NaN"]`},
		{promql.String{T: 1000, V: "a\n<"}, `[1,"a\n\u003c"]`},
		{
			promql.Vector{{Metric: metric, T: 1234, F: 1e30}, {T: 5, F: math.Inf(-1)}},
			`[{"metric":{"__name__":"m","a":"x\"<y>"},"value":[1.234,"1e+30"]},{"metric":{},"value":[0.005,"-Inf"]}]`,
		},
		{
			promql.Vector{{T: 1000, H: &histogram.FloatHistogram{Count: 1, Sum: 2}}},
			`[{"metric":{},"histogram":[1,{"count":"1","sum":"2"}]}]`,
		},
		{
			promql.Matrix{
				{Metric: metric, Floats: []promql.FPoint{{T: 0, F: 1}, {T: 1000, F: 2}}},
				{
					Floats:     []promql.FPoint{{T: 0, F: 1}},
					Histograms: []promql.HPoint{{T: 7, H: &histogram.FloatHistogram{Count: 3}}},
				},
				{Histograms: []promql.HPoint{{T: 7, H: &histogram.FloatHistogram{}}}},
				{},
			},
			`[{"metric":{"__name__":"m","a":"x\"<y>"},"values":[[0,"1"],[1,"2"]]},` +
				`{"metric":{},"values":[[0,"1"]],"histograms":[[0.007,{"count":"3","sum":"0"}]]},` +
				`{"metric":{},"histograms":[[0.007,{"count":"0","sum":"0"}]]},{"metric":{}}]`,
		},
	} {
		require.Equal(t, c.want, encode(c.value))
	}
}

// TestWriterStops: after the client disconnects, the writer encodes nothing more.
func TestWriterStops(t *testing.T) {
	j := NewWriter(brokenWriter{}, nil)
	items := 0
	j.List(1000, func(int) { items++; j.Raw(strings.Repeat("x", SpillBytes)) })
	require.Equal(t, 1, items)
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

func BenchmarkEncodeLabels(b *testing.B) {
	ls := labels.FromStrings("__name__", "node_cpu_seconds_total", "cpu", "3", "instance", "host-00007.ap-south-1.example.net:9100",
		"job", "node", "mode", "idle", "datacenter", "ap-south-1a", "env", "production")
	var buf []byte
	for b.Loop() {
		buf = appendLabels(buf[:0], ls)
	}
}

func BenchmarkEncodeMatrix(b *testing.B) {
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
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		j := NewWriter(discard{}, buf[:0])
		j.Value(m)
		buf = j.Buffer()
	}
	b.ReportMetric(float64(points)*float64(b.N)/b.Elapsed().Seconds(), "points/s")
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
