package translation

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"halite/query/opentsdb/request"
)

func newParser() *request.Parser {
	return request.NewParser(func() time.Time { return time.Unix(1_600_000_000, 0) }, request.Limits{})
}

// other holds the matchers that exclude stored rollups.
const other = `,_rollup_interval="",_rollup_aggregator="",_aggregate=""}`

func TestRead(t *testing.T) {
	for text, want := range map[string]string{
		"m=zimsum:5m-max:cpu{host=*,a.b=x|y}": `sum by ("a.b", host) (max_over_time(` +
			`{__name__="cpu",host!="","a.b"!="","a.b"=~"x|y"` + other +
			`[5m] offset -4m59s999ms))`,
		"m=avg:1h-avg-nan:cpu": `avg (avg_over_time({__name__="cpu"` + other + `[1h] offset -59m59s999ms))`,
		"m=none:10s-count:cpu{}{host=wildcard(w*)}": `count_over_time({__name__="cpu",host!="",host=~"w.*"` + other +
			`[10s] offset -9s999ms)`,
		"m=sum:rate:1m-last-null:cpu": `sum ((last_over_time({__name__="cpu"` + other + `[1m] offset -59s999ms) - ` +
			`last_over_time({__name__="cpu"` + other + `[1m] offset 1ms)) / 60)`,
		"m=max:0all-min:cpu": `max (min_over_time({__name__="cpu"` + other + `[50m] offset -49m59s999ms))`,
	} {
		got, err := Read([]byte("http://tsd:4242/api/query?start=1500000000&end=1500003000&"+text), newParser())
		require.NoError(t, err, text)
		require.Len(t, got, 1)
		require.Equal(t, want, got[0].PromQL, "%s %s", text, got[0].Reason)
		_, err = parser.NewParser(parser.Options{}).ParseExpr(got[0].PromQL)
		require.NoError(t, err)
		require.NotNil(t, got[0].Range)
	}
	// OpenTSDB reads from the hour on, and has no rate at the first interval.
	rate, err := Read([]byte("?start=1499997600&end=1500003000&m=sum:rate:1m-last-null:cpu"), newParser())
	require.NoError(t, err)
	require.Equal(t, &Range{time.Unix(1499997660, 0).UTC(), time.Unix(1500003000, 0).UTC()}, rate[0].Range)
}

func TestReasons(t *testing.T) {
	for spec, want := range map[string]string{
		"sum:cpu": "without downsampling", "sum:5m-avg:cpu": "interpolates", "zimsum:1dc-sum:cpu": "calendar",
		"zimsum:rate:5m-avg:cpu": "across intervals", "zimsum:rate{counter}:5m-avg-nan:cpu": "maximum of a counter",
		"p99:5m-avg-nan:cpu": "aggregation that computes p99", "zimsum:5m-median:cpu": "over time that computes median",
		"zimsum:5m-first:cpu": "experimental", "zimsum:5m-sum:explicit_tags:cpu{h=a}": "explicitTags",
		"zimsum:5m-sum:rollup_fallback:cpu": "rollupUsage", "sum:5m-sum:percentiles[9]:cpu": "percentiles",
		"max:5m-avg-zero:cpu": "counts series without samples as 0", "none:5m-avg-zero:cpu": "for each interval of each series",
		"zimsum:100ms-max:cpu": "whole seconds", "sum:rate:0all-sum:cpu": "one value has no rate",
		"zimsum:10h-max:cpu": "no interval begins",
	} {
		got, err := Read([]byte("/api/query?start=1500000000&end=1500003000&m="+spec), newParser())
		require.NoError(t, err, spec)
		require.Contains(t, got[0].Reason, want, spec)
		require.Empty(t, got[0].PromQL)
	}
}

// TestDocuments reads the forms of JSON.
func TestDocuments(t *testing.T) {
	const target = `{"refId":"A","aggregator":"sum","metric":"cpu","downsampleInterval":"5m","downsampleAggregator":"avg",
		"downsampleFillPolicy":"nan","tags":{"host":"*"}}`
	text := `sum by (host) (avg_over_time({__name__="cpu",host!=""` + other + `[5m] offset -4m59s999ms))`
	for _, document := range []string{
		target, "[" + target + "]", `{"targets":[` + target + `]}`,
		`{"dashboard":{"rows":[{"panels":[{"targets":[` + target + `]}]}]}}`,
	} {
		got, err := Read([]byte(document), newParser())
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, text, got[0].PromQL, got[0].Reason)
		require.Nil(t, got[0].Range)
	}
	body := `{"start":"1h-ago","queries":[{"aggregator":"zimsum","metric":"cpu","downsample":"5m-sum"},
		{"aggregator":"sum","metric":"b"}]}`
	got, err := Read([]byte(body), newParser())
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.NotEmpty(t, got[0].PromQL)
	require.Contains(t, got[1].Reason, "without downsampling")
	for replaced, want := range map[string]string{
		strings.Replace(target, `"5m"`, `""`, 1):          "width of the panel",
		strings.Replace(target, `"5m"`, `"$interval"`, 1): "has variables of Grafana",
		strings.Replace(target, `"*"`, `"[[host]]"`, 1):   "has variables of Grafana",
	} {
		got, err := Read([]byte(replaced), newParser())
		require.NoError(t, err)
		require.Contains(t, got[0].Reason, want)
	}
	for bad, want := range map[string]string{
		" ": "is empty", "{": "neither JSON nor a URI", "{}": "no query of OpenTSDB", "/api/query": "no question mark",
		"?start=1&m=x": "not enough :-separated parts", `{"queries":[]}`: "Missing start time", "?m=%zz": "the parameters of",
		`{"aggregator":"total","metric":"m","disableDownsampling":true}`: "No such aggregation function",
	} {
		_, err := Read([]byte(bad), newParser())
		require.ErrorContains(t, err, want, bad)
	}
}

// FuzzRead: every translation is PromQL, or has a reason.
func FuzzRead(f *testing.F) {
	f.Add("/api/query?start=1h-ago&m=sum:rate:5m-avg-nan:cpu{host=*}")
	f.Add(`{"targets":[{"aggregator":"none","metric":"a b","downsampleInterval":"1m","downsampleAggregator":"max"}]}`)
	f.Add(`{"start":1,"queries":[{"aggregator":"zimsum","metric":"\"","downsample":"5m-sum","tags":{"\"}":"a|b\\"}}]}`)
	p := newParser()
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read([]byte(text), p)
		if err != nil {
			return
		}
		for _, g := range got {
			require.NotEqual(t, g.Reason == "", g.PromQL == "", "%+v", g)
			if g.PromQL != "" {
				_, err := parser.NewParser(parser.Options{}).ParseExpr(g.PromQL)
				require.NoError(t, err, g.PromQL)
				require.Positive(t, g.StepSeconds)
			}
		}
	})
}
