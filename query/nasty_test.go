package query_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// nasty is an expensive or odd expression. want is the type of error, empty for a result; message is a part of its
// text.
type nasty struct {
	text    string
	want    query.ErrorType
	message string
}

func nastyExpressions() []nasty {
	deep := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	return []nasty{
		{"sum(", query.ErrorBadData, "unclosed left parenthesis"},
		{"", query.ErrorBadData, "no expression found"},
		{"\x00", query.ErrorBadData, "parse error"},
		{"\xff\xfe", query.ErrorBadData, "parse error"},
		{strings.Repeat("a", 1<<20+1), query.ErrorBadData, "(query.max-text-bytes)"},
		{deep(100_000, "(", "m", ")"), query.ErrorBadData, "(query.max-depth)"},
		{deep(100_000, "sum(", "m", ")"), query.ErrorBadData, "(query.max-depth)"},
		{deep(100_000, "-", "m", ""), query.ErrorBadData, "(query.max-depth)"},
		{deep(100_000, "1+", "m", ""), query.ErrorBadData, "(query.max-depth)"},
		{deep(100_000, "2^", "m", ""), query.ErrorBadData, "(query.max-depth)"},
		{deep(50_000, "m or ", "m", ""), query.ErrorBadData, "(query.max-depth)"},
		{deep(1900, "(", "m", ")"), "", ""},
		{deep(1900, "-", "m", ""), "", ""},
		{deep(900, "1+", "m", ""), "", ""},
		{deep(100_000, "(", "", ""), query.ErrorBadData, "(query.max-depth)"},
		{strings.Repeat("{", 100_000), query.ErrorBadData, ""},
		{"sum by (" + strings.Repeat("a,", 100_000) + "a) (m)", "", ""},
		{"label_join(m, \"x\", \",\"" + strings.Repeat(`, "i"`, 50_000) + ")", query.ErrorExecution, "(query.max-label-growth)"},
		{`m{i=~"` + strings.Repeat("(a{1000})", 2) + `"}`, "", ""},
		{`m{i=~"((a{100}){100}){100}"}`, query.ErrorBadData, "repeat"},
		{`m{i=~"(x+x+)+y"}`, "", ""},
		{`m{i=~"` + strings.Repeat("(a?){500}", 5) + `"}`, "", ""},
		{`m{i=~"` + strings.Repeat(".*", 5000) + `"}`, "", ""},
		{`m{i=~"` + strings.Repeat("[a-z]|", 50_000) + `x"}`, "", ""},
		{`m{i=~"("}`, query.ErrorBadData, "missing closing )"},
		{"max_over_time(m[10y:1ms])", query.ErrorExecution, "(query.max-subquery-steps)"},
		{"max_over_time(m[290y:1ms])", query.ErrorExecution, "(query.max-subquery-steps)"},
		{"max_over_time(max_over_time(max_over_time(m[1y:1m])[1y:1m])[1y:1m])", query.ErrorExecution, "(query.max-subquery-"},
		{"sum_over_time(sum_over_time(m[10d:1s])[3d:10s])", query.ErrorExecution, "(query.max-subquery-"},
		{"max_over_time(vector(1)[11d:1s])", "", ""},
		{"absent_over_time((nothing + nothing)[10d:1s])", "", ""},
		{"m[10y]", "", ""},
		{"m offset 290y", "", ""},
		{"m offset -290y", "", ""},
		{"m @ 9e15", "", ""},
		{"m @ -9e15", "", ""},
		{"m @ 1e30", query.ErrorBadData, ""},
		{"rate(m[0s])", query.ErrorBadData, ""},
		{"rate(m[1000000y])", query.ErrorBadData, ""},
		{"rate(m[5m:0s])", query.ErrorBadData, "greater than 0"},
		{"rate(m[1h:1s])", "", ""},
		{"topk(1e300, m)", query.ErrorExecution, "overflows"},
		{"topk(NaN, m)", query.ErrorExecution, ""},
		{"bottomk(-5, m)", "", ""},
		{"quantile(NaN, m)", "", ""},
		{"round(m, 0)", "", ""},
		{"m * on () group_left () m", query.ErrorExecution, "many-to-many"},
		{"m * on () m", query.ErrorExecution, "many-to-many"},
		{`label_replace(m, "i", "x", "", "")`, query.ErrorExecution, "same labelset"},
		{`label_replace(m, "bad-\xff", "x", "", "")`, query.ErrorExecution, "invalid"},
		{`label_replace(m, "x", "$1", "i", "(((((((((("`, query.ErrorBadData, ""},
		{
			`label_replace(m, "x", "` + strings.Repeat("$1", 10_000) + `", "i", "(.*)")`, query.ErrorExecution,
			"(query.max-label-growth)",
		},
		{bomb(6), "", ""},
		{bomb(7), query.ErrorExecution, "(query.max-label-growth)"},
		{bomb(40), query.ErrorExecution, "(query.max-label-growth)"},
		{`count_values("\xff", m)`, query.ErrorExecution, "invalid label name"},
		{`histogram_quantile(0.5, m)`, "", ""},
		{"{}", query.ErrorBadData, "at least one non-empty matcher"},
		{`{__name__=~".+"}`, "", ""},
		{"scalar(m) ^ scalar(m) ^ 1e308", "", ""},
	}
}

// bomb doubles the length of a label n times.
func bomb(n int) string {
	text := `label_replace(m, "x", "0123456789abcdef", "", "")`
	for range n {
		text = `label_replace(` + text + `, "x", "$1$1", "x", "(.*)")`
	}
	return text
}

// TestNastyExpressions: each expression has a result or the right error, and the engine continues.
func TestNastyExpressions(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	var samples []ingest.Sample
	for i := range 50 {
		ls := labels.FromStrings("__name__", "m", "i", fmt.Sprint(i))
		for at := dataFrom; at < dataFrom+hourMs; at += 60_000 {
			samples = append(samples, ingest.Sample{Labels: ls, TsMs: at, Value: float64(i)})
		}
	}
	s.write(samples)
	e := cachingEngine(t, s, func(o *query.Options) {
		o.QueryBytesMax, o.Timeout, o.Experimental = 1<<20, 20*time.Second, false
	})
	check := func(n nasty, kind string, res *query.Result, err error) {
		name := n.text
		if len(name) > 100 {
			name = name[:100] + "…"
		}
		if err == nil {
			res.Close()
			require.Empty(t, n.want, "%s: %s", kind, name)
			return
		}
		var typed *query.Error
		require.True(t, errors.As(err, &typed))
		require.Equal(t, n.want, typed.Type, "%s: %s: %v", kind, name, err)
		require.Contains(t, err.Error(), n.message, name)
		require.Less(t, len(err.Error()), 2<<20)
	}
	for _, n := range nastyExpressions() {
		began := time.Now()
		res, err := e.Instant(context.Background(), query.InstantRequest{
			Query: n.text, TimeMs: dataFrom + hourMs/2, Params: query.Params{Explain: true},
		})
		check(n, "instant", res, err)
		if n.text != "m[10y]" {
			res, err = e.Range(context.Background(), query.RangeRequest{
				Query: n.text, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + hourMs), Step: 10 * time.Minute,
			})
			check(n, "range", res, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Logf("%s: %.60q", took, n.text)
		}
	}
	require.Empty(t, e.Active())
}
