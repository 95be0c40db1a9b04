package exposition

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"halite/ingest/batch"
	"halite/ingest/batch/batchtest"
	"halite/ingest/remotewrite"
)

const openMetrics = "application/openmetrics-text; version=1.0.0"

// parsed returns the series of a body, one text for each sample, and the batch.
func parsed(t testing.TB, p *Parser, body string) ([]string, *batch.Batch, error) {
	t.Helper()
	b := batchtest.New()
	if err := p.Parse([]byte(body), b); err != nil {
		return nil, b, err
	}
	var out []string
	for b.Next() {
		s := b.Series()
		series := batchtest.Labels(t, b).String()
		for _, v := range s.Samples {
			out = append(out, fmt.Sprintf("%s %g@%d start %d", series, v.Value, v.TsMs, v.StartMs))
		}
		for _, h := range s.Histograms {
			out = append(out, fmt.Sprintf("%s %v@%d", series, h.H, h.TsMs))
		}
		for _, e := range s.Exemplars {
			out = append(out, fmt.Sprintf("exemplar %s %g@%d", e.Labels, e.Value, e.TsMs))
		}
	}
	return out, b, nil
}

func TestParseText(t *testing.T) {
	got, b, err := parsed(t, &Parser{TsMs: 7}, `# HELP rpc_seconds Time of "calls".
# TYPE rpc_seconds histogram
rpc_seconds_bucket{le="1"} 3
rpc_seconds_bucket{le="+Inf"} 4 1000
# TYPE up gauge
up{le="1", instance="a\"b"} NaN
{"utf8.metric", "a b"="c"} -Inf`)
	require.NoError(t, err)
	require.Equal(t, []string{
		`{__name__="rpc_seconds_bucket", le="1.0"} 3@7 start 0`,
		`{__name__="rpc_seconds_bucket", le="+Inf"} 4@1000 start 0`,
		`{__name__="up", instance="a\"b", le="1"} NaN@7 start 0`,
		`{__name__="utf8.metric", "a b"="c"} -Inf@7 start 0`,
	}, got)
	require.Equal(t, []remotewrite.Metadata{
		{Metric: "rpc_seconds", Type: "histogram", Help: `Time of "calls".`}, {Metric: "up", Type: "gauge"},
	}, b.Descriptions())
}

func TestParseOpenMetrics(t *testing.T) {
	got, b, err := parsed(t, &Parser{TsMs: 7, ContentType: openMetrics}, `# TYPE calls counter
# UNIT calls_seconds seconds
calls_total{code="200"} 5 12.5 # {trace_id="abc"} 0.25 12.25
calls_created{code="200"} 10
# EOF
`)
	require.NoError(t, err)
	require.Equal(t, []string{
		`{__name__="calls_total", code="200"} 5@12500 start 0`, `exemplar {trace_id="abc"} 0.25@12250`,
		`{__name__="calls_created", code="200"} 10@7 start 0`,
	}, got)
	require.Contains(t, b.Descriptions(), remotewrite.Metadata{Metric: "calls_seconds", Type: "unknown", Unit: "seconds"})
	_, _, err = parsed(t, &Parser{ContentType: openMetrics}, "calls_total 5\n")
	require.ErrorContains(t, err, "EOF")
}

// TestExtraLabels: the same text has other labels in another request, and its key differs.
func TestExtraLabels(t *testing.T) {
	x, ok := Import(time.Now)(httptest.NewRequest("POST", "/?timestamp=9&extra_label=job=a=b&extra_label=drop=", nil)).(*request)
	require.True(t, ok)
	require.NoError(t, x.Check())
	got, with, err := parsed(t, &x.parser, `up{job="x",drop="y"} 1`)
	require.NoError(t, err)
	require.Equal(t, []string{`{__name__="up", job="a=b"} 1@9 start 0`}, got)
	_, without, err := parsed(t, &Parser{}, `up{job="x",drop="y"} 1`)
	require.NoError(t, err)
	require.NotEqual(t, with.Series().Key, without.Series().Key)
	for _, bad := range []string{"timestamp=soon", "extra_label=job", "extra_label==b"} {
		require.Error(t, Import(time.Now)(httptest.NewRequest("POST", "/?"+bad, nil)).Check(), bad)
	}
}

func TestPushPath(t *testing.T) {
	open := Push(func() time.Time { return time.UnixMilli(5) })
	for path, want := range map[string]string{
		"/metrics/job/backup/":                              `{__name__="up", instance="i", job="backup"} 1@5 start 0`,
		"/metrics/job/backup":                               `{__name__="up", instance="i", job="backup"} 1@5 start 0`,
		"/prometheus/metrics/job/a%2Fb/instance/x":          `{__name__="up", instance="x", job="a/b"} 1@5 start 0`,
		"/metrics/job@base64/YS9i/path@base64/L3Zhci9sb2c=": `{__name__="up", instance="i", job="a/b", path="/var/log"} 1@5 start 0`,
		"/metrics/job/backup/instance@base64/=":             `{__name__="up", job="backup"} 1@5 start 0`,
	} {
		x, ok := open(httptest.NewRequest("PUT", path, nil)).(*request)
		require.True(t, ok)
		require.NoError(t, x.Check(), path)
		got, _, err := parsed(t, &x.parser, `up{job="x",instance="i"} 1`)
		require.NoError(t, err)
		require.Equal(t, []string{want}, got, path)
		_, _, err = parsed(t, &x.parser, "up 1 1000\n")
		require.ErrorContains(t, err, "must not have timestamps")
	}
	for _, path := range []string{
		"/metrics/job", "/metrics/job/", "/metrics/jobs/x", "/metrics/job/x/y", "/metrics/job/x/__name__/y",
		"/metrics/job@base64/!!", "/metrics/job/x//y", "/metrics/job//", "/metrics/job/x/y/z/",
	} {
		require.Error(t, open(httptest.NewRequest("PUT", path, nil)).Check(), path)
	}
}

func TestParseErrorNamesLine(t *testing.T) {
	_, _, err := parsed(t, &Parser{}, "up 1\nup 2\nup{ 3\n")
	require.ErrorContains(t, err, "line 3 or later: ")
	_, _, err = parsed(t, &Parser{}, "}")
	require.ErrorContains(t, err, "line 1 or later: ")
}

// TestLongLines: a label or an exemplar that Prometheus's labels cannot hold is an error with its line, and no panic.
func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 1<<24)
	for _, c := range []struct{ contentType, body string }{
		{"", "up 1\nup{a=\"" + long + "\"} 1\n"}, {"", "up 1\n" + long + " 1\n"},
		{"application/openmetrics-text", "# TYPE up counter\nup_total 1 # {a=\"" + long + "\"} 1\n# EOF\n"},
	} {
		_, _, err := parsed(t, &Parser{ContentType: c.contentType}, c.body)
		require.ErrorContains(t, err, "line 2: it has 167772")
	}
	_, _, err := parsed(t, &Parser{}, "# HELP up "+long[:1<<23]+"\n# HELP up "+long[:1<<23]+"\nup 1\n")
	require.NoError(t, err)
	field := func(number protowire.Number, content ...byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	for value, fault := range map[string]string{"a": "", long: "metric family 2: a field has 167772"} {
		metric := append(field(1, append(field(1, 'l'), field(2, []byte(value)...)...)...), field(2)...)
		gauge := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 1)
		family := slices.Concat(field(1, 'm'), gauge, field(4, metric...))
		body := string(protowire.AppendBytes(protowire.AppendBytes(nil, field(1, 'n')), family))
		_, _, err := parsed(t, &Parser{ContentType: "application/vnd.google.protobuf"}, body)
		if fault == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, fault)
		}
	}
}

// referenceSamples returns what Prometheus's parser reads: label fields, value and time of each sample.
func referenceSamples(t *testing.T, body, contentType string) (out []string, err error) {
	reference, err := textparse.New([]byte(body), contentType, labels.NewSymbolTable(),
		textparse.ParserOptions{FallbackContentType: "text/plain"})
	require.NotNil(t, reference, err)
	for {
		entry, err := reference.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if entry == textparse.EntrySeries {
			_, ts, v := reference.Series()
			tsMs := int64(7)
			if ts != nil {
				tsMs = *ts
			}
			var ls labels.Labels
			reference.Labels(&ls)
			out = append(out, fmt.Sprintf("%q %x %d", remotewrite.AppendFields(nil, ls), math.Float64bits(v), tsMs))
		}
	}
}

// FuzzParse: nothing panics, and the result equals the result of Prometheus's parser, errors included.
func FuzzParse(f *testing.F) {
	f.Add("# TYPE a histogram\na_bucket{le=\"1\"} 3\na{quantile=\"0.5\"} 4 1000\n", false)
	f.Add("# TYPE a counter\na_total{b=\"c\"} 5 1 # {t=\"x\"} 1\n# EOF\n", true)
	f.Add("{\"a b\",c=\"\n\\\"\"} 1\n", false)
	f.Add("a 1 2 3\n\nb{c=\"\\\"}\"} 0x1p2\nb{} NaN\n#\nup", false)
	f.Fuzz(func(t *testing.T, body string, open bool) {
		p := &Parser{TsMs: 7}
		if open {
			p.ContentType = openMetrics
		}
		want, wantErr := referenceSamples(t, body, p.ContentType)
		b := batchtest.New()
		err := p.Parse([]byte(body), b)
		var got []string
		for err == nil && b.Next() {
			s := b.Series()
			var fields []byte
			if fields, err = b.AppendFields(nil, s.Key); err == nil {
				got = append(got, fmt.Sprintf("%q %x %d", fields, math.Float64bits(s.Samples[0].Value), s.Samples[0].TsMs))
			}
		}
		if wantErr != nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// BenchmarkParse reads a body of 1000 series as node_exporter has them.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&text, "node_cpu_seconds_total{cpu=\"%d\",mode=\"idle\",instance=\"host-17:9100\",job=\"node\"} %d.25\n", n, n*1000)
	}
	body := []byte(text.String())
	var batched batch.Batch
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		batched.Reset(batch.Bounds{ItemsMax: 1 << 20})
		if err := (&Parser{TsMs: 7}).Parse(body, &batched); err != nil {
			b.Fatal(err)
		}
	}
}
