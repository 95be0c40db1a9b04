package jsonl

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	jsoniter "github.com/json-iterator/go"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/batch/batchtest"
	"halite/ingest/remotewrite"
)

// parse returns the samples of a body as texts, and the rejections.
func parse(t testing.TB, query, body string) (samples []string, rejected []batch.Rejection) {
	t.Helper()
	x := Import(httptest.NewRequest("POST", "/api/v1/import?"+query, nil))
	require.NoError(t, x.Check())
	b := batchtest.New()
	require.NoError(t, x.Parse([]byte(body), b))
	for b.Next() {
		s := b.Series()
		fields, err := b.AppendFields(nil, s.Key)
		require.NoError(t, err)
		pairs, err := remotewrite.AppendLabels(nil, fields)
		require.NoError(t, err)
		var names []string
		for _, p := range pairs {
			names = append(names, p.Name+"="+p.Value)
		}
		for _, sample := range s.Samples {
			text := fmt.Sprint(sample.Value)
			if value.IsStaleNaN(sample.Value) {
				text = "stale"
			}
			samples = append(samples, fmt.Sprintf("%s %s@%d", strings.Join(names, ","), text, sample.TsMs))
		}
		for _, h := range s.Histograms {
			samples = append(samples, fmt.Sprintf("%s %v%v@%d", strings.Join(names, ","), h.H, h.FH, h.TsMs))
		}
	}
	return samples, b.Rejections()
}

func TestLines(t *testing.T) {
	t.Parallel()
	got, rejected := parse(t, "extra_label=dc=x&extra_label=job=", `
{"metric":{"job":"node","__name__":"up","empty":"","":"no name"},"values":[1,-0.5,1e3],"timestamps":[1,2,3]}
 {"timestamps":[4,5,6,7],"other":{"a":[1]},"values":[null,"NaN","Infinity","-inf"],"metric":{"__name__":"u\u00fc\n"}}`+"\r\n")
	require.Empty(t, rejected)
	require.Equal(t, []string{
		"__name__=up,dc=x 1@1", "__name__=up,dc=x -0.5@2", "__name__=up,dc=x 1000@3",
		"__name__=uü\n,dc=x stale@4", "__name__=uü\n,dc=x NaN@5", "__name__=uü\n,dc=x +Inf@6", "__name__=uü\n,dc=x -Inf@7",
	}, got)
}

// TestWordsWithoutQuotes: vmctl and Python's json module write values that JSON lacks without quotes.
func TestWordsWithoutQuotes(t *testing.T) {
	t.Parallel()
	got, rejected := parse(t, "", `
{"metric":{"__name__":"up","a":"NaN,[Inf]"},"timestamps":[1,2,3,4,5],"values":[NaN,+Inf,-Inf,null,1]}
{"metric": {"__name__": "up", "values": "\\"}, "values": [NaN, Infinity, -Infinity, "NaN"], "timestamps": [1, 2, 3, 4]}`)
	require.Empty(t, rejected)
	const first, second = "__name__=up,a=NaN,[Inf] ", `__name__=up,values=\ `
	require.Equal(t, []string{
		first + "NaN@1", first + "+Inf@2", first + "-Inf@3", first + "stale@4", first + "1@5",
		second + "NaN@1", second + "+Inf@2", second + "-Inf@3", second + "NaN@4",
	}, got)
}

// TestBadLines: errors name a bad line, and the other lines are stored.
func TestBadLines(t *testing.T) {
	t.Parallel()
	const good = `{"metric":{"__name__":"up"},"values":[1],"timestamps":[1]}`
	for _, c := range []struct{ line, fault string }{
		{`up 1`, "not a JSON object"},
		{`{"metric":{"__name__":"up"},"values":[1],"timestamps":[1]`, ""},
		{`{"metric":{"__name__":"up"},"values":[1],"timestamps":[1]} x`, "text after the JSON object"},
		{`{"metric":{},"values":[1],"timestamps":[1]}`, "the metric has no labels"},
		{`{"metric":{"a":1},"values":[1],"timestamps":[1]}`, `the value of label "a" is not a string`},
		{`{"metric":{"a":"b"},"values":[1,2],"timestamps":[1]}`, "2 values and 1 timestamps"},
		{`{"metric":{"a":"b"},"values":[],"timestamps":[]}`, "0 values and 0 timestamps"},
		{`{"metric":{"a":"b"},"values":["x"],"timestamps":[1]}`, "neither a number nor Infinity"},
		{`{"metric":{"a":"b"},"values":[true],"timestamps":[1]}`, "a value is not a number"},
		{`{"metric":{"a":"b"},"values":[NaN,x],"timestamps":[1,2]}`, "a value is not a number"},
		{`{"metric":{"a":"b"},"values":[NaN`, ""},
		{`{"metric":{"a":"b"},"values":[1],"timestamps":[1.5]}`, "a timestamp is not an integer"},
		{`{"metric":{"a":"b"},"values":1,"timestamps":[1]}`, ""},
	} {
		got, rejected := parse(t, "", good+"\n"+c.line+"\n"+good)
		require.Len(t, got, 2, c.line)
		require.Len(t, rejected, 1, c.line)
		require.Equal(t, ingest.ReasonMalformedLine, rejected[0].Reason)
		require.Contains(t, rejected[0].Detail, "line 2: ", c.line)
		require.Contains(t, rejected[0].Detail, c.fault, c.line)
	}
	x := Import(httptest.NewRequest("POST", "/api/v1/import?extra_label=x", nil))
	require.ErrorContains(t, x.Check(), `"x" is not of the form name=value`)
}

// TestPlainLines: the scanner of plain lines reads a line as the JSON library does, or leaves it to the library.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line  string
		plain bool
	}{
		{`{"metric":{"b":"1","__name__":"up","":"x","c":""},"values":[1,-0.5,2e3,1.5E-2],"timestamps":[1,-2,0,4]}`, true},
		{`{"metric":{"__name__":"ü"},"values":[123456789.125],"timestamps":[1700000000000]}`, true},
		{`{"metric":{"a":"b"},"values":[1], "timestamps":[1]}`, false},
		{`{"metric":{"a":"\n"},"values":[1],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[null],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[01],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[1.],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[1e],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[-],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[1e999],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[1],"timestamps":[99999999999999999999]}`, false},
		{`{"metric":{},"values":[1],"timestamps":[1]}`, false},
		{`{"metric":{"a":"b"},"values":[1],"timestamps":[1,2]}`, false},
		{`{"metric":{"a":"b`, false}, {`{"metric":{"a":"b","values":[1`, false},
	} {
		var plain line
		require.Equal(t, c.plain, plain.plain([]byte(c.line)), c.line)
		if c.plain {
			requireSame(t, &plain, c.line)
		}
	}
}

// requireSame compares a plain line with what the JSON library reads.
func requireSame(t *testing.T, plain *line, text string) {
	t.Helper()
	var library line
	require.NoError(t, library.parse(jsoniter.ConfigDefault.BorrowIterator(nil), []byte(text)), text)
	require.Equal(t, library.labels, plain.labels, text)
	require.Equal(t, library.values, plain.values, text)
	require.Equal(t, library.tsMs, plain.tsMs, text)
}

// TestResponse names the first bad lines, and counts the others.
func TestResponse(t *testing.T) {
	t.Parallel()
	var lines receiver.BadLines
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 100})
	for range 12 {
		lines.Next()
		lines.Reject(b, "bad")
	}
	response := lines.Respond(&ingest.Result{Accepted: 3, Rejected: 12, First: "line 1: bad",
		Reasons: map[string]int{ingest.ReasonMalformedLine: 12}})
	require.Equal(t, 400, response.Status)
	require.Contains(t, string(response.Body), "12 of 15 samples rejected (malformed_line: 12); first: line 1: bad\nline 1: bad\n"+
		"line 2: bad\n")
	require.Contains(t, string(response.Body), "line 10: bad\n2 more lines\n")
	require.Equal(t, 204, func() int { a := lines.Respond(&ingest.Result{Accepted: 1}); return a.Status }())
}

// TestEncoder reads back what the encoder writes, with native histograms of both kinds.
func TestEncoder(t *testing.T) {
	t.Parallel()
	var e Encoder
	e.Begin(labels.FromStrings("__name__", "a\"b\\c\n", "ü", "\x01"))
	values := []float64{0, math.Copysign(0, -1), 1, -1.5, 1e21, 5e-324, math.MaxFloat64, 123456789.125, math.Inf(1), math.Inf(-1),
		math.Float64frombits(value.NormalNaN), math.Float64frombits(value.StaleNaN)}
	for n, v := range values {
		e.Float(int64(n), v)
	}
	h := tsdbutil.GenerateTestHistogram(3)
	custom := tsdbutil.GenerateTestCustomBucketsHistogram(2)
	fh := tsdbutil.GenerateTestFloatHistogram(4)
	gauge := tsdbutil.GenerateTestGaugeFloatHistogram(5)
	gauge.Sum = math.Float64frombits(value.StaleNaN)
	require.NoError(t, e.Histogram(100, h, nil))
	require.NoError(t, e.Histogram(101, custom, nil))
	require.NoError(t, e.Histogram(102, nil, fh))
	require.NoError(t, e.Histogram(103, nil, gauge))
	require.Equal(t, len(values)+4, e.Rows())
	body := e.Append(nil)
	require.Empty(t, e.Append(nil))

	x := Import(httptest.NewRequest("POST", "/api/v1/import", nil))
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 100})
	require.NoError(t, x.Parse(body, b))
	require.Empty(t, b.Rejections())
	require.True(t, b.Next())
	require.Equal(t, string(remotewrite.AppendFields(nil, labels.FromStrings("__name__", "a\"b\\c\n", "ü", "\x01"))),
		string(b.Series().Key))
	for n, s := range b.Series().Samples {
		require.Equal(t, math.Float64bits(values[n]), math.Float64bits(s.Value), "%v", values[n])
	}
	require.True(t, b.Next())
	got := b.Series().Histograms
	require.Len(t, got, 4)
	requireEqual(t, h, got[0].H)
	requireEqual(t, custom, got[1].H)
	require.True(t, fh.Equals(got[2].FH))
	require.True(t, gauge.Equals(got[3].FH))
	require.True(t, value.IsStaleNaN(got[3].FH.Sum))
	require.Equal(t, histogram.GaugeType, got[3].FH.CounterResetHint)
	require.False(t, b.Next())
}

func requireEqual(t *testing.T, want, got *histogram.Histogram) {
	t.Helper()
	require.True(t, want.Equals(got), "%v %v", want, got)
	require.NoError(t, got.Validate())
}

// TestKeys: lines with the labels as written in the same way have the same key, unless extra labels differ.
func TestKeys(t *testing.T) {
	key := func(query, line string) string {
		b := batchtest.New()
		require.NoError(t, Import(httptest.NewRequest("POST", "/api/v1/import?"+query, nil)).Parse([]byte(line), b))
		require.True(t, b.Next())
		return string(b.Series().Key)
	}
	const first = `{"metric":{"__name__":"up","a":"1"},"values":[1],"timestamps":[1]}`
	const second = `{"metric":{"__name__":"up","a":"1"},"values":[2,3],"timestamps":[2,3]}`
	require.Equal(t, key("", first), key("", second))
	require.NotEqual(t, key("", first), key("extra_label=a=2", first))
	require.NotEqual(t, key("extra_label=a=1", first), key("extra_label=a=2", first))
}

// FuzzParse: for any body, each line is stored or rejected, and stored samples survive a round trip.
func FuzzParse(f *testing.F) {
	f.Add(`{"metric":{"__name__":"up","job":"node"},"values":[1,0.5,null,"NaN"],"timestamps":[1,2,3,4]}` + "\nx")
	f.Add(`{"metric":{"__name__":"up"},"values": [NaN, -Inf],"timestamps":[1,2]}`)
	f.Add(`{"metric":{"__name__":"h"},"histograms":[{"schema":0,"sum":1,"count":2,"positive_spans":[[0,1]],"positive_deltas":[2],` +
		`"reset_hint":0,"zero_threshold":0}],"timestamps":[1]}`)
	f.Fuzz(func(t *testing.T, body string) {
		for text := range strings.SplitSeq(body, "\n") {
			if plain := (line{}); plain.plain([]byte(text)) {
				requireSame(t, &plain, text)
			}
		}
		x, _ := Import(httptest.NewRequest("POST", "/api/v1/import", nil)).(*request)
		b := &batch.Batch{}
		b.Reset(batch.Bounds{ItemsMax: 1 << 16})
		if err := x.Parse([]byte(body), b); err != nil {
			require.ErrorIs(t, err, batch.ErrTooLarge)
			return
		}
		var e Encoder
		for b.Next() {
			s := b.Series()
			fields, err := b.AppendFields(nil, s.Key)
			require.NoError(t, err)
			require.NoError(t, remotewrite.CheckLabels(fields))
			e.Begin(labels.FromStrings("__name__", "again"))
			for _, sample := range s.Samples {
				e.Float(sample.TsMs, sample.Value)
			}
			for _, h := range s.Histograms {
				require.NoError(t, e.Histogram(h.TsMs, h.H, h.FH))
			}
			again := &batch.Batch{}
			again.Reset(batch.Bounds{ItemsMax: 1 << 16})
			require.NoError(t, x.Parse(e.Append(nil), again))
			require.Equal(t, len(s.Samples)+len(s.Histograms), again.Count())
		}
	})
}

// BenchmarkParse reads lines of 240 samples.
func BenchmarkParse(b *testing.B) {
	var e Encoder
	e.Begin(labels.FromStrings("__name__", "node_cpu_seconds_total", "instance", "host-1:9100", "job", "node", "mode", "idle"))
	for n := range 240 {
		e.Float(1_700_000_000_000+int64(n)*15_000, float64(n)*1.37)
	}
	body := e.Append(nil)
	x, _ := Import(httptest.NewRequest("POST", "/api/v1/import", nil)).(*request)
	var into batch.Batch
	for b.Loop() {
		into.Reset(batch.Bounds{ItemsMax: 1 << 20})
		require.NoError(b, x.Parse(body, &into))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/240, "ns/sample")
}
