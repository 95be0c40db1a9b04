package query_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// cachingEngine returns an engine over a stack with a result cache.
func cachingEngine(t testing.TB, s *stack, change func(o *query.Options)) *query.Engine {
	t.Helper()
	o := query.Options{Queryable: s.source, Experimental: true, Changes: s.ingester}
	if change != nil {
		change(&o)
	}
	e, err := newEngine(o)
	require.NoError(t, err)
	return e
}

// dashboards repeat queries over moving ranges.
type dashboards struct {
	exprs
	all    []string
	texts  []string // of the visible dashboards
	lastMs int64    // the ends of their ranges lie within minutes before it
}

func newDashboards(rng *rand.Rand) *dashboards {
	d := &dashboards{exprs: exprs{Rand: rng}, all: []string{
		`sum by (job) (rate(c_total[5m]))`, `rate(c_total[2m])`, `c_total`, `g`, `g{job="1"} offset -3m`,
		`histogram_quantile(0.9, sum by (le) (rate(h_bucket[5m])))`, `topk(2, rate(c_total[10m]))`,
		`topk(2, sum by (job) (rate(c_total[10m])))`, `avg by (zone) (g / on (inst, job) c_total)`,
		`max by (job) (max_over_time(g[10m]))`, `1 - avg by (inst) (g)`, `count by (job) (sum by (job, inst) (c_total))`,
		`sum_over_time(g[1h])`, `avg_over_time(g[37m])`, `absent(sparse)`, `absent_over_time(sparse[5m])`,
		`label_replace(g, "inst", "x", "zone", "a")`, `-{__name__=~"c.*|g"}`, `g @ end()`, `g @ start() + g`,
		`rate(odd_bucket[5m])`, `rate(g[5m])`, `sum(g) or vector(time())`, `quantile(0.3, g)`, `predict_linear(g[10m], 60)`,
		`max_over_time(sum(rate(c_total[5m]))[20m:1m])`, `max_over_time(rate(c_total[5m])[20m:1m])`,
		`avg_over_time((c_total / on (inst, job) g)[10m:30s] offset 3m)`, `changes((g > bool 0)[1h:17s])`,
		`sum by (job) (quantile_over_time(0.9, rate(c_total[5m])[10m:]))`, `rate({__name__=~"c.*|g",job="2"}[5m])`,
		`g > 0 unless c_total`,
		`sum(sum by (zone) (g))`, `scalar(sum(g)) + g`, `sort_desc(g)`, `time()`, `time() - 60`,
		`scalar(sum(c_total))`, `scalar(g{inst="1"}) * 2`, `sum by (__name__) ({job="1"})`,
		`stddev by (job) (g)`, `bottomk(1, g)`, `timestamp(g)`, `hour(g)`, `changes(g[10m])`, `irate(c_total[5m] offset 1m)`,
		`sort_by_label(g, "inst")`, `count_values("v", round(g, 100))`, `deriv(g[1h])`,
		`double_exponential_smoothing(g[10m], 0.5, 0.1)`,
	}}
	for range 40 {
		d.all = append(d.all, d.vector(1+d.IntN(3)))
	}
	d.reshuffle()
	return d
}

// reshuffle chooses the visible dashboards and the end of their ranges.
func (d *dashboards) reshuffle() {
	d.lastMs = dataTo - d.Int64N(6)*hourMs/2
	d.Shuffle(len(d.all), func(i, j int) { d.all[i], d.all[j] = d.all[j], d.all[i] })
	d.texts = d.all[:5]
}

// question returns one of the texts with one of a few ranges, so that questions repeat.
func (d *dashboards) question() (text string, run func(e *query.Engine, p query.Params) (*query.Result, error)) {
	text = d.texts[d.IntN(len(d.texts))]
	lookback := pick(d.exprs, 0, 0, 0, 0, 10*time.Minute)
	end := d.lastMs - d.Int64N(5)*60_000
	if d.IntN(4) == 0 {
		return text, func(e *query.Engine, p query.Params) (*query.Result, error) {
			p.Lookback = lookback
			return e.Instant(context.Background(), query.InstantRequest{Query: text, TimeMs: end, Params: p})
		}
	}
	step := pick(d.exprs, 15*time.Second, time.Minute, time.Minute)
	if d.IntN(20) == 0 {
		step = 13 * time.Minute
	}
	length := time.Duration(pick(d.exprs, 20, 60, 60, 60, 200)) * step
	if d.IntN(10) == 0 {
		end += 7_000 // another phase
	}
	if d.IntN(20) == 0 {
		length += 500 * time.Millisecond
	}
	r := query.RangeRequest{Query: text, End: time.UnixMilli(end), Start: time.UnixMilli(end).Add(-length), Step: step}
	return text, func(e *query.Engine, p query.Params) (*query.Result, error) {
		p.Lookback = lookback
		r.Params = p
		return e.Range(context.Background(), r)
	}
}

// exact returns nil if two results are equal to the last bit, in their order.
func exact(want, got *query.Result) error {
	a, _ := want.Warnings.AsStrings("", 0, 0)
	b, _ := got.Warnings.AsStrings("", 0, 0)
	if len(a) != len(b) || len(want.Warnings) != len(got.Warnings) {
		return fmt.Errorf("annotations %v, want %v", got.Warnings, want.Warnings)
	}
	if v, ok := want.Value.(promengine.Scalar); ok {
		if w, ok := got.Value.(promengine.Scalar); !ok || w != v && !math.IsNaN(v.V) {
			return fmt.Errorf("%v, want %v", got.Value, want.Value)
		}
		return nil
	}
	w, g := inOrder(want.Value), inOrder(got.Value)
	if len(w) != len(g) {
		return fmt.Errorf("%d series, want %d", len(g), len(w))
	}
	for i := range w {
		if !labels.Equal(w[i].Metric, g[i].Metric) || len(w[i].Floats) != len(g[i].Floats) {
			return fmt.Errorf("series %d is\n%v, want\n%v", i, g[i], w[i])
		}
		for j, p := range w[i].Floats {
			if q := g[i].Floats[j]; p.T != q.T || math.Float64bits(p.F) != math.Float64bits(q.F) &&
				!(math.IsNaN(p.F) && math.IsNaN(q.F)) {
				return fmt.Errorf("%v: %v, want %v", w[i].Metric, q, p)
			}
		}
	}
	return nil
}

func inOrder(v any) promengine.Matrix {
	var m promengine.Matrix
	switch v := v.(type) {
	case promengine.Matrix:
		return v
	case promengine.Vector:
		for _, s := range v {
			m = append(m, promengine.Series{Metric: s.Metric, Floats: []promengine.FPoint{{T: s.T, F: s.F}}})
		}
	}
	return m
}

// compare sends a query with and without the cache. Prometheus's engine adds some sums in the order of a map. compare
// ignores a difference if the result also differs when the engine repeats the query.
func (d *dashboards) compare(t *testing.T, e *query.Engine) (outcome string) {
	t.Helper()
	text, run := d.question()
	got, err := run(e, query.Params{Explain: true})
	want, wantErr := run(e, query.Params{NoCache: true})
	if wantErr != nil {
		require.Error(t, err, text)
		for tries := 0; err.Error() != wantErr.Error(); tries++ {
			require.Less(t, tries, repeatsMax, "%s\nerror %v, want %v", text, err, wantErr)
			// The two duplicates in an error of count_values also depend on a map.
			_, againErr := run(e, query.Params{NoCache: true})
			require.Error(t, againErr, text)
			if againErr.Error() != wantErr.Error() {
				return "ambiguous"
			}
		}
		return "error"
	}
	require.NoError(t, err, text)
	defer got.Close()
	defer want.Close()
	if diff := exact(want, got); diff != nil {
		for range repeatsMax {
			again, err := run(e, query.Params{NoCache: true})
			require.NoError(t, err)
			if exact(want, again) != nil {
				return "ambiguous"
			}
			again.Close()
		}
		t.Fatalf("%s\n%s\n%v", text, got.Explain, diff)
	}
	return got.Explain.Cache.Outcome
}

// TestCacheIsExact sends queries with moving ranges while samples are added, rewritten and flushed. Every result equals
// the result without the cache, to the last bit.
func TestCacheIsExact(t *testing.T) {
	rng := newRandOf(t)
	data := newDataset(rng)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	history := data.history(rng)
	s.fill(history[:len(history)/3], inBoth)
	rest := history[len(history)/3:]
	small := query.Options{}
	small.ResultCacheRecent = time.Since(time.UnixMilli(dataTo - 5*60_000)).Truncate(time.Millisecond)
	engines := []*query.Engine{
		cachingEngine(t, s, nil),
		cachingEngine(t, s, func(o *query.Options) { o.ResultCacheRecent = small.ResultCacheRecent }),
	}
	d := newDashboards(rng)
	outcomes := map[string]int{}
	for i := range int(seeds.Number(t, "HALITE_CASES", unlessShort(4000, 1000))) {
		outcomes[d.compare(t, engines[i%2])]++
		switch {
		case i%90 == 0:
			n := min(len(rest), 1+rng.IntN(300))
			s.write(rest[:n])
			rest = rest[n:]
		case i%60 == 1:
			d.reshuffle()
		case i%29 == 0: // a late sample, or another value for a time
			again := history[rng.IntN(len(history))]
			again.Value = rng.NormFloat64()
			s.write([]ingest.Sample{again})
		case i%501 == 0:
			s.flush()
		}
	}
	t.Logf("outcomes %v", outcomes)
	for _, outcome := range []string{"hit", "partial", "miss", "refused"} {
		require.Greater(t, outcomes[outcome], 20, outcome)
	}
	require.Less(t, outcomes["ambiguous"], 100)
}

// TestCacheDuringWrites sends queries while others write and flush. Each result has all samples acknowledged before
// the query.
func TestCacheDuringWrites(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	e := cachingEngine(t, s, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	flushed := make(chan struct{})
	go func() {
		defer close(flushed)
		for ctx.Err() == nil {
			if err := s.ingester.Flush(context.Background()); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	outcomes := map[string]int{}
	rounds := int(unlessShort(300, 100))
	for k := range int64(rounds) {
		// Sample k of both series has the value k. Every third request also repeats an old sample.
		at := dataFrom + k*15_000
		batch := []ingest.Sample{{Labels: labels.FromStrings("__name__", "n", "i", "0"), TsMs: at, Value: float64(k)}}
		if k%3 == 0 {
			late := dataFrom + k/2*15_000
			batch = append(batch, ingest.Sample{
				Labels: labels.FromStrings("__name__", "n", "i", "1"), TsMs: late, Value: float64(k),
			})
		}
		s.write(batch)
		for range 2 {
			res, err := e.Range(ctx, query.RangeRequest{
				Query: "sum(n)", Start: time.UnixMilli(dataFrom), End: time.UnixMilli(at), Step: 15 * time.Second,
				Params: query.Params{Explain: true},
			})
			require.NoError(t, err)
			want, err := e.Range(ctx, query.RangeRequest{
				Query: "sum(n)", Start: time.UnixMilli(dataFrom), End: time.UnixMilli(at), Step: 15 * time.Second,
				Params: query.Params{NoCache: true},
			})
			require.NoError(t, err)
			require.NoError(t, exact(want, res), "round %d: %s", k, res.Explain)
			outcomes[res.Explain.Cache.Outcome]++
		}
	}
	stop()
	<-flushed
	t.Logf("outcomes %v", outcomes)
	require.Greater(t, outcomes["hit"], rounds*2/3, "the second question is answered from the cache")
	require.Greater(t, outcomes["partial"], rounds/3)
}

// TestCacheAcrossRestarts reopens the store. The new cache is empty, and answers are correct.
func TestCacheAcrossRestarts(t *testing.T) {
	if testing.Short() {
		t.Skip("single-threaded: the run without -short covers it")
	}
	rng := newRandOf(t)
	fs := vfs.NewMem()
	data := newDataset(rng)
	history := data.history(rng)
	d := newDashboards(rng)
	for round := range 3 {
		s := openStack(t, fs)
		s.write(history[round*len(history)/3 : (round+1)*len(history)/3])
		e := cachingEngine(t, s, nil)
		outcomes := map[string]int{}
		for i := range 200 {
			if i%40 == 0 {
				d.reshuffle()
			}
			outcomes[d.compare(t, e)]++
		}
		require.Positive(t, outcomes["hit"])
		require.NoError(t, s.Close())
	}
}
