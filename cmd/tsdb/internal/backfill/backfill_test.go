package backfill

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/cmd/tsdb/internal/rules"
	"halite/query"
)

func read(t *testing.T, text string) *rules.Files {
	path := filepath.Join(t.TempDir(), "r.yml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	files, err := rules.ReadFiles([]string{path}, query.NewParser(query.Options{}))
	require.NoError(t, err)
	return files
}

// TestOrdered: groups come after the groups whose results they read. Cycles are found.
func TestOrdered(t *testing.T) {
	type order struct {
		text     string
		names    []string
		circular bool
	}
	for _, want := range []order{
		{`[{name: a, rules: [{record: x, expr: y}]}, {name: b, rules: [{record: y, expr: up}]}]`, []string{"b", "a"}, false},
		{`[{name: a, rules: [{record: x, expr: up}, {record: z, expr: x}]}, {name: b, rules: []}]`, []string{"a"}, false},
		{`[{name: a, rules: [{record: x, expr: y}]}, {name: b, rules: [{record: y, expr: x}]}]`, []string{"b", "a"}, true},
		{`[{name: a, rules: [{record: x, expr: up or x offset 1m}]}]`, []string{"a"}, true},
		{`[{name: a, rules: [{record: x, expr: z}, {record: z, expr: up}]}]`, []string{"a"}, true},
		{`[{name: a, rules: [{record: x, expr: 'sum({job="a"})'}]}]`, []string{"a"}, true},
		{
			`[{name: a, rules: [{record: x, expr: '{__name__=~"y.*"}'}]}, {name: b, rules: [{record: y1, expr: up}]}]`,
			[]string{"b", "a"}, false,
		},
		{`[{name: a, rules: [{record: x, expr: up}, {alert: A, expr: x}]}]`, []string{"a"}, false},
	} {
		text := "groups: " + want.text
		groups, _, err := newGroups(read(t, text), time.Minute, 0)
		require.NoError(t, err)
		got, circular := ordered(groups)
		var names []string
		for _, g := range got {
			names = append(names, g.name)
		}
		require.Equal(t, want.names, names, text)
		require.Equal(t, want.circular, circular, text)
	}
}

// TestEvaluations: the times do not depend on where a window begins, and fit the limit of points.
func TestEvaluations(t *testing.T) {
	text := `groups: [{name: a, interval: 10s, query_offset: 3s, rules: [{record: x, expr: up}, {alert: A, expr: up}]}]`
	b := &backfill{fromMs: 1_000_000_123, toMs: 1_000_600_000}
	var alerting int
	var err error
	b.groups, alerting, err = newGroups(read(t, text), time.Minute, b.fromMs)
	require.NoError(t, err)
	require.Equal(t, 1, alerting)
	g := b.groups[0]
	first, last, count := g.evaluations(b.fromMs, b.toMs)
	require.GreaterOrEqual(t, first, b.fromMs)
	require.Less(t, first, b.fromMs+10_000)
	require.LessOrEqual(t, last, b.toMs)
	require.Equal(t, (last-first)/10_000+1, count)
	require.Equal(t, count, b.work())
	later, _, _ := g.evaluations(first+1, b.toMs)
	require.Equal(t, first+10_000, later)
	again, _, _ := g.evaluations(first, b.toMs)
	require.Equal(t, first, again)
	_, _, count = g.evaluations(first+1, first+9_999)
	require.Zero(t, count)
	b.arrange(1000 * time.Hour)
	require.Equal(t, int64(stepsMax*10_000), b.windowMs)
	b.arrange(time.Minute)
	require.Equal(t, int64(60_000), b.windowMs)
	b.groups[0].rules[0].name = "up"
	b.arrange(time.Minute)
	require.Equal(t, int64(10_000), b.windowMs, "a rule that reads its own result")
}

// TestResults: series get the labels of the rule, as when the server evaluates it.
func TestResults(t *testing.T) {
	r := &rule{name: "x", labels: labels.FromStrings("room", "", "kind", "k")}
	sample := func(room string, ms int64, v float64) *model.SampleStream {
		return &model.SampleStream{
			Metric: model.Metric{"__name__": "temp", "room": model.LabelValue(room)},
			Values: []model.SamplePair{{Timestamp: model.Time(ms), Value: model.SampleValue(v)}},
		}
	}
	got, err := r.results(model.Matrix{sample("a", 1000, 1), sample("b", 2000, 2)})
	require.NoError(t, err)
	ls := labels.FromStrings("__name__", "x", "kind", "k")
	require.Equal(t, map[string]*result{ls.String(): {labels: ls, points: map[int64]float64{1000: 1, 2000: 2}}}, got)
	_, err = r.results(model.Matrix{sample("a", 1000, 1), sample("b", 1000, 2)})
	require.ErrorContains(t, err, `the result has {__name__="x", kind="k"} twice at 1970-01-01T00:00:01Z`)
	_, err = r.results(model.Matrix{{Histograms: []model.SampleHistogramPair{{}}}})
	require.ErrorContains(t, err, "native histograms")

	two := map[string]*result{"a": {points: map[int64]float64{1: 1, 2: 1}}, "b": {points: map[int64]float64{2: 1}}}
	require.NoError(t, checkLimit(two, 0))
	require.NoError(t, checkLimit(two, 2))
	require.ErrorContains(t, checkLimit(two, 1), "exceeds the limit of 1 series")
}

// TestFlags: bad times and files are named before any request.
func TestFlags(t *testing.T) {
	path := read(t, "groups: [{name: a, rules: [{alert: A, expr: up}]}]").Paths[0]
	now := time.Unix(1e9, 0)
	for want, c := range map[string]command{
		"--from: ":                               {from: "x", to: "now"},
		"--to: ":                                 {from: "1h", to: "x"},
		"before --from":                          {from: "1h", to: "2h"},
		"in the future":                          {from: "1h", to: "2030-01-01"},
		"--window must be at least":              {from: "1h", to: "now", interval: time.Second},
		"the files have no recording rules":      {from: "1h", to: "now", interval: 1e9, window: 1e9, files: []string{path}},
		"nothing.yml: file does not exist":       {from: "1h", to: "now", interval: 1e9, window: 1e9, files: []string{"nothing.yml"}},
		"--from is 1969-12-31T00:00:00Z, before": {from: "1969-12-31", to: "now"},
	} {
		c.now = func() time.Time { return now }
		require.ErrorContains(t, c.run(t.Context(), new(bytes.Buffer)), want)
	}
	require.ErrorContains(t, checkFiles(new(bytes.Buffer), []string{filepath.Join(t.TempDir(), "*")}, false), "match no file")
}
