package csv

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/remotewrite"
)

func now() time.Time { return time.UnixMilli(77) }

func open(query url.Values) receiver.Request {
	return Import(now)(httptest.NewRequest("POST", "/api/v1/import/csv?"+query.Encode(), nil))
}

// samplesOf returns the samples of a batch as texts.
func samplesOf(t testing.TB, b *batch.Batch) (out []string) {
	for b.Next() {
		s := b.Series()
		pairs, err := remotewrite.AppendLabels(nil, s.Key)
		require.NoError(t, err)
		var names []string
		for _, p := range pairs {
			names = append(names, p.Name+"="+p.Value)
		}
		out = append(out, fmt.Sprintf("%s %v@%d", strings.Join(names, ","), s.Samples[0].Value, s.Samples[0].TsMs))
	}
	return out
}

func parse(t testing.TB, query url.Values, bodies ...string) ([]string, []batch.Rejection) {
	t.Helper()
	x, b := open(query), &batch.Batch{}
	require.NoError(t, x.Check())
	b.Reset(batch.Bounds{ItemsMax: 1 << 20})
	for _, body := range bodies {
		require.NoError(t, x.Parse([]byte(body), b))
	}
	return samplesOf(t, b), b.Rejections()
}

func TestRows(t *testing.T) {
	t.Parallel()
	format := func(text string) url.Values { return url.Values{"format": {text}} }
	for _, c := range []struct {
		query url.Values
		body  string
		want  []string
	}{
		{format("1:label:host,2:metric:temp,3:time:unix_s"), "host,temp,when\na,1.5,60\nb,-2,61\n",
			[]string{"__name__=temp,host=a 1.5@60000", "__name__=temp,host=b -2@61000"}},
		{format("2:metric:a,4:metric:b"), "x,1,y,2,more\nx,,y,3\n", []string{"__name__=a 1@77", "__name__=b 2@77", "__name__=b 3@77"}},
		{format("1:time:rfc3339,2:metric:a"), "1970-01-01T00:01:00.5Z,1", []string{"__name__=a 1@60500"}},
		{format("1:time:unix_ns,2:metric:a"), "-1,1\n1999999,2", []string{"__name__=a 1@-1", "__name__=a 2@1"}},
		{format("1:time:custom:2006-01-02 15:04,2:metric:a"), "1970-01-02 00:00,1", []string{"__name__=a 1@86400000"}},
		{url.Values{"extra_label": {"dc=x", "job="}}, "__name__,job,text,__timestamp__,__value__\n" +
			"up,node,\"a,\"\"b\"\"\nc\",5,NaN\r\n", []string{"__name__=up,dc=x,text=a,\"b\"\nc NaN@5"}},
	} {
		got, rejected := parse(t, c.query, c.body)
		require.Empty(t, rejected, c.body)
		require.Equal(t, c.want, got)
	}
}

// TestBadRows: errors name a bad row, and the other rows are stored. Row numbers continue in the next piece of the
// body.
func TestBadRows(t *testing.T) {
	t.Parallel()
	format := url.Values{"format": {"1:label:host,2:metric:temp,3:time:unix_ms"}}
	for _, c := range []struct{ row, fault string }{
		{"a,1", "line 4: the row has 2 columns, but the format has 3"}, {"a,x,1", "line 4: column 2: the value is not a number"},
		{"a,1,1.5", "line 4: column 3: the timestamp is not a whole number"}, {"a\"b,1,1", "line 4: bare"},
	} {
		got, rejected := parse(t, format, "a,1,1\na,1,2\n", "a,1,3\n"+c.row+"\na,1,5\n")
		require.Len(t, got, 4, c.row)
		require.Len(t, rejected, 1, c.row)
		require.Equal(t, ingest.ReasonMalformedLine, rejected[0].Reason)
		require.Contains(t, rejected[0].Detail, c.fault)
	}
	for _, c := range []struct{ format, fault string }{
		{"1:label", "not of the form"}, {"0:label:a", "not a number from 1"}, {"1:x:a,2:metric:b", `kind "x" is unknown`},
		{"1:label:a", "no column of kind metric"}, {"1:metric:a,1:label:b", "described twice"},
		{"1:time:x,2:metric:a", `time format "x" is unknown`}, {"1:metric:a,2:time:unix_s,3:time:unix_s", "2 columns hold timestamps"},
		{"1:metric:a,2:label:x,3:label:x", `two columns have the label "x"`},
	} {
		require.ErrorContains(t, open(url.Values{"format": {c.format}}).Check(), c.fault, c.format)
	}
	var b batch.Batch
	b.Reset(batch.Bounds{ItemsMax: 10})
	require.ErrorContains(t, open(nil).Parse([]byte("a,,b\n"), &b), "header: a column has no name")
	require.ErrorContains(t, open(nil).Parse([]byte("__name__,value\nup,1\n"), &b), "header: it has no column __value__")
}

func TestEncoder(t *testing.T) {
	t.Parallel()
	e, err := NewEncoder("__name__,text,__timestamp__,__value__,__timestamp__x")
	require.NoError(t, err)
	e.Begin(labels.FromStrings("__name__", "up", "text", "a,\"b\"\nc"))
	e.Float(5, 1.5)
	require.NoError(t, e.Histogram(6, tsdbutil.GenerateTestHistogram(1), nil))
	e.Float(7, -0.25)
	require.Equal(t, 2, e.Rows())
	require.Equal(t, 1, e.Omitted)
	body := e.Append(append([]byte{}, e.Header()...))
	require.Equal(t, "__name__,text,__timestamp__,__value__,__timestamp__x\n"+
		"up,\"a,\"\"b\"\"\nc\",5,1.5,\nup,\"a,\"\"b\"\"\nc\",7,-0.25,\n",
		string(body))
	got, rejected := parse(t, nil, string(body))
	require.Empty(t, rejected)
	require.Equal(t, []string{"__name__=up,text=a,\"b\"\nc 1.5@5", "__name__=up,text=a,\"b\"\nc -0.25@7"}, got)
	for format, want := range map[string]string{
		"unix_s": "86400", "unix_ns": "86400001000000", "rfc3339": "1970-01-02T00:00:00.001Z",
		"custom:Jan 2": "Jan 2",
	} {
		e, err := NewEncoder("__timestamp__:" + format)
		require.NoError(t, err)
		e.Begin(labels.EmptyLabels())
		e.Float(86_400_001, 1)
		require.Equal(t, want+"\n", string(e.Append(nil)))
	}
	_, err = NewEncoder("a,,b")
	require.ErrorContains(t, err, "a column has no name")
}

// TestPlainRows: rows without quotes give the same as rows with them.
func TestPlainRows(t *testing.T) {
	t.Parallel()
	plain := "Zone,__name__,host,__timestamp__,__value__\n1,up,a,1,1\n\n2,,b,2,2\r\n,up,,3,3\n4,up,d\n5,up,e,5,x"
	quoted := strings.Replace(plain, "Zone", `"Zone"`, 1)
	replaced := url.Values{"extra_label": {"Zone=", "__name__=m", "host=y", "host=z"}}
	for _, extra := range []url.Values{nil, {"extra_label": {"host=z", "dc=x"}}, replaced} {
		got, rejected := parse(t, extra, plain)
		want, wantRejected := parse(t, extra, quoted)
		require.Equal(t, want, got)
		require.Equal(t, wantRejected, rejected)
		require.Len(t, got, 3)
		require.Contains(t, rejected[0].Detail, "line 6: the row has 3 columns")
	}
	got, _ := parse(t, replaced, plain)
	require.Equal(t, []string{"__name__=m,host=z 1@1", "__name__=m,host=z 2@2", "__name__=m,host=z 3@3"}, got)
	got, _ = parse(t, nil, plain)
	require.Equal(t, []string{"Zone=1,__name__=up,host=a 1@1", "Zone=2,host=b 2@2", "__name__=up 3@3"}, got)
}

// TestWholeRows cuts texts after each of their bytes. The pieces have the rows of the text, and a misplaced quote costs one line.
func TestWholeRows(t *testing.T) {
	t.Parallel()
	const header = "1:label:host,2:metric:temp,3:time:unix_ms"
	format := url.Values{"format": {header}}
	for body, size := range map[string]int{
		"a,1,1\nb,2,2\nc": 12, "a,1,1\n\"b\nc\",2,2\r\nd": 17, "5\" pipe,1,1\nb,2,2\n": 18, "\"a\"\"\nb\",1,1\n": 12,
		"\"a\"b\",\"c,1,1\nb,2,2\n": 19, "5\" x,\"a\nb,2,2\n": 14, "\"a\n": 0, "a": 0, "a,\"\"\n": 5, "a,1,1\n\"": 6,
	} {
		require.Equal(t, size, WholeRows([]byte(body)), body)
		want, wantRejected := parse(t, format, body[:size])
		for cut := range size {
			first := WholeRows([]byte(body[:cut]))
			got, rejected := parse(t, format, body[:first], body[first:size])
			require.Equal(t, want, got, body)
			require.Equal(t, wantRejected, rejected, body)
		}
	}
}

// FuzzParse: for any format and body, each row is stored or rejected.
func FuzzParse(f *testing.F) {
	f.Add("1:label:host,2:metric:temp,3:time:unix_s", "a,1.5,60\nb,x,61\n\"")
	f.Add("", "__name__,job,__timestamp__:rfc3339,__value__\nup,\"a\nb\",1970-01-01T00:00:00Z,1")
	f.Fuzz(func(t *testing.T, format, body string) {
		x, b := open(url.Values{"format": {format}}), &batch.Batch{}
		if x.Check() != nil {
			return
		}
		b.Reset(batch.Bounds{ItemsMax: 1 << 16})
		if err := x.Parse([]byte(body), b); err != nil {
			return
		}
		got := samplesOf(t, b)
		if line, rest, _ := strings.Cut(body, "\n"); format == "" && !strings.ContainsAny(body, "\"\r") && line != "" {
			// With a quote, another parser reads the same rows.
			name, names, more := strings.Cut(line, ",")
			if more {
				names = "," + names
			}
			want, _ := parse(t, nil, `"`+name+`"`+names+"\n"+rest)
			require.Equal(t, want, got)
		}
	})
}
