package tools

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// now is the time of the tests.
var now = time.Unix(1_600_000_000, 0)

func parse(text string) (arguments, error) {
	return parseArguments(strings.Split(text, " "), now, time.UTC)
}

func TestArguments(t *testing.T) {
	tags := func(list ...string) map[string]string {
		out := map[string]string{}
		for i := 0; i < len(list); i += 2 {
			out[list[i]] = list[i+1]
		}
		return out
	}
	end, counter := now.UnixMilli(), &rateOptions{Counter: true, CounterMax: 255}
	for text, want := range map[string]arguments{
		"1h-ago sum m": {end - 3600_000, end, []subQuery{{Aggregator: "sum", Metric: "m", Tags: tags()}}},
		"2020/01/01 2020/01/01-01:00 +wxh=1x2 avg sys.cpu host=a|b cpu=*": {1577836800_000, 1577840400_000, []subQuery{
			{Aggregator: "avg", Metric: "sys.cpu", Tags: tags("host", "a|b", "cpu", "*")}}},
		"1500000000 1500000001 sum rate counter,255 downsample 5000 max m h=a min rate downsample 5m avg n": {
			1500000000_000, 1500000001_000, []subQuery{
				{Aggregator: "sum", Metric: "m", Tags: tags("h", "a"), Rate: true, RateOptions: counter, Downsample: "5000ms-max"},
				{Aggregator: "min", Metric: "n", Tags: tags(), Rate: true, Downsample: "5m-avg"}}},
	} {
		got, err := parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"1h-ago sum":                      "not enough arguments",
		"yesterday sum m":                 "START: ",
		"1h-ago 1x-ago sum m":             "END: ",
		"1h-ago 2h-ago sum m":             "the end 2h-ago is before the start 1h-ago",
		"1h-ago total m":                  "AGGREGATOR: no such aggregator: total",
		"1h-ago sum rate":                 "METRIC is missing",
		"1h-ago sum rate counter,x m":     `"x" is not a whole number`,
		"1h-ago sum rate counters m":      `"counters" is not counter,MAX,RESET`,
		"1h-ago sum downsample 0 avg m":   "downsample: Zero or negative duration",
		"1h-ago sum downsample 5q avg m":  "downsample: Invalid duration",
		"1h-ago sum downsample 5m none m": "none cannot downsample",
		"1h-ago sum downsample 5m":        "the function after downsample is missing",
		"1h-ago sum m h=1 h=2":            `"h=2" is not TAG=VALUE`,
		"1h-ago sum m h=":                 `"h=" is not TAG=VALUE`,
		"1h-ago sum m sum":                "METRIC is missing",
	} {
		_, err := parse(text)
		require.ErrorContains(t, err, want, text)
	}
}

// FuzzArguments parses arguments. Accepted arguments are complete.
func FuzzArguments(f *testing.F) {
	f.Add("1h-ago now sum rate counter,255,1 downsample 5m avg m h=a min n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, got.startMs, got.endMs)
		require.NotEmpty(t, got.queries)
		for _, q := range got.queries {
			require.NotEmpty(t, q.Aggregator)
			require.NotEmpty(t, q.Metric)
			for key, value := range q.Tags {
				require.NotEmpty(t, key)
				require.NotEmpty(t, value)
			}
		}
	})
}

// TestStored compares the rows and cells with bytes that OpenTSDB's format gives.
func TestStored(t *testing.T) {
	e := &storedEncoder{zone: time.UTC}
	e.Begin(labels.FromStrings("__name__", "m", "h", "a", "c", "0"))
	e.Float(1356998400_000, 42)
	e.Float(1356998401_250, -300)
	e.Float(1357002000_000, 2.5)
	e.Float(1357002001_000, 0.1)
	require.NoError(t, e.Histogram(1, nil, nil))
	require.Equal(t, 4, e.Rows())
	lines := strings.Split(string(e.Append(nil)), "\n")
	require.Len(t, lines, 7)
	key, rest, _ := strings.Cut(lines[0], "] ")
	require.Equal(t, "m 1356998400 (Tue Jan 01 00:00:00 UTC 2013) {c=0, h=a}", rest)
	require.Len(t, strings.Split(key, ", "), 8+4+2*16)
	require.Equal(t, "80, -30, 39, 0", strings.Join(strings.Split(key, ", ")[8:12], ", "), "the time in the key")
	require.Equal(t, []string{
		"  [0, 0]\t[42]\t0\tl\t1356998400\t(Tue Jan 01 00:00:00 UTC 2013)",
		"  [-16, 1, 56, -127]\t[-2, -44]\t1250\tl\t1356998401250\t(Tue Jan 01 00:00:01 UTC 2013)",
	}, lines[1:3])
	require.Contains(t, lines[3], "] m 1357002000 (Tue Jan 01 01:00:00 UTC 2013) {c=0, h=a}")
	require.Equal(t, []string{
		"  [0, 11]\t[64, 32, 0, 0]\t0\tf\t1357002000\t(Tue Jan 01 01:00:00 UTC 2013)",
		"  [0, 31]\t[63, -71, -103, -103, -103, -103, -103, -102]\t1\tf\t1357002001\t(Tue Jan 01 01:00:01 UTC 2013)",
		"",
	}, lines[4:])
	require.EqualValues(t, 1, e.left.Histograms)
}

func TestCells(t *testing.T) {
	for _, c := range []struct {
		v     float64
		size  int
		flags uint16
	}{
		{127, 1, 0}, {-128, 1, 0}, {128, 2, 1}, {-32768, 2, 1}, {32768, 4, 3}, {1 << 31, 8, 7}, {1<<53 - 1, 8, 7},
		{1 << 53, 4, 11}, {0.5, 4, 11}, {0.1, 8, 15}, {math.Copysign(0, -1), 4, 11}, {math.NaN(), 8, 15},
	} {
		cell, flags := cellOf(c.v)
		require.Len(t, cell, c.size, "%v", c.v)
		require.Equal(t, c.flags, flags, "%v", c.v)
	}
}

// TestPrintSeries formats values as Java's %f does.
func TestPrintSeries(t *testing.T) {
	response := `[{"metric":"m","tags":{"h":"a","c":"0"},
		"dps":[[1000,42],[2000,42.0],[3000,5.0E-7],[4000,-1.5E7],[5000,"NaN"],[6000,null]]},
		{"metric":"m","tags":{},"dps":[]}]`
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	d := json.NewDecoder(strings.NewReader(response))
	d.UseNumber()
	require.NoError(t, printSeries(d, w))
	require.NoError(t, w.Flush())
	require.Equal(t, "m 1000 42 {c=0, h=a}\nm 2000 42.000000 {c=0, h=a}\nm 3000 0.000001 {c=0, h=a}\n"+
		"m 4000 -15000000.000000 {c=0, h=a}\nm 5000 NaN {c=0, h=a}\nm 6000 NaN {c=0, h=a}\n", out.String())
	for _, cut := range []string{"", "{}", response[:40], response[:len(response)-1]} {
		require.Error(t, printSeries(json.NewDecoder(strings.NewReader(cut)), w), cut)
	}
}

func TestSearchArguments(t *testing.T) {
	got, err := parseSearch([]string{"m", "host=", "=web01", "a=b"})
	require.NoError(t, err)
	require.Equal(t, searched{Metric: "m", Tags: []searchTag{{"host", ""}, {"", "web01"}, {"a", "b"}}}, got)
	for _, bad := range [][]string{{"m", "n"}, {"="}, {""}, {"a=b=c"}} {
		_, err := parseSearch(bad)
		require.ErrorContains(t, err, "is not TAG=VALUE")
	}
}

// TestTranslate prints a translation, a reason, and errors.
func TestTranslate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "queries")
	require.NoError(t, os.WriteFile(file, []byte("/api/query?start=1500000000&end=1500000600&m=zimsum:5m-max:cpu\n"+
		"/api/query?start=1h-ago&m=sum:cpu\n"), 0o600))
	c := &translate{file: file}
	var out bytes.Buffer
	require.NoError(t, c.run(t.Context(), &out))
	require.Equal(t, "# zimsum:5m-max:cpu\n# Range query with a step of 300s from 2017-07-14T02:40:00Z to 2017-07-14T02:50:00Z.\n"+
		"# OpenTSDB also returns the tags that all series of a group share.\n"+
		"# PromQL compensates rounding errors, so sums, averages and deviations of fractions may differ in the last digits.\n"+
		`sum (max_over_time({__name__="cpu",_rollup_interval="",_rollup_aggregator="",_aggregate=""}[5m] offset -4m59s999ms))`+
		"\n\n# sum:cpu\n# No PromQL has the same result: without downsampling OpenTSDB answers at the times of the samples, "+
		"and PromQL at evenly spaced times.\n\n", out.String())
	c.file = filepath.Join(t.TempDir(), "none")
	require.ErrorIs(t, c.run(t.Context(), &out), os.ErrNotExist)
}
