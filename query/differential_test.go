package query_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	promengine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// differentialCases is the number of expressions for each flush mode. HALITE_CASES replaces it, and HALITE_SEED repeats a
// failed run.
const differentialCases = 500

// unlessShort returns n, or short when the tests run with -short, as they do under the race detector.
func unlessShort(n, short uint64) uint64 {
	if testing.Short() {
		return short
	}
	return n
}

// defaultSeed makes every run of the tests equal, so that a failure is due to a change. make differential takes another seed
// each time.
const defaultSeed = 20261120

// TestAgainstPrometheus sends random queries over the same random data to Halite and to Prometheus' storage.
func TestAgainstPrometheus(t *testing.T) {
	seed := seeds.Number(t, "HALITE_SEED", defaultSeed)
	t.Logf("HALITE_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	data := newDataset(rng)
	theirs := newQueryEngine(t, prometheusOf(t, data), query.Off)
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			s := newStack(t, keyschema.Rule{Pattern: "c_*", FromHour: dataFrom/hourMs + 2, Salts: 5, Promoted: []string{"job"}})
			defer func() { require.NoError(t, s.Close()) }()
			s.fill(data.history(rng), mode)
			small := s.options
			small.BatchRowsMax = 7 // several batches for each selector, several slices for each batch
			small.Watch = s.watch  // the row cache has most rows
			q, err := newSource(small)
			require.NoError(t, err)
			if !testing.Short() { // The engine alone also reads from head and tables; it has one thread.
				compareAll(t, exprs{Rand: rng}, newQueryEngine(t, q, query.Off), theirs, differentialCases/10)
			}
			cases := seeds.Number(t, "HALITE_CASES", unlessShort(differentialCases, differentialCases/5))
			compareAll(t, exprs{Rand: rng}, newQueryEngine(t, q, query.On), theirs, int(cases))
		})
	}
}

func newQueryEngine(t *testing.T, q promstorage.SampleAndChunkQueryable, columns query.Switch) *query.Engine {
	e, err := newEngine(query.Options{Queryable: q, Experimental: true, Columnar: columns})
	require.NoError(t, err)
	return e
}

// prometheusOf loads the data into Prometheus's storage.
func prometheusOf(t *testing.T, data dataset) promstorage.SampleAndChunkQueryable {
	s := teststorage.New(t)
	app := s.Appender(context.Background())
	for _, series := range data {
		for i, ts := range series.tsMs {
			_, err := app.Append(0, series.labels, ts, series.values[i])
			require.NoError(t, err)
		}
	}
	require.NoError(t, app.Commit())
	return s
}

// fill writes the history in requests of a thousand samples, and flushes according to the mode.
func (s *stack) fill(history []ingest.Sample, mode flushMode) {
	for part := range slices.Chunk(history, 1000) {
		s.write(part)
		if (mode == inBoth || mode == intoTables) && len(part) == 1000 && part[0].TsMs%5 == 0 {
			s.flush()
		}
	}
	if mode == inTables || mode == intoTables {
		s.flush()
	}
}

func compareAll(t *testing.T, g exprs, ours, theirs *query.Engine, cases int) {
	filled, failed, ambiguous := 0, 0, 0
	ways := map[string]int{}
	for i := range cases {
		text := g.vector(1 + g.IntN(3))
		for g.histograms && strings.Contains(text, "changes(") {
			text = g.vector(1 + g.IntN(3)) // Prometheus counts the empty buckets of its chunks as changes
		}
		run := instantCase(g, text)
		if i%2 == 0 {
			run = rangeCase(g, text)
		}
		want := run(theirs)
		got := run(ours)
		ways[got.way]++
		if diff := difference(want, got); diff != nil {
			if !disagrees(want, func() response { return run(theirs) }) {
				t.Fatalf("%s:\n%v", text, diff)
			}
			ambiguous++
		}
		if want.err != nil {
			failed++
		} else if len(want.points) > 0 {
			filled++
		}
	}
	t.Logf("%d cases: %d with a result, %d with an error, %d ambiguous; evaluated %v", cases, filled, failed, ambiguous, ways)
	require.Greater(t, filled, cases/3, "the generator asks for things that exist")
	require.Less(t, failed, cases/4, "the generator writes expressions that make sense")
	require.LessOrEqual(t, ambiguous, cases/50, "the generator writes expressions that have one result")
}

// repeatsMax bounds the repetitions of a query whose result depends on the order of a hash map. A repetition may return
// another result. Go visits a map of two elements in the less likely order one time in eight: 20 repeats would miss it in 7
// % of cases.
const repeatsMax = 200

// disagrees reports whether Prometheus answers a repeated query differently. It adds series in the order of a hash map, which
// affects a small sum of large numbers.
func disagrees(want response, again func() response) bool {
	for range repeatsMax {
		if difference(want, again()) != nil {
			return true
		}
	}
	return false
}

// response is a closed result, or an error.
type response struct {
	points          promengine.Matrix
	warnings, infos []string
	err             error
	way             string // of the evaluation
}

func wayOf(e *query.Explain) string {
	switch {
	case e.Undecided:
		return "given up"
	case e.Operators[0] != "engine":
		return "columnar"
	case len(e.Operators) > 1:
		return "mixed"
	}
	return "engine"
}

func responseOf(text string, res *query.Result, err error) response {
	if err != nil {
		return response{err: err}
	}
	defer res.Close()
	a := response{points: points(res.Value), way: wayOf(res.Explain)}
	a.warnings, a.infos = res.Warnings.AsStrings(text, 0, 0)
	slices.Sort(a.warnings)
	slices.Sort(a.infos)
	return a
}

// time returns a time near the data. Half of the times are multiples of the sample interval.
func (g exprs) time() int64 {
	t := dataFrom - hourMs/2 + g.Int64N(8*hourMs)
	if g.IntN(2) == 0 {
		t -= t % 30_000
	}
	return t
}

func instantCase(g exprs, text string) func(*query.Engine) response {
	r := query.InstantRequest{Query: text, TimeMs: g.time()}
	r.Explain, r.Lookback = true, pick(g, 0, 0, 0, time.Minute, time.Hour, time.Microsecond)
	return func(e *query.Engine) response {
		res, err := e.Instant(context.Background(), r)
		return responseOf(text, res, err)
	}
}

func rangeCase(g exprs, text string) func(*query.Engine) response {
	start := g.time()
	step := pick(g, time.Second, 15*time.Second, time.Minute, 13*time.Minute, time.Hour)
	end := start + g.Int64N(100)*step.Milliseconds() + g.Int64N(1000)
	r := query.RangeRequest{Query: text, Start: time.UnixMilli(start), End: time.UnixMilli(end), Step: step}
	r.Explain, r.Lookback = true, pick(g, 0, 0, 0, time.Minute, time.Hour, time.Microsecond)
	return func(e *query.Engine) response {
		res, err := e.Range(context.Background(), r)
		return responseOf(text, res, err)
	}
}

// difference returns nil if two results are equal: labels, times, annotations and types of error exactly, and values to 1e-12.
func difference(want, got response) error {
	if want.err != nil || got.err != nil {
		var wantTyped, gotTyped *query.Error
		if !errors.As(want.err, &wantTyped) || !errors.As(got.err, &gotTyped) || wantTyped.Type != gotTyped.Type {
			return fmt.Errorf("error %v, want %v", got.err, want.err)
		}
		return nil
	}
	if !slices.Equal(want.warnings, got.warnings) || !slices.Equal(want.infos, got.infos) {
		return fmt.Errorf("annotations %q %q, want %q %q", got.warnings, got.infos, want.warnings, want.infos)
	}
	if len(want.points) != len(got.points) {
		return fmt.Errorf("%d series, want %d", len(got.points), len(want.points))
	}
	for i, w := range want.points {
		g := got.points[i]
		if !labels.Equal(w.Metric, g.Metric) || len(w.Floats) != len(g.Floats) || len(w.Histograms) != len(g.Histograms) {
			return fmt.Errorf("series %v, want %v", g, w)
		}
		for j := range w.Floats {
			if w.Floats[j].T != g.Floats[j].T || !near(w.Floats[j].F, g.Floats[j].F) {
				return fmt.Errorf("%s: %v, want %v", w.Metric, g.Floats[j], w.Floats[j])
			}
		}
		for j := range w.Histograms {
			if w.Histograms[j].T != g.Histograms[j].T || !nearHistogram(w.Histograms[j].H, g.Histograms[j].H) {
				return fmt.Errorf("%s: %v, want %v", w.Metric, g.Histograms[j], w.Histograms[j])
			}
		}
	}
	return nil
}

// points copies any value into a matrix sorted by labels.
func points(v parser.Value) promengine.Matrix {
	var m promengine.Matrix
	switch v := v.(type) {
	case promengine.Matrix:
		for _, s := range v {
			c := promengine.Series{Metric: s.Metric, Floats: slices.Clone(s.Floats)}
			for _, p := range s.Histograms {
				c.Histograms = append(c.Histograms, promengine.HPoint{T: p.T, H: p.H.Copy().Compact(0)})
			}
			m = append(m, c)
		}
	case promengine.Vector:
		for _, s := range v {
			if s.H != nil {
				h := promengine.HPoint{T: s.T, H: s.H.Copy().Compact(0)}
				m = append(m, promengine.Series{Metric: s.Metric, Histograms: []promengine.HPoint{h}})
				continue
			}
			m = append(m, promengine.Series{Metric: s.Metric, Floats: []promengine.FPoint{{T: s.T, F: s.F}}})
		}
	default:
		panic(fmt.Sprintf("the generator writes vectors, not %T", v))
	}
	slices.SortFunc(m, func(a, b promengine.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return m
}

func near(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return a == b || math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b))
}

func newRandOf(t *testing.T) *rand.Rand {
	seed := seeds.Number(t, "HALITE_SEED", defaultSeed)
	t.Logf("HALITE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
