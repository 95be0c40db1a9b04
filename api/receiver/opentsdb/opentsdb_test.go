package opentsdb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/batch/batchtest"
)

// samples returns the samples of a batch as texts.
func samples(t testing.TB, b *batch.Batch) (out []string) {
	t.Helper()
	for b.Next() {
		s := b.Series()
		ls := batchtest.Labels(t, b)
		for _, at := range s.Samples {
			out = append(out, fmt.Sprintf("%s %v@%d", ls, at.Value, at.TsMs))
		}
		for _, at := range s.Histograms {
			require.NoError(t, at.H.Validate())
			out = append(out, fmt.Sprintf("%s %s@%d", ls, at.H, at.TsMs))
		}
	}
	return out
}

// parsedLines parses lines of telnet.
func parsedLines(t testing.TB, text string) ([]string, *batch.Batch, *Lines) {
	t.Helper()
	b := batchtest.New()
	l := NewLines(DefaultNames(), 4096)
	require.NoError(t, l.Parse([]byte(text), b))
	return samples(t, b), b, l
}

func TestLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"put sys.cpu 1356998400 42 host=a cpu=0": `{__name__="sys.cpu", cpu="0", host="a"} 42@1356998400000`,
		"put m 1356998400500 -4.25e1 a=b\r":      `{__name__="m", a="b"} -42.5@1356998400500`,
		"put m 1356998400.5 1 a=b":               `{__name__="m", a="b"} 1@1356998400500`,
		"put m 1356998400.123 1 a=b":             `{__name__="m", a="b"} 1@1356998400123`,
		"put m 1356998400. 1 a=b":                `{__name__="m", a="b"} 1@1356998400000`,
		"put m 1 +7  a=b   c=d ":                 `{__name__="m", a="b", c="d"} 7@1000`,
		"put m 1 1 a=b a=b":                      `{__name__="m", a="b"} 1@1000`,
		"put größe/a-b_c.d 1 .5 straße=ö":        `{__name__="größe/a-b_c.d", "straße"="ö"} 0.5@1000`,
		"put m 4294967295 1 a=b":                 `{__name__="m", a="b"} 1@4294967295000`,
		"put m 4294967296 1 a=b":                 `{__name__="m", a="b"} 1@4294967296`,
		"put m 1 9007199254740993 a=b":           `{__name__="m", a="b"} 9.007199254740992e+15@1000`,
		"put m 1 9223372036854775807 a=b":        `{__name__="m", a="b"} 9.223372036854776e+18@1000`,
		"put m 1 -9223372036854775808 a=b":       `{__name__="m", a="b"} -9.223372036854776e+18@1000`,
		"rollup 1h-sum m 1356998400 6 a=b": `{__name__="m", _rollup_aggregator="SUM", ` +
			`_rollup_interval="1h", a="b"} 6@1356998400000`,
		"rollup 1h-sum:max m 1356998400 6 a=b": `{__name__="m", _aggregate="MAX", ` +
			`_rollup_aggregator="SUM", _rollup_interval="1h", a="b"} 6@1356998400000`,
		"rollup zimsum m 1356998400 6 _aggregate=zimsum": `{__name__="m", _aggregate="ZIMSUM"} 6@1356998400000`,
		"histogram m 1 0,1.75=12:1.75,3.5=16:u=1:o=2 a=b": `{__name__="m", a="b"} ` +
			`{count:31, sum:NaN, [-Inf,0]:1, (0,1.75]:12, (1.75,3.5]:16, (3.5,+Inf]:2}@1000`,
		"histogram m 1 10,20=5:0,1=7 a=b": `{__name__="m", a="b"} {count:12, sum:NaN, (0,1]:7, (10,20]:5}@1000`,
	} {
		got, b, l := parsedLines(t, line+"\n")
		require.Empty(t, string(l.Errors), line)
		require.Equal(t, want, strings.Join(got, "|"), line)
		rounded := strings.Contains(line, "9007199254740993") || strings.Contains(line, "9223372036854775807")
		require.Equal(t, rounded, len(b.Rejections()) == 1 && b.Rejections()[0].Reason == ingest.ReasonRounded, line)
	}
}

func TestBadLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"put":                         "put: illegal argument: not enough arguments (need least 4, got 0)",
		"put m 1 1":                   "put: illegal argument: not enough arguments (need least 4, got 3)",
		"put  1 1 a=b":                "put: illegal argument: empty metric name",
		"put m  1 a=b":                "put: invalid value: Empty string",
		"put m 1 1 ":                  "put: illegal argument: Need at least one tag (metric=m, tags={})",
		"put m 1  a=b":                "put: illegal argument: empty value",
		"put m 0 1 a=b":               "put: illegal argument: invalid timestamp: 0",
		"put m -5 1 a=b":              "put: illegal argument: invalid timestamp: -5",
		"put m 10000000000000 1 a=b":  "put: illegal argument: bad timestamp=10000000000000",
		"put m 1356998400.1234 1 a=b": "put: illegal argument: invalid timestamp: 1356998400.1234",
		"put m 1x 1 a=b":              "put: invalid value: Invalid character 'x' in 1x",
		"put m 1 NaN a=b":             "put: invalid value: Invalid character 'N' in NaN",
		"put m 1 Infinity a=b":        "put: invalid value: Invalid character 'I' in Infinity",
		"put m 1 1e999 a=b":           "put: illegal argument: value is NaN or Infinite: Infinity for metric=m timestamp=1",
		"put m 1 1.2.3 a=b":           `put: invalid value: For input string: "1.2.3"`,
		"put m 1000000000001 -1e999 a=b": "put: illegal argument: value is NaN or Infinite: -Infinity for metric=m " +
			"timestamp=1000000000001",
		"put m 1 - a=b":                     "put: invalid value: Just a sign, no value: -",
		"put m 1 +- a=b":                    "put: invalid value: Invalid character '-' in +-",
		"put m 1 00000000000000000001 a=b":  "put: invalid value: Value too long: 00000000000000000001",
		"put m 1 -99999999999999999999 a=b": "put: invalid value: Value too long: -99999999999999999999",
		"put m 1 not-a-digit-of-many-x a=b": "put: invalid value: Value too long: not-a-digit-of-many-x",
		"put m 1 922337203685477580x a=b":   "put: invalid value: Invalid character 'x' in 922337203685477580x",
		"put m 1 9223372036854775808 a=b":   "put: invalid value: Overflow in 9223372036854775808",
		"put m 1 1 a":                       "put: illegal argument: invalid tag: a",
		"put m 1 1 a=":                      "put: illegal argument: invalid tag: a=",
		"put m 1 1 =b":                      "put: illegal argument: invalid tag: =b",
		"put m 1 1 a=b=c":                   "put: illegal argument: invalid tag: a=b=c",
		"put m 1 1 a=b a=c":                 "put: illegal argument: duplicate tag: a=c, tags={a=b}",
		"put m! 1 1 a=b":                    `put: illegal argument: Invalid metric name ("m!"): illegal character: !`,
		"put m 1 1 a:=b": `put: illegal argument: Invalid tag name with value [b] ` +
			`("a:"): illegal character: :`,
		"put m 1 1 a=b\xff": "put: illegal argument: Invalid tag value with key [a] (\"b?\"): " +
			"illegal character: \uFFFD",
		"rollup 1h-sum m 1 1":              "rollup: illegal argument: not enough arguments (need least 7, got 4)",
		"rollup x-sum m 1 1 a=b":           "rollup: No such rollup: No rollup interval configured for: x",
		"rollup 1h-avg m 1 1 a=b":          "rollup: illegal argument: Derived rollup aggregations are not allowed AVG",
		"rollup 1h-nope m 1 1 a=b":         "rollup: illegal argument: Invalid rollup aggregator NOPE",
		"rollup 1h-sum m 4294967296 1 a=b": "rollup: illegal argument: bad timestamp=4294967296",
		"histogram m 1 0,1 a=b":            "histogram: illegal argument: Improperly formatted bucket: 0,1",
		"histogram m 1 0=1 a=b":            "histogram: illegal argument: Improperly formatted bounds: 0=1",
		"histogram m 1 1,0=1 a=b":          "histogram: illegal argument: Improperly formatted bounds: 1,0",
		"histogram m 1 0,2=1:1,3=1 a=b":    "histogram: illegal argument: buckets overlap at 1,3",
		"rollup 1h-sum m 1 1 _aggregate=MAX": "rollup: illegal argument: Given tag value for _aggregate of MAX did not match " +
			"the group by aggregator of null",
		"histogram m 1 0 AAA= a=b": "histogram: illegal argument: " + errBinary.Error(),
		"put m 1 1 a=" + strings.Repeat("b", 5000):// too long
		"put: illegal argument: the line has 5008 bytes, more than the limit of 4096",
	} {
		got, b, l := parsedLines(t, "put ok 1 1 a=b\n"+line+"\nput ok 1 2 a=b\n")
		require.Len(t, got, 2, line)
		require.Equal(t, want+"\n", string(l.Errors), line)
		require.Equal(t, 1, l.Bad, line)
		require.Equal(t, 1, b.Rejections()[0].Count, line)
	}
}

// TestLinesStop: another command, and an incomplete line, stay unread.
func TestLinesStop(t *testing.T) {
	t.Parallel()
	got, _, l := parsedLines(t, "put a 1 1 a=b\nversion\nput b 1 1 a=b\n")
	require.Len(t, got, 1)
	require.Equal(t, len("put a 1 1 a=b\n"), l.Used)
	require.False(t, HoldsData([]byte("version\n")))
	require.False(t, HoldsData([]byte("putter 1\n")))
	require.True(t, HoldsData([]byte("histogram\n")))
	_, _, l = parsedLines(t, "put a 1 1 a=b\nput b")
	require.Equal(t, len("put a 1 1 a=b\n"), l.Used)
}

// parsedBody parses a body.
func parsedBody(t testing.TB, open receiver.Open, query, body string) ([]string, *batch.Batch, *request, error) {
	t.Helper()
	x, ok := open(httptest.NewRequest(http.MethodPost, "/api/put?"+query, nil)).(*request)
	require.True(t, ok)
	require.NoError(t, x.Check())
	b := batchtest.New()
	err := x.Parse([]byte(body), b)
	return samples(t, b), b, x, err
}

func TestBodies(t *testing.T) {
	t.Parallel()
	names := DefaultNames()
	for _, c := range []struct {
		open       receiver.Open
		body, want string
	}{
		{Put(names), `{"metric":"sys.cpu","timestamp":1346846400,"value":18,"tags":{"host":"web01","dc":"lga"}}`,
			`{__name__="sys.cpu", dc="lga", host="web01"} 18@1346846400000`},
		{Put(names), ` [ {"tags" : {"a":"b"}, "value":"4.5e3","timestamp":"1346846400123", "x":[{"y":null}],"metric":"m" } ] `,
			`{__name__="m", a="b"} 4500@1346846400123`},
		{Put(names), `[{"metric":"m","timestamp":1,"value":1,"tags":{"a":7,"a":"\u00e4"}},{"metric":"n",` +
			`"timestamp":1.9,"value":2.5,"tags":{"a":"b"}}]`,
			`{__name__="m", a="ä"} 1@1000|{__name__="n", a="b"} 2.5@1000`},
		{Rollup(names), `{"metric":"m","timestamp":1346846400,"value":18,"tags":{"a":"b"},"interval":"1h","aggregator":"SUM"}`,
			`{__name__="m", _rollup_aggregator="SUM", _rollup_interval="1h", a="b"} 18@1346846400000`},
		{Rollup(names), `{"metric":"m","timestamp":1346846400,"value":18,"tags":{"a":"b"},"groupByAggregator":"count"}`,
			`{__name__="m", _aggregate="COUNT", a="b"} 18@1346846400000`},
		{Histogram(names), `{"metric":"m","timestamp":1,"tags":{"a":"b"},"buckets":{"0,1.75":12,"1.75,3.5":16},"underflow":1}`,
			`{__name__="m", a="b"} {count:29, sum:NaN, [-Inf,0]:1, (0,1.75]:12, (1.75,3.5]:16}@1000`},
	} {
		got, b, _, err := parsedBody(t, c.open, "", c.body)
		require.NoError(t, err, c.body)
		require.Empty(t, b.Rejections(), c.body)
		require.Equal(t, c.want, strings.Join(got, "|"), c.body)
	}
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	names := DefaultNames()
	for body, want := range map[string]string{
		"":              "Missing request content",
		"  ":            "Missing request content",
		"7":             "The JSON must start as an object or an array",
		"[]":            "No datapoints found in content",
		"[{]":           `Unable to parse the given JSON: byte 2: ']' instead of '"'`,
		"{}}":           "Unable to parse the given JSON: byte 2: more text after the data points",
		`{"metric":"`:   "Unable to parse the given JSON: byte 11: unexpected end in a string",
		`{"value":[1]}`: "Unable to parse the given JSON: byte 9: a string or number is required here",
		`{"value":NaN}`: `Unable to parse the given JSON: byte 12: "NaN" is not a value`,
	} {
		_, _, x, err := parsedBody(t, Put(names), "", body)
		var own *Error
		require.ErrorAs(t, err, &own, body)
		require.Equal(t, want, own.Error(), body)
		a := x.Refuse(400, &ingest.BadRequestError{Err: err})
		require.Contains(t, string(a.Body), `{"error":{"code":400,"message":"`+own.Message+`"`)
	}
	for point, want := range map[string]string{
		`null`: "Unexpected null datapoint encountered in set.",
		`{"timestamp":1,"value":1,"tags":{"a":"b"}}`:                 "Metric name was empty",
		`{"metric":"m","value":1,"tags":{"a":"b"}}`:                  "Invalid timestamp",
		`{"metric":"m","timestamp":-1,"value":1,"tags":{"a":"b"}}`:   "Invalid timestamp",
		`{"metric":"m","timestamp":1,"tags":{"a":"b"}}`:              "Empty value",
		`{"metric":"m","timestamp":1,"value":"x","tags":{"a":"b"}}`:  "Unable to parse value to a number",
		`{"metric":"m","timestamp":1,"value":true,"tags":{"a":"b"}}`: "Unable to parse value to a number",
		`{"metric":"m","timestamp":1,"value":1}`:                     "Missing tags",
		`{"metric":"m","timestamp":1,"value":1,"tags":null}`:         "Missing tags",
		`{"metric":"m","timestamp":1,"value":1,"tags":{}}`:           "Missing tags",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":""}}`:     "Invalid tag value with key [a]: empty string",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":null}}`:   "Invalid tag value with key [a]: null",
		`{"metric":"m","timestamp":1,"value":-1e999,"tags":{"a":"b"}}` +
			``: "value is NaN or Infinite: -Infinity for metric=m timestamp=1",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b c"}}`: `Invalid tag value with key [a] ` +
			`("b c"): illegal character:  `,
		`{"metric":"m\u0000","timestamp":1,"value":1,"tags":{"a":"b"}}` +
			``: "Invalid metric name (\"m\x00\"): illegal character: \x00",
		`{"metric":"m","timestamp":99999999999999,"value":1,"tags":{"a":"b"}}`: "bad timestamp=99999999999999",
	} {
		got, b, x, err := parsedBody(t, Put(names), "details", `[`+point+`,{"metric":"ok","timestamp":1,"value":1,`+
			`"tags":{"a":"b"}}]`)
		require.NoError(t, err, point)
		require.Len(t, got, 1, point)
		require.Len(t, x.bad, 1, point)
		require.Equal(t, want, x.bad[0].Error, point)
		require.Equal(t, 1, b.Rejections()[0].Count)
	}
	for point, want := range map[string]string{
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"}}`:                 "Missing interval",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"},"interval":"1h"}`: "Missing aggregator",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"},"interval":"1h","aggregator":"dev"}` +
			``: "Derived rollup aggregations are not allowed DEV",
		`{"metric":"m","timestamp":1,"value":1,"tags":{"_aggregate":"MAX"},"groupByAggregator":"sum"}` +
			``: "Given tag value for _aggregate of MAX did not match the group by aggregator of SUM",
	} {
		_, _, x, err := parsedBody(t, Rollup(names), "details", point)
		require.NoError(t, err, point)
		require.Len(t, x.bad, 1, point)
		require.Equal(t, want, x.bad[0].Error, point)
	}
}

// TestShownPoints: a response repeats a bad data point as the request has it, without fields that are missing there.
func TestShownPoints(t *testing.T) {
	t.Parallel()
	names := DefaultNames()
	for _, c := range []struct {
		open  receiver.Open
		point string
		want  string
	}{
		{Put(names), `{}`, `{"timestamp":0}`},
		{Put(names), `{"metric":"","timestamp":"x","value":"","tags":{}}`, `{"metric":"","timestamp":0,"value":"","tags":{}}`},
		{Put(names), `{"metric":null,"timestamp":1.5,"value":null,"tags":null}`, `{"timestamp":1}`},
		{Put(names), `null`, `null`},
		{
			Rollup(names), `{"metric":"m","timestamp":1,"value":"x","tags":{"a":"b"},"interval":"1h","aggregator":"sum"}`,
			`{"metric":"m","timestamp":1,"value":"x","tags":{"a":"b"},"interval":"1h","aggregator":"SUM"}`,
		},
	} {
		_, _, x, err := parsedBody(t, c.open, "details", "["+c.point+"]")
		require.NoError(t, err, c.point)
		require.Len(t, x.bad, 1, c.point)
		a := x.Respond(&ingest.Result{Rejected: 1})
		require.JSONEq(t, `{"failed":1,"success":0,"errors":[{"datapoint":`+c.want+`,"error":"`+x.bad[0].Error+`"}]}`,
			string(a.Body))
	}
}

// TestBadHistograms: a histogram with bad buckets does not affect the others.
func TestBadHistograms(t *testing.T) {
	t.Parallel()
	for buckets, want := range map[string]string{
		`{"x":1}`:                  "Unable to parse bucket bounds: x",
		`{"0,1,2":1}`:              "Unable to parse bucket bounds: 0,1,2",
		`{"a,1":1,"x":1}`:          `For input string: "a"`,
		`{"0,1":"x"}`:              "Invalid character 'x' in x",
		`{"0,1":1,"1,2":-1}`:       "negative count of a bucket: -1",
		`{"0,1":1},"over":1`:       "",
		`{"0,1":1},"overflow":"x"`: "Invalid character 'x' in x",
	} {
		got, _, x, err := parsedBody(t, Histogram(DefaultNames()), "details",
			`[{"metric":"m","timestamp":1,"tags":{"a":"b"},"buckets":`+buckets+
				`},{"metric":"ok","timestamp":1,"tags":{"a":"b"},"buckets":{"0,1":1}}]`)
		require.NoError(t, err, buckets)
		if want == "" {
			require.Len(t, got, 2, buckets)
			continue
		}
		require.Len(t, got, 1, buckets)
		require.Len(t, x.bad, 1, buckets)
		require.Equal(t, want, x.bad[0].Error, buckets)
	}
}

func TestResponses(t *testing.T) {
	t.Parallel()
	const body = `[{"metric":"ok","timestamp":1,"value":1,"tags":{"a":"b"}},{"metric":"bad","timestamp":1,` +
		`"value":"x","tags":{"a":"b"}}]`
	open := Put(DefaultNames())
	stored := &ingest.Result{Accepted: 1, Rejected: 1, Reasons: map[string]int{ingest.ReasonNotNumeric: 1}}
	_, _, x, err := parsedBody(t, open, "", body)
	require.NoError(t, err)
	a := x.Respond(stored)
	require.Equal(t, 400, a.Status)
	require.Contains(t, string(a.Body), `{"error":{"code":400,"message":"One or more data points had errors"`)
	require.Equal(t, 204, x.Respond(&ingest.Result{Accepted: 2}).Status)

	_, _, x, err = parsedBody(t, open, "summary", body)
	require.NoError(t, err)
	a = x.Respond(stored)
	require.Equal(t, 400, a.Status)
	require.JSONEq(t, `{"failed":1,"success":1}`, string(a.Body))
	a = x.Respond(&ingest.Result{Accepted: 1, Histograms: 1})
	require.Equal(t, 200, a.Status)
	require.JSONEq(t, `{"failed":0,"success":2}`, string(a.Body))

	_, _, x, err = parsedBody(t, open, "details&sync&sync_timeout=60000", body)
	require.NoError(t, err)
	stored.Rejected, stored.Reasons[ingest.ReasonTooFarAhead] = 2, 1
	require.JSONEq(t, `{"failed":2,"success":1,"timeouts":0,"errors":[{"datapoint":{"metric":"bad","timestamp":1,"value":"x",`+
		`"tags":{"a":"b"}},"error":"Unable to parse value to a number"},{"error":"1 data points are not stored: `+
		`too_far_ahead: 1"}]}`,
		string(x.Respond(stored).Body))
	require.Error(t, open(httptest.NewRequest(http.MethodPost, "/api/put?sync_timeout=x", nil)).Check())
	require.JSONEq(t, `{"error":{"code":503,"message":"no room"}}`, string(x.Refuse(503, errors.New("no room")).Body))
}

// TestSharedKeys: a line and a body give a series one key, so the registry holds it once.
func TestSharedKeys(t *testing.T) {
	t.Parallel()
	keyOf := func(b *batch.Batch) string {
		b.Rewind(0)
		require.True(t, b.Next())
		return string(b.Series().Key)
	}
	_, lines, _ := parsedLines(t, "put m.n 1 1 a=b c=d\n")
	_, body, _, err := parsedBody(t, Put(DefaultNames()), "", `{"metric":"m.n","timestamp":1,"value":1,`+
		`"tags":{"a":"b","c":"d"}}`)
	require.NoError(t, err)
	require.Equal(t, keyOf(lines), keyOf(body))
}

// TestBinaryHistogram: the bytes follow the format of OpenTSDB's SimpleHistogram.
func TestBinaryHistogram(t *testing.T) {
	t.Parallel()
	raw := []byte{0, 2, 0, 0, 0, 0, 0x3f, 0x80, 0, 0, 0x05, 0x3f, 0x80, 0, 0, 0x40, 0x06, 0x66, 0x66, 0xac, 0x02, 0x01, 0x80, 0x01}
	var h buckets
	require.NoError(t, h.decode([]byte(base64.StdEncoding.EncodeToString(raw))))
	require.Equal(t, buckets{list: []bucket{{0, 1, 5}, {1, 2.1, 300}}, under: 1, over: 128}, h)
	for end := range raw {
		require.Error(t, new(buckets).decode([]byte(base64.StdEncoding.EncodeToString(raw[:end]))), end)
	}
	native, err := h.native()
	require.NoError(t, err)
	require.NoError(t, native.Validate())
	require.Equal(t, histogram.GaugeType, native.CounterResetHint)
	require.Equal(t, uint64(434), native.Count)
	huge := buckets{list: []bucket{{0, 1, math.MaxInt64}}, over: 1}
	_, err = huge.native()
	require.ErrorContains(t, err, "overflow")
}

func TestSpecialCharacters(t *testing.T) {
	t.Parallel()
	names, err := NewNames(":@€", 2)
	require.NoError(t, err)
	b := &batch.Batch{}
	b.Reset(batch.Bounds{ItemsMax: 10})
	l := NewLines(names, 100)
	require.NoError(t, l.Parse([]byte("put a:b 1 1 c@=€\nput m 1 1 a=1 b=2 c=3\n"), b))
	require.Equal(t, []string{`{__name__="a:b", "c@"="€"} 1@1000`}, samples(t, b))
	require.Equal(t, "put: illegal argument: Too many tags: more than 2\n", string(l.Errors))
	for _, bad := range []string{" ", "=", "\n"} {
		_, err := NewNames(bad, 1)
		require.Error(t, err, bad)
	}
}

// FuzzLines: nothing panics, each line is stored or answered, and labels of a key parse.
func FuzzLines(f *testing.F) {
	f.Add("put sys.cpu 1356998400 42 host=a cpu=0\nrollup 1h-sum:max m 1 6 a=b\nhistogram m 1 0,1.75=12:u=1 a=b\nversion\n")
	f.Add("put m 1.5 -1e5 a=b a=b\nhistogram m 1 0 AAIAAAAAP4AAAAU= a=b\r\nput ")
	f.Fuzz(func(t *testing.T, text string) {
		got, b, l := parsedLines(t, text)
		lines := strings.Count(text[:l.Used], "\n")
		require.Equal(t, lines, len(got)+l.Bad)
		require.Equal(t, l.Bad, bytes.Count(l.Errors, []byte{'\n'})+l.ErrorsLeft)
		require.LessOrEqual(t, len(b.Rejections()), 3)
	})
}

// TestText reads a file of OpenTSDB in two pieces, and names bad lines by their numbers.
func TestText(t *testing.T) {
	x, b := Text(DefaultNames()), new(batch.Batch)
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	require.NoError(t, x.Check())
	require.NoError(t, x.Parse([]byte("sys.cpu 1356998400 42 host=a\n\nput sys.cpu 1356998400500 1.5 cpu=0 host=a\r\n"), b))
	bad := "put 1356998401 7 host=a\nsys.cpu x 1 host=a\nsys.cpu 1356998400 1\nsys.cpu 1356998400 NaN a=b"
	require.NoError(t, x.Parse([]byte(bad), b))
	var got []string
	for b.Rewind(0); b.Next(); {
		s := b.Series()
		for _, p := range s.Samples {
			got = append(got, fmt.Sprint(p.TsMs, " ", p.Value))
		}
	}
	require.Equal(t, []string{"1356998400000 42", "1356998400500 1.5", "1356998401000 7"}, got)
	require.Equal(t, 3, b.Rejections()[0].Count)
	require.Contains(t, b.Rejections()[0].Detail, "line 5: ")
	a := x.Respond(&ingest.Result{Accepted: 3, Rejected: 3})
	require.Contains(t, string(a.Body), "line 6: ")
}

// FuzzText: nothing panics, and each line is stored or counted.
func FuzzText(f *testing.F) {
	f.Add("sys.cpu 1356998400 42 host=a\n\nput m 1.5 -1e5 a=b a=b\r\nput 1 2 a=b\nm 1 1")
	f.Fuzz(func(t *testing.T, body string) {
		x, b := Text(DefaultNames()), new(batch.Batch)
		b.Reset(batch.Bounds{ItemsMax: 1 << 20})
		require.NoError(t, x.Parse([]byte(body), b))
		lines, done := 0, 0
		for line := range strings.SplitSeq(body, "\n") {
			if len(bytes.TrimSpace([]byte(line))) > 0 {
				lines++
			}
		}
		for b.Rewind(0); b.Next(); {
			done += len(b.Series().Samples)
		}
		for _, r := range b.Rejections() {
			if r.Reason == ingest.ReasonMalformedLine {
				done += r.Count
			}
		}
		require.Equal(t, lines, done)
	})
}

// FuzzBody: nothing panics, and a body that parses is valid JSON for encoding/json, too.
func FuzzBody(f *testing.F) {
	f.Add(0, `[{"metric":"m","timestamp":1,"value":"1.5","tags":{"a":"\u00e4"},"x":[{}]},null]`)
	f.Add(1, `{"metric":"m","timestamp":1,"value":1,"tags":{"a":"b"},"interval":"1h","aggregator":"SUM"}`)
	f.Add(2, `{"metric":"m","timestamp":1,"tags":{"a":"b"},"buckets":{"0,1.75":12},"overflow":1,"id":0,"value":"AAIA"}`)
	f.Fuzz(func(t *testing.T, which int, body string) {
		kinds := []receiver.Open{Put(DefaultNames()), Rollup(DefaultNames()), Histogram(DefaultNames())}
		got, b, x, err := parsedBody(t, kinds[(which%3+3)%3], "details", body)
		var own *Error
		if err != nil {
			require.ErrorAs(t, err, &own)
			return
		}
		require.Positive(t, len(got)+x.count)
		require.LessOrEqual(t, len(b.Rejections()), 3)
		a := x.Respond(&ingest.Result{Accepted: len(got), Rejected: x.count})
		require.NotEmpty(t, a.Body)
	})
}

func BenchmarkLines(b *testing.B) {
	var text bytes.Buffer
	for n := range 2000 {
		fmt.Fprintf(&text, "put sys.cpu.user %d %d.5 host=web%04d.example.com cpu=%d dc=lga\n", 1700000000+n, n, n, n%8)
	}
	l := NewLines(DefaultNames(), 4096)
	var batched batch.Batch
	b.ReportAllocs()
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		batched.Reset(batch.Bounds{ItemsMax: 1 << 20})
		if err := l.Parse(text.Bytes(), &batched); err != nil || l.Bad > 0 {
			b.Fatal(err, string(l.Errors))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/line")
}

func BenchmarkBody(b *testing.B) {
	var text bytes.Buffer
	text.WriteByte('[')
	for n := range 2000 {
		fmt.Fprintf(&text, `{"metric":"sys.cpu.user","timestamp":%d,"value":%d.5,`+
			`"tags":{"host":"web%04d.example.com","cpu":"%d","dc":"lga"}},`,
			1700000000+n, n, n, n%8)
	}
	text.Bytes()[text.Len()-1] = ']'
	open := Put(DefaultNames())
	var batched batch.Batch
	b.ReportAllocs()
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		batched.Reset(batch.Bounds{ItemsMax: 1 << 20})
		if err := open(httptest.NewRequest(http.MethodPost, "/api/put", nil)).Parse(text.Bytes(), &batched); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/point")
}

// TestLiterals: the scanner accepts the numbers of JSON.
func TestLiterals(t *testing.T) {
	for _, text := range []string{
		"0", "1", "10", "1.5", "0.5", "10.25", "-1", "-0.5", "1e3", "1.5E-2", "00", "01", "01.5", "00.5", "5.", ".5", ".", "1.2.3",
		"-", "+1", "1e", "0x10", "1_0", "NaN", "Infinity", "18446744073709551616",
	} {
		_, err := (&scanner{text: []byte(text)}).scalar()
		require.Equal(t, json.Valid([]byte(text)), err == nil, text)
	}
}
