package query_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// keptDaysSample is the sample interval of TestKeptDays in milliseconds. A day then has enough samples to be pinned.
const keptDaysSample = 90_000

// dayByDay makes a series of several days that is irregular: it begins late or ends early, has gaps, jitter, stale markers and
// counter resets.
func dayByDay(rng *rand.Rand, days int64) (tsMs []int64, values []float64) {
	from, to := spanFrom, spanFrom+days*dayMs
	if rng.IntN(3) == 0 {
		from += rng.Int64N(2 * dayMs)
	}
	if rng.IntN(4) == 0 {
		to -= rng.Int64N(2 * dayMs)
	}
	from += rng.Int64N(3) * 7_000
	oneIn := func(days float64) bool { return rng.Float64()*days*float64(dayMs) < keptDaysSample }
	gaps, shifts, stales := rng.IntN(2) == 0, rng.IntN(3) == 0, rng.IntN(3) == 0
	counts, v := rng.IntN(4) > 0, 0.0
	for ts := from; ts < to; ts += keptDaysSample {
		switch {
		case gaps && oneIn(1):
			ts += rng.Int64N(5 * hourMs)
			continue
		case shifts && oneIn(1.5):
			ts += 1 + rng.Int64N(1000)
		case oneIn(1):
			v = 0
		}
		if v += rng.Float64(); !counts {
			v = rng.NormFloat64()
		}
		out := v
		if stales && oneIn(0.5) {
			out = math.Float64frombits(value.StaleNaN)
		}
		tsMs, values = append(tsMs, ts), append(values, out)
	}
	return tsMs, values
}

// TestKeptDays queries several days that the row cache holds as separate days. Most of them are pinned. The head may have
// samples or not. The results equal results from the table alone, bit for bit.
func TestKeptDays(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	const days, series = 6, 14
	rng := newRandOf(t)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	var recent, late []ingest.Sample
	for i := range series {
		ls := labels.FromStrings("__name__", "d_total", "i", fmt.Sprint(i), "job", fmt.Sprint(i%3))
		tsMs, values := dayByDay(rng, days)
		var request []ingest.Sample
		for k, ts := range tsMs {
			one := ingest.Sample{Labels: ls, TsMs: ts, Value: values[k]}
			switch {
			case i%2 == 0 && ts >= spanFrom+(days-1)*dayMs+5*hourMs:
				recent = append(recent, one)
			case i%3 == 0 && rng.IntN(600) == 0:
				late = append(late, one)
			default:
				request = append(request, one)
			}
		}
		s.write(request)
	}
	s.flush()
	kept := newQueryEngine(t, s.withRowCache(0), query.On)
	plain := newQueryEngine(t, s.source, query.On)
	cached := int64(0)
	for _, more := range [][]ingest.Sample{nil, recent, late} {
		s.write(more)
		whole := spanFrom + days*dayMs
		for range 2 { // the cache takes days and quarters that are read as a whole
			_, err := runQuery(kept, "d_total", spanFrom, whole, time.Hour, query.Params{})
			require.NoError(t, err)
		}
		for range seeds.Number(t, "HALITE_CASES", 120) {
			cached += compareKeptDays(t, exprs{Rand: rng}, plain, kept, days)
		}
	}
	require.Greater(t, cached, int64(100_000), "rows are found again")
}

// compareKeptDays sends one query to both engines. It returns the number of rows found in the row cache.
func compareKeptDays(t *testing.T, g exprs, plain, kept *query.Engine, days int64) int64 {
	t.Helper()
	function := pick(g, "rate", "increase", "delta", "irate", "max_over_time", "avg_over_time", "sum_over_time", "changes",
		"resets", "last_over_time", "count_over_time", "deriv", "stddev_over_time", "present_over_time")
	text := fmt.Sprintf("%s(d_total[%s])", function, pick(g, "5m", "1h", "6h", "11h", "1d", "50h"))
	if g.IntN(4) == 0 {
		text = "d_total"
	}
	text = pick(g, "", "sum by (job) ", "") + "(" + text + pick(g, "", "", " / 2") + ")"
	start := spanFrom + g.Int64N(3*dayMs)
	step := pick(g, 45*time.Second, 90*time.Second, 7*time.Minute, 30*time.Minute, time.Hour, 5*time.Hour)
	end := min(start+g.Int64N(1+(days-1)*dayMs), start+2000*step.Milliseconds())
	if g.IntN(2) == 0 {
		start -= start % step.Milliseconds()
	}
	params := query.Params{Explain: true, Stats: true, StatsPerStep: true}
	want, err := runQuery(plain, text, start, end, step, params)
	require.NoError(t, err)
	got, err := runQuery(kept, text, start, end, step, params)
	require.NoError(t, err)
	defer got.Close()
	a, b := points(want.Value), points(got.Value)
	want.Close()
	name := fmt.Sprintf("%s from %d to %d by %s", text, start, end, step)
	require.Len(t, b, len(a), name)
	for i := range a {
		require.Equal(t, a[i].Metric, b[i].Metric, name)
		require.Len(t, b[i].Floats, len(a[i].Floats), name)
		for k, p := range a[i].Floats {
			q := b[i].Floats[k]
			if p.T != q.T || math.Float64bits(p.F) != math.Float64bits(q.F) {
				t.Fatalf("%s: %s has %v at %d, want %v at %d", name, a[i].Metric, q.F, q.T, p.F, p.T)
			}
		}
	}
	require.Equal(t, want.Stats.Builtin().Samples, got.Stats.Builtin().Samples, name)
	return got.Explain.Reading.RowsCached
}
