package influx

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/receiver"
	"halite/ingest"
	"halite/ingest/batch"
	"halite/ingest/batch/batchtest"
)

func now() time.Time { return time.UnixMilli(1_000_000) }

// parsed returns the samples of a body as texts, the batch, and the request.
func parsed(t testing.TB, open receiver.Open, query, body string) ([]string, *batch.Batch, *request) {
	t.Helper()
	x, ok := open(httptest.NewRequest("POST", "/write?"+query, nil)).(*request)
	require.True(t, ok)
	require.NoError(t, x.Check())
	b := batchtest.New()
	require.NoError(t, x.Parse([]byte(body), b))
	var out []string
	for b.Next() {
		s := b.Series()
		out = append(out, fmt.Sprintf("%s %g@%d", batchtest.Labels(t, b), s.Samples[0].Value, s.Samples[0].TsMs))
	}
	return out, b, x
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ query, line, want string }{
		{"", "cpu idle=1.5 1000000", `{__name__="cpu_idle"} 1.5@1`},
		{"", "cpu value=2i", `{__name__="cpu"} 2@1000000`},
		{"db=tele", "cpu,host=a n=3u 1999999", `{__name__="cpu_n", db="tele", host="a"} 3@1`},
		{"db=tele", "cpu,db=own n=-3i 1", `{__name__="cpu_n", db="own"} -3@0`},
		{"precision=s", `c\ p\,u,ho\=st=a\ b\,c fi\=eld=t 7`, `{__name__="c p,u_fi=eld", ho=st="a b,c"} 1@7000`},
		{"precision=u", "cpu b=F,s=\"a b,c=\\\"1\",c=1e3 1500", `{__name__="cpu_b"} 0@1|{__name__="cpu_c"} 1000@1`},
		{"precision=h", "cpu a=1   2 ", `{__name__="cpu_a"} 1@7200000`},
		{"precision=ms", "cpu a=1 -5\r", `{__name__="cpu_a"} 1@-5`},
		{"", "cpu a=1 -1", `{__name__="cpu_a"} 1@-1`},
		{"", "# cpu a=1\n\n  \ncpu s=\"two\nlines\" 1\nmem a=.5 1\n", `{__name__="mem_a"} 0.5@0`},
		{"", `cpu,path=C:\temp a=1 1`, `{__name__="cpu_a", path="C:\\temp"} 1@0`},
	} {
		got, _, x := parsed(t, V1(now, DefaultOptions), c.query, c.line)
		require.Empty(t, x.bad, c.line)
		require.Equal(t, strings.ReplaceAll(c.want, "ho=st=", `"ho=st"=`), strings.Join(got, "|"), c.line)
	}
}

// TestNames names series by each option as VictoriaMetrics does by its flags.
func TestNames(t *testing.T) {
	const text = "m,h=a f=1 0\nm value=2 0\nm f=3,g=4,s=\"x\" 0\nm f=5,s=\"x\" 0"
	with := func(change func(*Options)) Options {
		o := DefaultOptions()
		change(&o)
		return o
	}
	keys := map[string]string{}
	for _, c := range []struct {
		options Options
		want    string
	}{
		{DefaultOptions(), `m_f{db="d", h="a"} m{db="d"} m_f{db="d"} m_g{db="d"} m_f{db="d"}`},
		{with(func(o *Options) { o.KeepValue = true }), `m_f{db="d", h="a"} m_value{db="d"} m_f{db="d"} m_g{db="d"} m_f{db="d"}`},
		{with(func(o *Options) { o.DatabaseLabel = "h" }), `m_f{h="a"} m{h="d"} m_f{h="d"} m_g{h="d"} m_f{h="d"}`},
		{with(func(o *Options) { o.DatabaseLabel = "" }), `m_f{h="a"} m{} m_f{} m_g{} m_f{}`},
		{with(func(o *Options) { o.Separator = "." }), `m.f{db="d", h="a"} m{db="d"} m.f{db="d"} m.g{db="d"} m.f{db="d"}`},
		{with(func(o *Options) { o.Separator = "" }), `mf{db="d", h="a"} m{db="d"} mf{db="d"} mg{db="d"} mf{db="d"}`},
		{
			with(func(o *Options) { o.SkipSingleField, o.KeepValue = true, true }),
			`m{db="d", h="a"} m{db="d"} m_f{db="d"} m_g{db="d"} m_f{db="d"}`,
		},
		{
			with(func(o *Options) { o.SkipMeasurement, o.KeepValue = true, true }),
			`f{db="d", h="a"} value{db="d"} f{db="d"} g{db="d"} f{db="d"}`,
		},
	} {
		open := V1(now, func() Options { return c.options })
		_, b, _ := parsed(t, open, "db=d", text)
		var got []string
		b.Rewind(0)
		for b.Next() {
			ls := batchtest.Labels(t, b)
			got = append(got, ls.Get("__name__")+labels.NewBuilder(ls).Del("__name__").Labels().String())
			// After a reload of options, no key stands for two series.
			key := string(b.Series().Key)
			require.Equal(t, cmp.Or(keys[key], ls.String()), ls.String())
			keys[key] = ls.String()
		}
		require.Equal(t, c.want, strings.Join(got, " "), "%+v", c.options)
	}
}

// TestBadLines: InfluxDB 1.6.7 refuses the same lines, except the one with a letter after a string.
func TestBadLines(t *testing.T) {
	for line, want := range map[string]string{
		"cpu":                            "missing fields",
		"cpu ":                           "missing fields",
		",host=a f=1":                    "missing measurement",
		"cpu,host f=1":                   "missing tag value",
		"cpu,host= f=1":                  "missing tag value",
		"cpu,=a f=1":                     "missing tag key",
		"cpu, f=1":                       "missing tag key",
		"cpu f":                          "missing field value",
		"cpu f=":                         "missing field value",
		"cpu f=,g=1":                     "missing field value",
		"cpu =1":                         "missing field key",
		"cpu f=1,":                       "missing fields",
		"cpu f=\"a":                      "unbalanced quotes",
		"cpu f=\"a\"b":                   "unbalanced quotes",
		"cpu f=NaN":                      "invalid number",
		"cpu f=Inf":                      "invalid number",
		"cpu f=-inf":                     "invalid number",
		"cpu f=1.5i":                     "invalid number",
		"cpu f=1e999":                    "invalid number",
		"cpu f=0x10":                     "invalid number",
		"cpu f=truth":                    "invalid boolean",
		"cpu f=1 soon":                   "bad timestamp",
		"cpu f=1 1 2":                    "bad timestamp",
		"cpu f=1 1e3":                    "bad timestamp",
		"cpu f=1 1234567890123456789012": "bad timestamp",
	} {
		got, b, x := parsed(t, V1(now, DefaultOptions), "", "ok f=1\n"+line+"\nok f=2\n")
		if strings.HasPrefix(line, "cpu f=\"a") && !strings.HasSuffix(line, "b") {
			require.Len(t, got, 1, line) // the quote swallows the next line
		} else {
			require.Len(t, got, 2, line)
		}
		require.Len(t, x.bad, 1, line)
		require.Contains(t, x.bad[0], "line 2: unable to parse '", line)
		require.True(t, strings.HasSuffix(x.bad[0], "': "+want), "%q: %s", line, x.bad[0])
		require.Equal(t, ingest.ReasonMalformedLine, b.Rejections()[0].Reason)
	}
}

func TestResponses(t *testing.T) {
	const body = "ok f=1\nbad\nok f=\nok s=\"x\"\n"
	_, b, x := parsed(t, V1(now, DefaultOptions), "", body)
	require.Equal(t, []batch.Rejection{
		{Count: 2, Reason: ingest.ReasonMalformedLine, Detail: "line 2: unable to parse 'bad': missing fields"},
		{Count: 1, Reason: ingest.ReasonNotNumeric, Silent: true},
	}, b.Rejections())
	a := x.Respond(&ingest.Result{Accepted: 1, Rejected: 2})
	require.Equal(t, 400, a.Status)
	require.JSONEq(t, `{"error":"partial write: line 2: unable to parse 'bad': missing fields\n`+
		`line 3: unable to parse 'ok f=': missing field value dropped=2"}`, string(a.Body))
	_, _, x = parsed(t, V2(now, DefaultOptions), "bucket=b&precision=ms", body)
	a = x.Respond(&ingest.Result{Accepted: 1, Rejected: 3, Reasons: map[string]int{"malformed_line": 2, "too_far_ahead": 1}})
	require.Contains(t, string(a.Body), `"code":"invalid","line":2,"message":"partial write: line 2`)
	require.Contains(t, string(a.Body), "too_far_ahead: 1")
	require.Equal(t, 204, x.Respond(&ingest.Result{}).Status)
	require.Contains(t, string(x.Refuse(503, fmt.Errorf("no room")).Body), `"code":"unavailable"`)
	require.ErrorContains(t, V2(now, DefaultOptions)(httptest.NewRequest("POST", "/?precision=m", nil)).Check(),
		"valid precision units are ns, us, ms, and s")
	require.ErrorContains(t, V1(now, DefaultOptions)(httptest.NewRequest("POST", "/?precision=d", nil)).Check(),
		"valid precision units are n, u, ms, s, m and h")
	require.Error(t, V1(now, DefaultOptions)(httptest.NewRequest("POST", "/?precision=days", nil)).Check())
}

// TestLogIns reads what the clients of InfluxDB send to log in.
func TestLogIns(t *testing.T) {
	const basicAB = "Basic YTpi" // a:b
	for _, c := range []struct {
		query, header string
		want          []string
	}{
		{"", "", nil}, {"u=a", "", nil}, {"", "Token secret", nil}, {"", "Bearer a:b", nil},
		{"u=a&p=b", "", []string{"Token b", basicAB}},
		{"", basicAB, []string{"Token b", basicAB}},
		{"u=x&p=y", basicAB, []string{"Token b", basicAB}},
		{"u=x&p=y", "Bearer secret", nil},
		{"", "Token a:b", []string{"Token a:b", basicAB}},
	} {
		r := httptest.NewRequest("POST", "/write?"+c.query, nil)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		require.Equal(t, c.want, LogIns(r), "%q %q", c.query, c.header)
	}
}

// TestWholeLines cuts a text after each of its bytes. The pieces have the lines of the text, also if a string has line breaks.
func TestWholeLines(t *testing.T) {
	const text = "a b=1 1\nlog msg=\"x\nfake v=1 1\ny\",n=2 2\n# \"\n\"\nc\\ \"d e=\"\\\"\n\" 3\n\nf g=4 4\n"
	require.Equal(t, len(text), WholeLines([]byte(text+"h i=\"\n")))
	require.Zero(t, WholeLines([]byte("a b=1")))
	want, _, whole := parsed(t, V1(now, DefaultOptions), "", text)
	require.Equal(t, 1, whole.badLines)
	for cut := range len(text) {
		size := WholeLines([]byte(text[:cut]))
		got, _, first := parsed(t, V1(now, DefaultOptions), "", text[:size])
		rest, _, last := parsed(t, V1(now, DefaultOptions), "", text[size:])
		require.Equal(t, want, append(got, rest...), cut)
		require.Equal(t, whole.badLines, first.badLines+last.badLines, cut)
	}
}

// BenchmarkQuotes parses lines that are a quote alone. Its time per byte does not depend on the size of the body.
func BenchmarkQuotes(b *testing.B) {
	for _, lines := range []int{1e4, 1e5} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			body := []byte(strings.Repeat("\"\n", lines))
			var batched batch.Batch
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				batched.Reset(batch.Bounds{ItemsMax: 1 << 20})
				if err := V1(now, DefaultOptions)(httptest.NewRequest("POST", "/write", nil)).Parse(body, &batched); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzParse: nothing panics, every line is stored or named, and the labels of a key are its labels alone.
func FuzzParse(f *testing.F) {
	f.Add("cpu,host=a,b\\ c=d f=1,g=\"x\ny\",h=2i 1000\n# c\nbad\n")
	f.Add("c\\,pu v\\=w=t -1\r\n\x00 x y=1u")
	f.Fuzz(func(t *testing.T, body string) {
		got, b, x := parsed(t, V1(now, DefaultOptions), "db=d", body)
		require.LessOrEqual(t, len(got)+x.badLines, len(body))
		again, _, _ := parsed(t, V1(now, DefaultOptions), "db=d", body)
		require.Equal(t, got, again)
		require.LessOrEqual(t, len(b.Rejections()), 2)
		for _, at := range got {
			require.Contains(t, at, "db=")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&text, "cpu,host=host-%d,region=eu-west-1,cpu=cpu-total usage_idle=%d.5,usage_user=1.25,usage_system=3i,up=t "+
			"1700000000000000000\n", n, n)
	}
	body := []byte(text.String())
	var batched batch.Batch
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		batched.Reset(batch.Bounds{ItemsMax: 1 << 20})
		if err := V1(now, DefaultOptions)(httptest.NewRequest("POST", "/write", nil)).Parse(body, &batched); err != nil {
			b.Fatal(err)
		}
	}
}

// TestQuery answers the statements that clients send before they write.
func TestQuery(t *testing.T) {
	const unknown = `{"error":"error parsing query: unknown statement \"%s\"; ` +
		`this server knows CREATE DATABASE, CREATE RETENTION POLICY and SHOW DATABASES, and has queries in PromQL"}`
	const databases = `{"statement_id":%d,"series":[{"name":"databases","columns":["name"],"values":[["_internal"]%s]}]}`
	for _, c := range []struct {
		method, query, form string
		status              int
		want                string
	}{
		{"POST", "", "q=CREATE+DATABASE+%22telegraf%22", 200, `{"results":[{"statement_id":0}]}`},
		{"POST", "q=create+database+%22a%3Bb%5C%22%22+WITH+DURATION+3d%3B", "", 200, `{"results":[{"statement_id":0}]}`},
		{"POST", "", "q=create+retention+policy+%227d%22+on+%22a%22+duration+7d+replication+1+default", 200,
			`{"results":[{"statement_id":0}]}`},
		{"GET", "q=SHOW+DATABASES", "", 200, `{"results":[` + fmt.Sprintf(databases, 0, "") + `]}`},
		{"GET", "q=create+database+a%3B%0Ashow++databases&db=home", "", 200,
			`{"results":[{"statement_id":0},` + fmt.Sprintf(databases, 1, `,["home"]`) + `]}`},
		{"GET", "q=SELECT+*+FROM+cpu", "", 400, fmt.Sprintf(unknown, "SELECT * FROM cpu")},
		{"GET", "q=SHOW+DATABASES%3BDROP+DATABASE+a", "", 400, fmt.Sprintf(unknown, "DROP DATABASE a")},
		{"GET", "q=show", "", 400, fmt.Sprintf(unknown, "show")},
		{"GET", "q=%3B", "", 400, `{"error":"missing required parameter \"q\""}`},
		{"GET", "q=%zz", "", 400, `{"error":"invalid URL escape \"%zz\""}`},
		{"POST", "", "q=" + strings.Repeat("x", 1000), 413, `{"error":"http: request body too large"}`},
	} {
		r := httptest.NewRequest(c.method, "/query?"+c.query, strings.NewReader(c.form))
		if c.method == "POST" {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		Query(500)(w, r)
		require.Equal(t, c.status, w.Code, c.query)
		require.JSONEq(t, c.want, w.Body.String(), c.query)
		require.Equal(t, Version, w.Header().Get("X-Influxdb-Version"))
		require.Equal(t, c.status != 200, w.Header().Get("X-Influxdb-Error") != "")
	}
}
