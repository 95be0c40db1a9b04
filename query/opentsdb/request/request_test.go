package request

import (
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/opentsdb/aggregation"
)

const nowMs = 1_700_000_000_123

func newParser() *Parser {
	return NewParser(func() time.Time { return time.UnixMilli(nowMs) }, Limits{})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	p := newParser()
	berlin, err := p.Zone("Europe/Berlin")
	require.NoError(t, err)
	for text, want := range map[string]int64{
		"now": nowMs, "NOW": nowMs, "1h-ago": nowMs - 3600_000, "10ms-ago": nowMs - 10, "1n-ago": nowMs - 30*864e5,
		"2y-ago": nowMs - 730*864e5, "999y-ago": 0, "1500000000": 1_500_000_000_000, "1500000000123": 1_500_000_000_123,
		"1500000000.1": 1_500_000_000_100, "1500000000.123": 1_500_000_000_123, "1500000000123ms": 1_500_000_000_123, "77ms": 77,
		"0": 0, "2017/07/14": 1_499_983_200_000, "2017/07/14 04:40": 1_500_000_000_000, "2017/07/14-04:40": 1_500_000_000_000,
		"2017/07/14 04:40:05": 1_500_000_005_000, "2017/07/14-04:40:05": 1_500_000_005_000,
	} {
		got, err := p.Time(text, berlin)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                     "Invalid time: .",
		"soon":                 "Invalid time: soon.",
		"-5":                   "Negative timestamps are not supported",
		"1.5":                  "limited to 3 digits",
		"1500000000.1234":      "limited to 3 digits",
		"99999999999999":       "Invalid timestamp",
		"1h3-ago":              "Invalid duration (suffix): 1h3-",
		"h-ago":                "Invalid duration (number)",
		"-ago":                 "Cannot parse null or empty duration",
		"0h-ago":               "Zero or negative duration",
		"2000y-ago":            "longer than a thousand years",
		"2017/13/14":           "Invalid date",
		"2017/07/14 04":        "Invalid absolute date",
		"99999999999999ms":     "Invalid timestamp",
		"12345678901234567890": "Invalid time",
	} {
		_, err := p.Time(text, berlin)
		require.ErrorContains(t, err, want[:len(want)-1], text)
	}
	_, err = p.Zone("Mars/Olympus")
	require.EqualError(t, err, "Invalid timezone name: Mars/Olympus")
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	p := newParser()
	sub, err := p.Sub("avg:rate{counter,255,10}:5mc-max-zero:explicit_tags:sys.cpu{host=*,dc=lga|sjc}"+
		"{cpu=regexp(^[0-9]:(a|b)$),x=not_key()}", time.UTC)
	require.NoError(t, err)
	require.Equal(t, "avg", sub.Aggregator.Name())
	require.Equal(t, "sys.cpu", sub.Metric)
	require.True(t, sub.ExplicitTags)
	require.Equal(t, &aggregation.Rate{Counter: true, CounterMax: 255, ResetValue: 10}, sub.Rate)
	require.Equal(t, int64(300_000), sub.Down.IntervalMs())
	require.True(t, sub.Down.Calendar)
	require.Equal(t, aggregation.FillZero, sub.Down.Fill)
	require.Equal(t, []string{"host", "dc"}, sub.GroupBy())
	var kinds []string
	for _, f := range sub.Filters {
		kinds = append(kinds, f.Key+" "+f.Type)
	}
	require.Equal(t, []string{"cpu regexp", "x not_key", "host wildcard", "dc literal_or"}, kinds)

	sub, err = p.Sub("sum:percentiles[99.9, 50]:show-histogram-buckets:m{}", time.UTC)
	require.NoError(t, err)
	require.Equal(t, []float64{50, 99.9}, sub.Percentiles)
	require.True(t, sub.Histograms())
	sub, err = p.Sub("sum:rate{dropcounter}:0all-sum:m{}{host=a*}", time.UTC)
	require.NoError(t, err)
	require.True(t, sub.Rate.DropResets && sub.Rate.Counter && sub.Down.All)
	require.Equal(t, iWildcard, sub.Filters[0].Type)
	require.Empty(t, sub.GroupBy())

	sub, err = p.Sub("sum:5m-avg-:m", time.UTC) // an empty fill policy is none
	require.NoError(t, err)
	require.Equal(t, aggregation.FillNothing, sub.Down.Fill)
}

func TestBadSpecs(t *testing.T) {
	t.Parallel()
	p := newParser()
	for spec, want := range map[string]string{
		"":                                "The query string was empty",
		"sum":                             "not enough :-separated parts",
		"sum:rate:1m-avg:pre-agg:x:m":     "too many :-separated parts",
		"sun:m":                           "No such aggregation function: sun",
		"sum:":                            "Metric cannot be null or empty",
		"sum:foo:m":                       `the part "foo" is unknown`,
		"sum::m":                          `the part "" is unknown`,
		"sum:m{host=a":                    "Missing '}' at the end of: m{host=a",
		"sum:m{host}":                     "When parsing tag 'host': invalid tag: host",
		"sum:m{}{=a}":                     "When parsing filter '=a': invalid tag: =a",
		"sum:m{host=regexp([)}":           "the regexp of the tag host",
		"sum:m{host=regexp(()}":           "the regexp of the tag host",
		"sum:m{host=nothing(a)}":          "Could not find a tag value filter of the type: nothing",
		"sum:m{host=wildcard(a)}":         "Filter must contain an asterisk",
		"sum:m{host=not_key(a)}":          "must be empty for the not_key filter",
		"sum:m{host=|}":                   "Filter must contain more than just a pipe",
		"sum:m{host=iliteral_or(||)}":     "Filter must contain more than just a pipe",
		"sum:m{host=wildcard()}":          "Filter cannot be null or empty",
		"sum:rate{:m":                     "Missing '}' at the end of: rate{:m",
		"sum:rate{counter,x}:m":           "Max value of counter was not a number, received 'x'",
		"sum:rate{counter,,x}:m":          "Reset value of counter was not a number, received 'x'",
		"sum:rate{counter,1,2,3}:m":       "Incorrect number of values in rate options",
		"sum:5m:m":                        "must provide at least interval and function",
		"sum:5m-:m":                       "must provide at least interval and function",
		"sum:5m-avg-zero-x:m":             "must consist of interval, function",
		"sum:5m-none:m":                   "cannot use the NONE aggregator for downsampling",
		"sum:5m-foo:m":                    "No such downsampling function: foo",
		"sum:5m-avg-foo:m":                "Unrecognized fill policy: foo",
		"sum:5m-avg-scalar:m":             "only /api/query/exp takes",
		"sum:5x-avg:m":                    "Invalid duration (suffix)",
		"sum:0m-avg:m":                    "Zero or negative duration",
		"sum:percentiles[101]:m":          "Invalid percentile parameters: 101",
		"sum:percentiles[a]:m":            "Malformated percentile",
		"sum:percentiles:m":               "Malformated percentile",
		"max:percentiles[50]:m":           "Only NONE or SUM aggregation",
		"sum:1m-avg:percentiles[50]:m":    "Only SUM downsampling",
		"sum:rollup_nothing:m":            "Unknown rollup usage",
		"sum:99999999999999999999h-sum:m": "Invalid duration (number)",
	} {
		_, err := p.Sub(spec, time.UTC)
		require.ErrorContains(t, err, want, spec)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, spec)
	}
}

// TestRepeatedSubQueries: equal sub-queries have one result, and the others keep their order.
func TestRepeatedSubQueries(t *testing.T) {
	t.Parallel()
	p := newParser()
	one := `{"aggregator":"sum","metric":"m","rate":true,"tags":{"a":"*"}}`
	q, err := p.JSON([]byte(`{"start":1,"queries":[` + one + `,{"aggregator":"sum","metric":"n"},` + one +
		`,{"aggregator":"sum","metric":"m","tags":{"a":"*"}},{"aggregator":"sum","metric":"m","tags":{"a":"b"}},` + one + `]}`))
	require.NoError(t, err)
	require.Len(t, q.Subs, 4)
	for i, s := range q.Subs {
		require.Equal(t, i, s.Index)
		require.Equal(t, i == 0, s.Rate != nil)
	}
	require.Equal(t, "n", q.Subs[1].Metric)
	q, err = p.URL(url.Values{"start": {"1"}, "m": {"sum:m{a=*}", "sum:m{}{a=*}", "sum:m{a=*}", "max:m{a=*}"}})
	require.NoError(t, err)
	require.Len(t, q.Subs, 3)
}

// TestIntegers: integers may be strings or have decimals.
func TestIntegers(t *testing.T) {
	t.Parallel()
	rate := func(max string) (*Query, error) {
		return newParser().JSON([]byte(`{"start":1,"queries":[{"aggregator":"sum","metric":"m","rate":true,"rateOptions":` +
			`{"counterMax":` + max + `,"resetValue":` + max + `}}]}`))
	}
	for text, want := range map[string]int64{
		"7": 7, `"7"`: 7, "7.9": 7, "1e3": 1000, "-7.9": -7, "9223372036854775807": math.MaxInt64,
	} {
		q, err := rate(text)
		require.NoError(t, err, text)
		require.Equal(t, &aggregation.Rate{CounterMax: want, ResetValue: want}, q.Subs[0].Rate, text)
	}
	q, err := rate("null")
	require.NoError(t, err)
	require.Equal(t, &aggregation.Rate{CounterMax: aggregation.DefaultCounterMax}, q.Subs[0].Rate)
	for _, text := range []string{`"x"`, "9223372036854775808", "true", `"7.9"`, "[7]"} {
		_, err := rate(text)
		require.ErrorContains(t, err, "is not a whole number", text)
	}
	last, err := newParser().LastJSON([]byte(`{"backScan":"24","queries":[{"metric":"m"}]}`))
	require.NoError(t, err)
	require.Equal(t, 24, last.BackScanHours)
}

// TestErrorsOfTimes: a number that does not parse has OpenTSDB's text.
func TestErrorsOfTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x": "Invalid character 'x' in x", "1a": "Invalid character 'a' in 1a", "-": "Just a sign, no value: -",
		"123456789012345678901": "Value too long: 123456789012345678901", "9999999999999999999": "Overflow in 9999999999999999999",
		"-é": "Invalid character 'é' in -é",
	} {
		_, err := newParser().Time(text, time.UTC)
		require.EqualError(t, err, "Invalid time: "+text+". "+want)
	}
}

// TestFilters lists the values of a tag that each filter selects. "" is a series without the tag.
func TestFilters(t *testing.T) {
	t.Parallel()
	values := []string{"", "web01", "WEB01", "web02", "db", "web", "xweb01"}
	for _, c := range []struct {
		kind, text string
		want       []string
	}{
		{literalOr, "web01|db", []string{"web01", "db"}},
		{iLiteralOr, "Web01|x", []string{"web01", "WEB01"}},
		{notLiteralOr, "web01|web02", []string{"WEB01", "db", "web", "xweb01"}},
		{notILiteralOr, "web01|web02", []string{"db", "web", "xweb01"}},
		{wildcard, "*", []string{"web01", "WEB01", "web02", "db", "web", "xweb01"}},
		{wildcard, "**", []string{"web01", "WEB01", "web02", "db", "web", "xweb01"}},
		{wildcard, "web*", []string{"web01", "web02", "web"}},
		{wildcard, "*1", []string{"web01", "WEB01", "xweb01"}},
		{wildcard, "w*0*", []string{"web01", "web02"}},
		{iWildcard, "WEB*1", []string{"web01", "WEB01"}},
		{regularExpr, "web0[1]", []string{"web01", "xweb01"}},
		{regularExpr, "^web", []string{"web01", "web02", "web"}},
		{regularExpr, ".*", []string{"web01", "WEB01", "web02", "db", "web", "xweb01"}},
		{notKey, "", []string{""}},
	} {
		f, err := newFilter(c.kind, "host", c.text)
		require.NoError(t, err)
		var got []string
		for _, v := range values {
			if matches(f.Matchers, v) {
				got = append(got, v)
			}
		}
		require.Equal(t, c.want, got, "%s(%s)", c.kind, c.text)
	}
}

func matches(ms []*labels.Matcher, v string) bool {
	for _, m := range ms {
		if !m.Matches(v) {
			return false
		}
	}
	return true
}

func TestBodies(t *testing.T) {
	t.Parallel()
	p := newParser()
	q, err := p.JSON([]byte(`{"start":1500000000,"end":"1500003600","msResolution":true,"showTSUIDs":"true","timezone":"Asia/Tokyo",
		"useCalendar":true,"delete":false,"unknown":[1],"globalAnnotations":null,"queries":[
		{"aggregator":"sum","metric":"m","tags":{"b":"x|y","a":"*"},
		"filters":[{"type":"wildcard","tagk":"c","filter":"*","groupBy":true}],
		"downsample":"1d-avg","rate":true,"rateOptions":{"counter":true,"counterMax":100,"resetValue":5,"dropResets":false}},
		{"aggregator":"none","tsuids":["00"],"rateOptions":null}]}`))
	require.NoError(t, err)
	require.Equal(t, int64(1_500_000_000_000), q.StartMs)
	require.Equal(t, int64(1_500_003_600_000), q.EndMs)
	require.True(t, q.MsResolution && q.ShowTSUIDs && q.Subs[0].Down.Calendar)
	require.Equal(t, "Asia/Tokyo", q.Subs[0].Down.Zone.String())
	require.Equal(t, []string{"b", "a", "c"}, q.Subs[0].GroupBy())
	require.Equal(t, &aggregation.Rate{Counter: true, CounterMax: 100, ResetValue: 5}, q.Subs[0].Rate)
	require.Equal(t, 1, q.Subs[1].Index)
	require.Nil(t, q.Subs[1].Rate)
	for body, want := range map[string]string{
		"":                                       "Missing message content",
		"{":                                      "Unable to parse the given JSON",
		"[]":                                     "Unable to parse the given JSON",
		"{}":                                     "Missing start time",
		`{"start":"1h-ago"}`:                     "Missing queries",
		`{"start":{}}`:                           "neither a string nor a number",
		`{"start":"2","end":"1","queries":[{}]}`: "must be greater than or equal to the start time",
		`{"start":"1","queries":[{}]}`:           "Missing the aggregation function",
		`{"start":"1","queries":[{"aggregator":"sum"}]}`:                             "Missing the metric or tsuids",
		`{"start":"1","msResolution":7,"queries":[]}`:                                "neither true nor false",
		`{"start":"1","queries":[{"aggregator":"sum","metric":"m","tags":[]}]}`:      "tags must be an object",
		`{"start":"1","queries":[{"aggregator":"sum","metric":"m","tags":{"a":1}}]}`: "the tag",
		`{"start":"1","queries":[{"aggregator":"sum","metric":"m","filters":[{}]}]}`: "The filter type cannot be null or empty",
	} {
		_, err := p.JSON([]byte(body))
		require.ErrorContains(t, err, want, body)
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	p := NewParser(func() time.Time { return time.UnixMilli(nowMs) }, Limits{SubQueriesMax: 2})
	v, err := url.ParseQuery("start=1h-ago&m=sum:a&tsuids=max:0102&ms&no_annotations=true&show_query=false&delete")
	require.NoError(t, err)
	q, err := p.URL(v)
	require.NoError(t, err)
	require.True(t, q.MsResolution && q.NoAnnotations && q.Delete)
	require.False(t, q.ShowQuery)
	require.Equal(t, []string{"0102"}, q.Subs[0].TSUIDs)
	require.Equal(t, "a", q.Subs[1].Metric)
	require.Equal(t, int64(nowMs), q.EndMs)
	for text, want := range map[string]string{
		"m=sum:a":                          "Missing parameter <code>start</code>",
		"start=1":                          "Missing sub queries",
		"start=1&m=sum:a&m=sum:b&m=sum:c":  "more than the limit of 2",
		"start=1&m=sum:a&timezone=Nowhere": "Invalid timezone name: Nowhere",
		"start=1&tsuid=sum":                "Invalid parameter tsuid=sum (not enough",
	} {
		v, err := url.ParseQuery(text)
		require.NoError(t, err)
		_, err = p.URL(v)
		require.ErrorContains(t, err, want, text)
	}
}

func TestExpressionBodies(t *testing.T) {
	t.Parallel()
	p := newParser()
	const body = `{"time":{"start":"1h-ago","aggregator":"sum","downsampler":{"interval":"1m","aggregator":"avg"}},
		"filters":[{"id":"f","tags":[{"type":"wildcard","tagk":"host","filter":"*","groupBy":true}],"explicitTags":true}],
		"metrics":[{"id":"a","metric":"m","filter":"f","fillPolicy":{"policy":"nan"}},{"id":"b","metric":"n","aggregator":"max"}],
		"expressions":[{"id":"e","expr":"a * g"},{"id":"g","expr":"a + b","join":{"operator":"intersection","useQueryTags":true}}]}`
	x, err := p.Expressions([]byte(body))
	require.NoError(t, err)
	require.True(t, x.Query.Subs[0].ExplicitTags)
	require.Equal(t, "max", x.Query.Subs[1].Aggregator.Name())
	require.Equal(t, "1m-avg", x.Query.Subs[1].Downsample)
	require.Zero(t, x.Metrics[1].Fill)
	require.Equal(t, []string{"g", "e"}, []string{x.Formulas[0].ID, x.Formulas[1].ID})
	require.True(t, x.Formulas[0].Join.Intersection && x.Formulas[0].Join.QueryTags)
	require.Len(t, x.Outputs, 2)
	replaced := func(old, with string) string { return strings.Replace(body, old, with, 1) }
	for text, want := range map[string]string{
		"":                                       "Missing message content",
		"{}":                                     "missing time",
		`{"time":{}}`:                            "missing or empty start",
		`{"time":{"start":"1h-ago"}}`:            "missing or empty metrics",
		replaced(`"id":"a"`, `"id":"a-b"`):       "illegal character: -",
		replaced(`"id":"a"`, `"id":"17"`):        "The ID cannot be an integer",
		replaced(`"id":"b"`, `"id":"a"`):         "duplicated metric id: a",
		replaced(`"id":"g"`, `"id":"a"`):         "Duplicated variable or expression id: a",
		replaced(`"filter":"f"`, `"filter":"x"`): "unrecognized filter id x in metric a",
		replaced(`a + b`, `a + c`):               "Expression [g] was missing input c",
		replaced(`a + b`, `a + e`):               "Circular reference found",
		replaced(`a + b`, `a + g`):               "Self referencing expression found: g",
		replaced(`a + b`, `a +`):                 "Invalid expression g",
		replaced(`"policy":"nan"`, `"policy":"zero","value":3`):           "The value for ZERO must be 0",
		replaced(`intersection`, `cross`):                                 "Unrecognized set operator: cross",
		replaced(`"metric":"m"`, `"metric":"m","timeOffset":"1d"`):        "the timeOffset of the metric a: 1d is not a time",
		replaced(`"metric":"m"`, `"metric":"m","timeOffset":"1x-ago"`):    "the timeOffset of the metric a: Invalid duration",
		replaced(`"expressions"`, `"outputs":[{"id":"q"}],"expressions"`): `the output "q"`,
	} {
		_, err := p.Expressions([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func TestCallsAndLast(t *testing.T) {
	t.Parallel()
	p := newParser()
	v := url.Values{"start": {"1h-ago"}, "exp": {"scale(sumSeries(avg:1m-avg:a{h=*},sum:b), 3)", "absolute(sum:c)"}}
	q, calls, err := p.Functions(v)
	require.NoError(t, err)
	require.Len(t, q.Subs, 3)
	require.Equal(t, []string{"3"}, calls[0].Params)
	require.Equal(t, 2, calls[1].First())
	for text, want := range map[string]string{
		"sum:a":        "a function and its arguments in brackets",
		"foo(sum:a)":   "Function foo has not been implemented",
		"scale(sum:a,": "a function and its arguments in brackets",
		"scale(,1)":    "an argument is empty",
		"scale(1)":     "Missing sub queries",
		"scale(sun:a)": "No such aggregation function: sun",
		strings.Repeat("scale(", 200) + "sum:a" + strings.Repeat(")", 200): "nested deeper than",
	} {
		_, _, err := p.Functions(url.Values{"start": {"1h-ago"}, "exp": {text}})
		require.ErrorContains(t, err, want, text)
	}

	last, err := p.LastURL(url.Values{"timeseries": {"m{a=b,c=d}", "n"}, "tsuids": {"01,02"}, "resolve": {""}, "back_scan": {"24"}})
	require.NoError(t, err)
	require.Equal(t, &Last{Resolve: true, BackScanHours: 24, Subs: []LastSub{
		{Metric: "m", Tags: map[string]string{"a": "b", "c": "d"}}, {Metric: "n", Tags: map[string]string{}},
		{TSUIDs: []string{"01", "02"}},
	}}, last)
	last, err = p.LastJSON([]byte(`{"queries":[{"metric":"m","tags":{"a":"b"}},{"tsuids":["01"]}],
		"resolveNames":true,"backScan":2}`))
	require.NoError(t, err)
	require.True(t, last.Resolve && last.BackScanHours == 2 && last.Subs[1].TSUIDs[0] == "01")
	for text, want := range map[string]string{
		"": "Missing sub queries", "timeseries=m{a": "Missing '}'", "timeseries=m{a}": "invalid tag: a",
		"timeseries=m&back_scan=x":  "back_scan",
		"timeseries=m&back_scan=-1": "not between", "timeseries={a=b}": "Missing metric or tsuids",
	} {
		v, err := url.ParseQuery(text)
		require.NoError(t, err)
		_, err = p.LastURL(v)
		require.ErrorContains(t, err, want, text)
	}
}
