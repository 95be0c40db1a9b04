package request

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"halite/query/opentsdb/aggregation"
)

// FuzzSpec parses the parameter m. An accepted sub-query is complete.
func FuzzSpec(f *testing.F) {
	for _, seed := range []string{
		"sum:m", "avg:rate{counter,255,10}:5mc-max-zero:sys.cpu{host=*,dc=lga|sjc}{cpu=regexp(^[0-9]+$)}", "p99:0all-sum:m{}",
		"sum:percentiles[50,99]:m{a=not_key()}", "none:explicit_tags:1dc-last-nan:m{}{a=iwildcard(*x*)}", `sum:m{a=regexp(\()}`,
	} {
		f.Add(seed)
	}
	p := newParser()
	f.Fuzz(func(t *testing.T, spec string) {
		sub, err := p.Sub(spec, time.UTC)
		if err != nil {
			return
		}
		require.NotNil(t, sub.Aggregator)
		require.NotEmpty(t, sub.Metric)
		for _, filter := range sub.Filters {
			require.NotEmpty(t, filter.Key)
			require.Equal(t, filter.Excludes(), matches(filter.Matchers, ""), "%+v", filter)
		}
		if d := sub.Down; d != nil && !d.All {
			require.Positive(t, d.IntervalMs())
			within := aggregation.RangeOf(nowMs, nowMs+1, d)
			require.LessOrEqual(t, within.ReadFromMs, int64(nowMs))
			require.Greater(t, within.ReadToMs, int64(nowMs))
		}
	})
}

// FuzzTime parses times. OpenTSDB can represent an accepted time.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{"now", "1h-ago", "1500000000", "1500000000.123", "2017/07/14-02:40:00", "77ms", "5n-ago"} {
		f.Add(seed, "UTC")
	}
	p := newParser()
	f.Fuzz(func(t *testing.T, text, name string) {
		zone, err := p.Zone(name)
		if err != nil {
			return
		}
		ms, err := p.Time(text, zone)
		if err == nil {
			require.True(t, ms >= 0 && ms <= timeMaxMs, "%d", ms)
		}
	})
}

// FuzzBody parses bodies of POST requests.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"start":1,"end":"now","queries":[{"aggregator":"sum","metric":"m","tags":{"a":"*"},"rate":true,
		"rateOptions":{"counter":true,"counterMax":100},"downsample":"1m-avg-nan",
		"filters":[{"type":"regexp","tagk":"b","filter":".*","groupBy":true}]}]}`))
	f.Add([]byte(`{"start":"1h-ago","queries":[{"aggregator":"none","tsuids":["00"],"percentiles":[50]}]}`))
	p := newParser()
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := p.JSON(body)
		if err != nil {
			return
		}
		require.LessOrEqual(t, q.StartMs, q.EndMs)
		require.NotEmpty(t, q.Subs)
		for _, sub := range q.Subs {
			require.NotNil(t, sub.Aggregator)
			require.False(t, sub.Metric == "" && len(sub.TSUIDs) == 0)
		}
	})
}

// FuzzExpressions parses bodies of /api/query/exp.
func FuzzExpressions(f *testing.F) {
	f.Add([]byte(`{"time":{"start":"1h-ago","aggregator":"sum","downsampler":{"interval":"1m","aggregator":"avg",
		"fillPolicy":{"policy":"scalar","value":3}}},"filters":[{"id":"f","tags":[{"type":"wildcard","tagk":"a","filter":"*"}]}],
		"metrics":[{"id":"a","metric":"m","filter":"f","fillPolicy":{"policy":"nan"}}],
		"expressions":[{"id":"e","expr":"a * g"},{"id":"g","expr":"a + 1","join":{"operator":"intersection"}}],
		"outputs":[{"id":"e","alias":"x"}]}`))
	p := newParser()
	f.Fuzz(func(t *testing.T, body []byte) {
		x, err := p.Expressions(body)
		if err != nil {
			return
		}
		require.Len(t, x.Query.Subs, len(x.Metrics))
		require.NotEmpty(t, x.Outputs)
		known := map[string]bool{}
		for _, m := range x.Metrics {
			known[m.ID] = true
		}
		for _, formula := range x.Formulas {
			for _, name := range formula.Formula.Variables {
				require.True(t, known[name], "%s is read before it is computed", name)
			}
			known[formula.ID] = true
		}
	})
}

// FuzzCall parses calls of functions.
func FuzzCall(f *testing.F) {
	for _, seed := range []string{"scale(sum:m,2)", "alias(sum(avg:1m-avg:a{h=*},divide(sum:b,sum:c)),'x, @h')"} {
		f.Add(seed)
	}
	p := newParser()
	f.Fuzz(func(t *testing.T, text string) {
		q, calls, err := p.Functions(url.Values{"start": {"1h-ago"}, "exp": {text}})
		if err == nil {
			require.Len(t, calls, 1)
			require.Less(t, calls[0].First(), len(q.Subs))
		}
	})
}
