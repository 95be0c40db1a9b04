package query_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/index"
	"halite/storage/principal"
	"halite/storage/storagetest/seeds"
)

const dayMs = 24 * hourMs

func runQuery(e *query.Engine, text string, start, end int64, step time.Duration, p query.Params) (*query.Result, error) {
	return e.Range(context.Background(), query.RangeRequest{
		Query: text, Start: time.UnixMilli(start), End: time.UnixMilli(end), Step: step, Params: p,
	})
}

// TestOnlyRowsOfWindowsAreRead: at a step of a day, a window of minutes needs one of the day's 24 rows.
func TestOnlyRowsOfWindowsAreRead(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	const days, series = 12, 3
	for i := range series {
		var request []ingest.Sample
		for ts := dataFrom; ts < dataFrom+days*dayMs; ts += 300_000 {
			request = append(request, ingest.Sample{
				Labels: labels.FromStrings("__name__", "c_total", "i", fmt.Sprint(i)), TsMs: ts, Value: float64(ts % 7_000_000),
			})
		}
		s.write(request)
	}
	s.flush()
	for _, c := range []struct {
		text string
		step time.Duration
		rows int64 // for each series and step
	}{
		{"rate(c_total[15m])", 24 * time.Hour, 1},
		{"sum by (i) (c_total)", 24 * time.Hour, 1},
		{"c_total offset 90m", 7 * time.Hour, 2},
		{"rate(c_total[100m])", 4 * time.Hour, 3},
	} {
		e := newQueryEngine(t, s.source, query.On)
		start, end := dataFrom+hourMs/2, dataFrom+days*dayMs-1
		res, err := runQuery(e, c.text, start, end, c.step, query.Params{Explain: true})
		require.NoError(t, err)
		steps := (end-start)/c.step.Milliseconds() + 1
		read := res.Explain.Reading
		require.LessOrEqual(t, read.Rows, series*(steps*c.rows+1), c.text)
		require.GreaterOrEqual(t, read.RowsUsed, series*(steps-1), c.text)
		want, err := runQuery(e, c.text, start, end, c.step, query.Params{Columnar: query.Off, Explain: true})
		require.NoError(t, err)
		require.Equal(t, []string{"engine"}, want.Explain.Operators)
		require.NoError(t, difference(responseOf(c.text, want, nil), responseOf(c.text, res, nil)))
	}
}

// TestStatistics: a request gets statistics, per step if it asks for them, and no explanation.
func TestStatistics(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.write([]ingest.Sample{{Labels: labels.FromStrings("__name__", "m", "i", "1"), TsMs: dataFrom, Value: 3}})
	e := newQueryEngine(t, s, query.Default)
	res, err := runQuery(e, "sum(m)", dataFrom, dataFrom+hourMs, time.Minute, query.Params{Stats: true, StatsPerStep: true})
	require.NoError(t, err)
	require.Nil(t, res.Explain)
	samples := res.Stats.Builtin().Samples
	require.Equal(t, int64(5), samples.SamplesRead, "five steps within the lookback")
	require.Len(t, samples.SamplesReadPerStep, 61)
}

// TestStatisticsAreThoseOfTheEngine compares the statistics of reads with the engine's.
func TestStatisticsAreThoseOfTheEngine(t *testing.T) {
	w := newRandomStack(t)
	for _, text := range []string{
		"g", "rate(c_total[5m])", "sum(rate(c_total[37m] offset 1m))", "g @ start() + 1", "timestamp(g)",
		"quantile_over_time(0.5, g[10m])", "g + on (inst) c_total", "g * on (inst) c_total{job='1'}", "rate(c_total[1m] @ end())",
		// The engine evaluates parts of these.
		"limit_ratio(1, rate(c_total[5m]))", "histogram_sum(delta(g[10m]))", "limit_ratio(1, g) + tan(g)",
		"limit_ratio(1, rate(c_total[5m] @ end())) + g", "limit_ratio(1, sum_over_time(g[7m] @ end()))",
		"max_over_time(limit_ratio(1, g)[10m:1m])", "sinh(g) + limitk(3, g)", "sort_by_label(g, 'inst')",
		"max_over_time(rate(c_total[5m])[10m:1m])", "sum(avg_over_time(sum by (job) (g)[2m:17s] offset 1m))",
		"max_over_time(min_over_time(g[10m:1m])[20m:2m] @ end()) + g", "count_over_time((g > bool 0)[1m:10s])",
		"absent_over_time((g > 1e9)[10m:])", "predict_linear(g[10m:1m], scalar(g{inst='1'}))",
	} {
		for _, perStep := range []bool{true, false} {
			var got [2]string
			for i, way := range []query.Switch{query.On, query.Off} {
				p := query.Params{Stats: true, StatsPerStep: perStep, Columnar: way}
				res, err := runQuery(w.engine, text, dataFrom+hourMs, dataFrom+2*hourMs, 3*time.Minute, p)
				require.NoError(t, err)
				s := res.Stats.Builtin().Samples
				got[i] = fmt.Sprint(s.SamplesRead, s.SamplesReadPerStep, s.TotalQueryableSamples, s.TotalQueryableSamplesPerStep)
			}
			require.Equal(t, got[1], got[0], text)
		}
	}
}

type randomStack struct {
	exprs
	*stack
	engine *query.Engine
}

// newRandomStack holds random data, partly in the head.
func newRandomStack(t *testing.T) randomStack {
	rng := newRandOf(t)
	s := newStack(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.fill(newDataset(rng).history(rng), inBoth)
	return randomStack{exprs{Rand: rng}, s, newQueryEngine(t, s, query.On)}
}

// TestPeaksAreNotBelowTheEngines: operators count at least the samples that the engine holds. So they accept nothing that the
// engine refuses.
func TestPeaksAreNotBelowTheEngines(t *testing.T) {
	w := newRandomStack(t)
	compared, cases := 0, int(seeds.Number(t, "HALITE_CASES", unlessShort(differentialCases, differentialCases/5)))
	for i := range cases {
		w.subqueries = i%2 == 0
		text := w.vector(1 + w.IntN(3))
		start := dataFrom + w.Int64N(4*hourMs)
		end := start + int64(i%3)*hourMs
		var peaks [2]int
		whole := true // otherwise the limit holds for the sum of both peaks
		for j, way := range []query.Switch{query.On, query.Off} {
			p := query.Params{Columnar: way, Stats: true, Explain: true}
			res, err := runQuery(w.engine, text, start, end, 5*time.Minute, p)
			if whole = whole && err == nil; !whole {
				break
			}
			whole = j > 0 || wayOf(res.Explain) == "columnar"
			peaks[j] = res.Stats.Builtin().Samples.PeakSamples
			res.Close()
		}
		if whole {
			compared++
			require.GreaterOrEqual(t, peaks[0], peaks[1], text)
		}
	}
	require.Greater(t, compared, cases/2)
}

const limitCases = 400

// TestLimitsAreTheEngines: operators refuse the same queries for their samples as the engine, and no others.
func TestLimitsAreTheEngines(t *testing.T) {
	w := newRandomStack(t)
	refused, cases := 0, int(seeds.Number(t, "HALITE_CASES", unlessShort(limitCases, limitCases/5)))
	for i := range cases {
		w.subqueries = i%2 == 0
		text := w.vector(1 + w.IntN(3))
		limit := 1 << w.IntN(14)
		e, err := newEngine(query.Options{Queryable: w.stack, Experimental: true, SamplesMax: limit})
		require.NoError(t, err)
		start := dataFrom + w.Int64N(4*hourMs)
		_, err = runQuery(e, text, start, start+hourMs, 5*time.Minute, query.Params{Columnar: query.Off})
		var typed *query.Error
		if !errors.As(err, &typed) {
			_, err = runQuery(e, text, start, start+hourMs, 5*time.Minute, query.Params{})
			require.NoError(t, err, "%s with %d samples", text, limit)
			continue
		}
		refused++
		_, err = runQuery(e, text, start, start+hourMs, 5*time.Minute, query.Params{})
		require.ErrorAs(t, err, &typed, "%s with %d samples", text, limit)
	}
	require.Greater(t, refused, cases/8)
}

// TestErrorsAreTheEngines: if operators cannot decide, the engine evaluates the query, and returns its errors.
func TestErrorsAreTheEngines(t *testing.T) {
	w := newRandomStack(t)
	for _, name := range []string{"same_a", "same_b"} {
		ls := labels.FromStrings("__name__", name, "x", "1")
		w.write([]ingest.Sample{{Labels: ls, TsMs: dataFrom + 1, Value: 1}, {Labels: ls, TsMs: dataFrom + 2, Value: 2}})
	}
	for _, text := range []string{
		`rate({__name__=~"same.*"}[2h])`, `abs({__name__=~"same.*"})`, "g + on (job) c_total", "g == on (job) group_left () c_total",
		`label_replace(g, "inst", "", "", "")`, "topk(0/0, g)", "g * on (job) group_left (inst) g",
	} {
		_, want := runQuery(w.engine, text, dataFrom+2000, dataTo, time.Hour, query.Params{Columnar: query.Off})
		require.Error(t, want, text)
		_, got := runQuery(w.engine, text, dataFrom+2000, dataTo, time.Hour, query.Params{})
		require.Error(t, got, text)
		var wantTyped, gotTyped *query.Error
		require.ErrorAs(t, want, &wantTyped)
		require.ErrorAs(t, got, &gotTyped)
		require.Equal(t, wantTyped.Type, gotTyped.Type, text)
	}
}

// faultyIndex calls onSelect when columnar operators select series with few labels. The engine never does that.
type faultyIndex struct {
	*index.Index
	onSelect func()
}

func (x faultyIndex) SelectProjected(
	ctx context.Context, budget index.Budget, names []string, mintMs, maxtMs int64, matchers ...*labels.Matcher,
) ([]index.Series, error) {
	x.onSelect()
	return x.Index.SelectProjected(ctx, budget, names, mintMs, maxtMs, matchers...)
}

// faulty returns the source of a stack with a faultyIndex.
func faulty(t *testing.T, s *stack, onSelect func()) *source {
	options := s.options
	options.Index = faultyIndex{s.options.Index.(*index.Index), onSelect}
	q, err := newSource(options)
	require.NoError(t, err)
	return q
}

// TestPanicsAreLeftToTheEngine: the engine answers after a panic of an operator.
func TestPanicsAreLeftToTheEngine(t *testing.T) {
	w := newRandomStack(t)
	broken := faulty(t, w.stack, func() { panic("a fault") })
	e := newQueryEngine(t, broken, query.On)
	for _, text := range []string{
		"sum by (job) (g)", "double_exponential_smoothing(g[5m], 0.5, pi()/9) + on (inst) max by (inst) (g)",
	} {
		got, err := runQuery(e, text, dataFrom, dataTo, time.Hour, query.Params{Explain: true})
		require.NoError(t, err)
		require.True(t, got.Explain.Undecided)
		want, err := runQuery(e, text, dataFrom, dataTo, time.Hour, query.Params{Columnar: query.Off, Explain: true})
		require.NoError(t, err)
		require.NoError(t, difference(responseOf(text, want, nil), responseOf(text, got, nil)))
	}
}

func TestCancelWhileReading(t *testing.T) {
	w := newRandomStack(t)
	ctx, cancel := context.WithCancel(t.Context())
	e := newQueryEngine(t, faulty(t, w.stack, cancel), query.On)
	// The second selector must notice the end of the context, because the first has few series.
	_, err := e.Range(ctx, query.RangeRequest{
		Query: "sum(g) + sum(c_total)", Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataTo), Step: time.Minute,
	})
	var typed *query.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, query.ErrorCanceled, typed.Type)
}

// TestNaNsThatLookLikeStaleMarkers: a NaN that a change of sign makes equal to a stale marker stays a value.
func TestNaNsThatLookLikeStaleMarkers(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	v := math.Float64frombits(0xfff0000000000002)
	s.write([]ingest.Sample{{Labels: labels.FromStrings("__name__", "m"), TsMs: dataFrom, Value: v}})
	e := newQueryEngine(t, s, query.On)
	for _, text := range []string{"-m", "abs(m)", "m"} {
		res, err := runQuery(e, text, dataFrom, dataFrom, time.Minute, query.Params{Explain: true})
		require.NoError(t, err)
		require.Len(t, responseOf(text, res, nil).points, 1, text)
	}
}

// TestQueriesAcquireCPUSlots: while another tenant is active, a query holds a CPU slot of its tenant.
func TestQueriesAcquireCPUSlots(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.write([]ingest.Sample{{Labels: labels.FromStrings("__name__", "m"), TsMs: dataFrom, Value: 1}})
	e := newQueryEngine(t, s, query.On)
	activity := principal.NewActivity(func() time.Time { return time.UnixMilli(dataFrom) }, 1)
	activity.For(&principal.Principal{Tenants: []string{"beta"}})
	who := activity.For(&principal.Principal{Name: "acme", Tenants: []string{"acme"}})
	run := func(ctx context.Context) error {
		res, err := e.Range(principal.With(ctx, who), query.RangeRequest{
			Query: "m", Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom), Step: time.Second,
		})
		if err == nil {
			res.Close()
		}
		return err
	}
	slot, err := who.AcquireCPU(t.Context())
	require.NoError(t, err)
	ended, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	require.Error(t, run(ended))
	slot.Release()
	for range 2 {
		require.NoError(t, run(t.Context()))
	}
	require.NoError(t, slot.Acquire(t.Context()), "the slot is free again")
	slot.Release()
}
