package query_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/rollup/histograms"
	"halite/storage/storagetest/seeds"
)

const (
	hourlyFrom = int64(20_000) * dayMs
	hourlyDays = 4
)

// TestHourlyHistogramsAgainstPrometheus: increase and delta between the last histograms of two hours equal Prometheus's
// results, whether the samples are retired or not. The samples have counter resets, stale markers, gaps, late samples and
// deletions.
func TestHourlyHistogramsAgainstPrometheus(t *testing.T) {
	seed := seeds.Number(t, "HALITE_SEED", defaultSeed)
	t.Logf("HALITE_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 17))
	clock := new(atomic.Int64)
	clock.Store(hourlyFrom + hourlyDays*dayMs + 2*hourMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{
		tiers: true, clock: clock, raw: 5 * 24 * time.Hour, hours: 100 * 24 * time.Hour, days: 200 * 24 * time.Hour,
	})
	defer func() { require.NoError(t, s.Close()) }()
	all := hourlySamples(rng)
	var onTime, late []ingest.Sample
	for _, sample := range all {
		if rng.IntN(50) == 0 {
			late = append(late, sample)
		} else {
			onTime = append(onTime, sample)
		}
	}
	for _, part := range [][]ingest.Sample{onTime, late} {
		s.write(part)
		s.flush()
		s.rollUp()
	}
	all = deleteSome(s, rng, all)
	s.rollUp()
	v, err := s.tiers.Verify(t.Context(), 0, hourlyFrom/dayMs+10, nil)
	require.NoError(t, err)
	require.Zero(t, v.Different+v.Missing+v.Stale)

	clock.Store(hourlyFrom + 7*dayMs) // two days are retired, two are not
	theirs := newQueryEngine(t, histogramsOf(t, all), query.Off)
	compareHourly(t, rng, newQueryEngine(t, s, query.On), theirs, all)
	clock.Store(hourlyFrom + 20*dayMs)
	compareHourly(t, rng, newQueryEngine(t, s, query.On), theirs, all)
}

// hourlySamples makes series of histograms in sequence.
func hourlySamples(rng *rand.Rand) (list []ingest.Sample) {
	for i, metric := range []string{"hi", "hi", "hf", "hf", "hg", "hc"} {
		source := histogramSource{Rand: rng, metric: metric}
		source.reset()
		ls := labels.FromStrings("__name__", metric, "inst", fmt.Sprint(i))
		for ts := hourlyFrom; ts < hourlyFrom+hourlyDays*dayMs; ts += 120_000 + rng.Int64N(3) {
			if rng.IntN(100) == 0 {
				ts += rng.Int64N(3 * hourMs)
				continue
			}
			sample := source.next()
			sample.Labels, sample.TsMs = ls, ts
			list = append(list, sample)
		}
	}
	return list
}

// deleteSome deletes a few hours of some series.
func deleteSome(s *stack, rng *rand.Rand, all []ingest.Sample) []ingest.Sample {
	for inst := range 3 {
		from := hourlyFrom + rng.Int64N(hourlyDays*dayMs)
		to := from + rng.Int64N(4*hourMs)
		s.delete(from, to, labels.MustNewMatcher(labels.MatchEqual, "inst", fmt.Sprint(inst)))
		all = slices.DeleteFunc(all, func(sample ingest.Sample) bool {
			return sample.Labels.Get("inst") == fmt.Sprint(inst) && from <= sample.TsMs && sample.TsMs <= to
		})
	}
	return all
}

func histogramsOf(t *testing.T, all []ingest.Sample) *teststorage.TestStorage {
	s := teststorage.New(t)
	app := s.Appender(context.Background())
	for _, h := range all {
		var err error
		if h.H != nil {
			_, err = app.AppendHistogram(0, h.Labels, h.TsMs, h.H.Copy(), nil)
		} else {
			_, err = app.AppendHistogram(0, h.Labels, h.TsMs, nil, h.FH.Copy())
		}
		require.NoError(t, err)
	}
	require.NoError(t, app.Commit())
	return s
}

// lastTimes returns the time of the last histogram of each hour of each series, by instance.
func lastTimes(all []ingest.Sample) map[string][]int64 {
	out := map[string][]int64{}
	for _, s := range all {
		if s.H != nil && value.IsStaleNaN(s.H.Sum) || s.FH != nil && value.IsStaleNaN(s.FH.Sum) {
			continue
		}
		inst := s.Labels.Get("inst")
		times := out[inst]
		if n := len(times); n > 0 && times[n-1]/hourMs == s.TsMs/hourMs {
			times[n-1] = s.TsMs
		} else {
			out[inst] = append(times, s.TsMs)
		}
	}
	return out
}

func compareHourly(t *testing.T, rng *rand.Rand, ours, theirs *query.Engine, all []ingest.Sample) {
	t.Helper()
	compared := 0
	byInstance := lastTimes(all)
	for _, inst := range slices.Sorted(maps.Keys(byInstance)) {
		times, function := byInstance[inst], "increase"
		if inst == "4" {
			function = "delta" // of gauges
		}
		for range 40 {
			from := rng.IntN(len(times) - 1)
			to := from + 1 + rng.IntN(len(times)-from-1) // long windows are read in slices
			text := fmt.Sprintf("%s({inst=%q,__name__=~'h.'}[%dms])", function, inst, times[to]-times[from]+1)
			want, got := queryHistogram(t, theirs, text, times[to]), queryHistogram(t, ours, text, times[to])
			require.Equal(t, want == nil, got == nil, "%s at %d", text, times[to])
			if want == nil {
				continue
			}
			compared++
			if !want.UsesCustomBuckets() {
				schema := min(want.Schema, histograms.SchemaMax)
				want, got = want.CopyToSchema(schema), got.CopyToSchema(schema)
			}
			require.True(t, nearHistogram(want, got), "%s at %d: %s, not %s", text, times[to], got, want)
		}
	}
	require.Greater(t, compared, 200)
}

func queryHistogram(t *testing.T, e *query.Engine, text string, atMs int64) *histogram.FloatHistogram {
	t.Helper()
	res, err := e.Instant(context.Background(), query.InstantRequest{Query: text, TimeMs: atMs})
	require.NoError(t, err)
	defer res.Close()
	vector, ok := res.Value.(promql.Vector)
	require.True(t, ok)
	if len(vector) == 0 {
		return nil
	}
	require.Len(t, vector, 1)
	return vector[0].H.Copy()
}

// TestHourlyHistogramsAreDeleted: a deletion removes hourly histograms of retired times immediately and permanently. Floats of
// that time stay hidden.
func TestHourlyHistogramsAreDeleted(t *testing.T) {
	clock := new(atomic.Int64)
	clock.Store(hourlyFrom + dayMs + 2*hourMs)
	s := openStackWith(t, vfs.NewMem(), stackOptions{
		tiers: true, clock: clock, raw: 48 * time.Hour, hours: 100 * 24 * time.Hour, days: 200 * 24 * time.Hour,
	})
	defer func() { require.NoError(t, s.Close()) }()
	ls := labels.FromStrings("__name__", "hist", "job", "a")
	for hour := range int64(6) {
		ts := hourlyFrom + hour*hourMs
		s.write([]ingest.Sample{
			{Labels: ls, TsMs: ts, H: tsdbutil.GenerateTestHistogram(2 * hour)}, {Labels: ls, TsMs: ts + 1, Value: 1},
			{Labels: ls, TsMs: ts + 2, H: tsdbutil.GenerateTestHistogram(2*hour + 1)},
		})
	}
	s.flush()
	s.rollUp()
	clock.Add(4 * dayMs)
	e := newQueryEngine(t, s, query.On)
	count := func() string {
		res, err := e.Instant(context.Background(), query.InstantRequest{
			Query: "count_over_time({job='a'}[6h])", TimeMs: hourlyFrom + 6*hourMs,
		})
		require.NoError(t, err)
		defer res.Close()
		require.NotEmpty(t, res.Warnings)
		return res.Value.String()
	}
	require.Contains(t, count(), "=> 6 @") // the last of each hour
	matcher := labels.MustNewMatcher(labels.MatchEqual, "job", "a")
	s.delete(hourlyFrom+2*hourMs, hourlyFrom+4*hourMs-1, matcher)
	require.Contains(t, count(), "=> 4 @")
	s.rollUp()
	require.NoError(t, s.tiers.ApplyDeletions(t.Context()))
	require.Contains(t, count(), "=> 4 @")
	s.delete(hourlyFrom, hourlyFrom+dayMs, matcher)
	require.NotContains(t, count(), "=>")
}
