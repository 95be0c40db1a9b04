package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
	"halite/ingest"
	"halite/query"
	"halite/query/opentsdb/request"
	"halite/query/opentsdb/translation"
	"halite/storage/storagetest/seeds"
)

// TestOpenTSDBTranslations runs random queries and their translations on both engines over random data. Responses are equal,
// except for what the notes of a translation name.
func TestOpenTSDBTranslations(t *testing.T) {
	t.Parallel()
	random := seeds.Rand(t, 1)
	s := newOTSDB(t, query.Options{})
	s.fillRandom(t, random)
	p := request.NewParser(comparison.Now, request.Limits{})
	translated := 0
	for range 300 {
		v := url.Values{
			"start": {fmt.Sprint(comparison.End - 5400 - random.IntN(3600))}, "end": {fmt.Sprint(comparison.End - random.IntN(3600))},
			"m": {randomSpec(random)},
		}
		all, err := translation.Read([]byte("/api/query?"+v.Encode()), p)
		require.NoError(t, err)
		if all[0].PromQL == "" {
			continue
		}
		translated++
		ours, theirs := s.openTSDBPoints(t, v), s.promQLPoints(t, &all[0])
		if slices.ContainsFunc(all[0].Notes, func(note string) bool { return strings.HasPrefix(note, "OpenTSDB also returns 0 ") }) {
			maps.DeleteFunc(ours, func(at string, v float64) bool {
				_, found := theirs[at]
				return v == 0 && !found
			})
		}
		text := fmt.Sprint(v, "\n", all[0].PromQL)
		require.Len(t, theirs, len(ours), text)
		for at, want := range ours {
			got, found := theirs[at]
			require.True(t, found, "%s\n%s", text, at)
			require.InDelta(t, want, got, 1e-9*math.Max(1, math.Abs(want)), "%s\n%s", text, at)
		}
	}
	require.Greater(t, translated, 60)
}

// fillRandom writes three hours of series with gaps, uneven times, and different beginnings and ends.
func (s *otsdb) fillRandom(t *testing.T, random *rand.Rand) {
	t.Helper()
	var samples []ingest.Sample
	for i := range 6 {
		ls := labels.FromStrings("__name__", "load", "host", fmt.Sprintf("web%d", i/2), "cpu", fmt.Sprint(i%2), "a.b", "x")
		at := int64(comparison.End-3*3600+random.IntN(3600)) * 1000
		for end := int64(comparison.End-random.IntN(3600)) * 1000; at < end; at += random.Int64N(90_000) + 1 {
			if random.IntN(30) == 0 {
				at += 900_000
			}
			if random.IntN(4) == 0 {
				at -= at % 60_000 // at the edge of intervals
			}
			v := float64(random.IntN(2000) - 500)
			if random.IntN(2) == 0 {
				v /= 7
			}
			if n := len(samples); n == 0 || samples[n-1].TsMs < at || !labels.Equal(samples[n-1].Labels, ls) {
				samples = append(samples, ingest.Sample{Labels: ls, TsMs: at, Value: v})
			}
		}
	}
	_, err := s.ingester.Write(context.Background(), ingest.SamplesInput(samples))
	require.NoError(t, err)
}

// randomSpec returns a random parameter m.
func randomSpec(random *rand.Rand) string {
	one := func(list ...string) string { return list[random.IntN(len(list))] }
	rate := one("", "", "rate:")
	fill := one("", "-nan", "-null", "-zero")
	if rate != "" {
		fill = "-nan"
	}
	return one("sum", "zimsum", "min", "max", "mimmin", "mimmax", "avg", "count", "dev", "none", "pfsum") + ":" + rate +
		one("1m", "5m", "7m", "90s", "1h", "0all") + "-" + one("sum", "avg", "min", "max", "count", "last", "dev", "zimsum") + fill +
		":load" + one("", "{host=*}", "{host=web0|web1,cpu=*}", "{a.b=*}{cpu=wildcard(*)}", "{}{host=regexp(1)}")
}

// openTSDBPoints returns the points of a query by group and time. It leaves out NaN.
func (s *otsdb) openTSDBPoints(t *testing.T, v url.Values) map[string]float64 {
	t.Helper()
	v = url.Values{"start": v["start"], "end": v["end"], "m": v["m"], "ms": {""}, "arrays": {""}, "show_query": {""}}
	w := s.send(http.MethodGet, "/api/query?"+v.Encode(), "")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var response []struct {
		Tags  map[string]string
		Query struct {
			Aggregator string
			Tags       map[string]string
		}
		Dps [][2]any
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
	out := map[string]float64{}
	for _, series := range response {
		tags := labels.FromMap(series.Tags)
		if series.Query.Aggregator != "none" {
			b := labels.NewBuilder(labels.EmptyLabels())
			for key := range series.Query.Tags {
				b.Set(key, series.Tags[key])
			}
			tags = b.Labels()
		}
		for _, point := range series.Dps {
			if value, ok := point[1].(float64); ok {
				out[fmt.Sprintf("%s %.0f", tags, point[0])] = value
			}
		}
	}
	return out
}

// promQLPoints returns the points of a range query by labels and time.
func (s *otsdb) promQLPoints(t *testing.T, tr *translation.Translation) map[string]float64 {
	t.Helper()
	form := url.Values{
		"query": {tr.PromQL}, "start": {tr.Range.Start.Format(time.RFC3339Nano)}, "end": {tr.Range.End.Format(time.RFC3339Nano)},
		"step": {fmt.Sprint(tr.StepSeconds)},
	}
	w := s.send(http.MethodGet, "/api/v1/query_range?"+form.Encode(), "")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var response struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &response))
	out := map[string]float64{}
	for _, series := range response.Data.Result {
		delete(series.Metric, "__name__")
		for _, point := range series.Values {
			value, err := strconv.ParseFloat(point[1].(string), 64)
			require.NoError(t, err)
			out[fmt.Sprintf("%s %.0f", labels.FromMap(series.Metric), point[0].(float64)*1000)] = value
		}
	}
	return out
}
