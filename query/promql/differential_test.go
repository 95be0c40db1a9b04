package promql_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
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
)

// differentialCases is the number of expressions for each flush mode; HALITE_CASES asks for more, HALITE_SEED for the
// run that a failure has printed.
const differentialCases = 300

func fromEnv(name string, otherwise uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// TestAgainstPrometheus asks random questions about random data of ours and of Prometheus' storage.
func TestAgainstPrometheus(t *testing.T) {
	seed := fromEnv("HALITE_SEED", uint64(time.Now().UnixNano()))
	t.Logf("HALITE_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	data := newDataset(rng)
	theirs := newQueryEngine(t, prometheusOf(t, data))
	for _, mode := range flushModes {
		t.Run(string(mode), func(t *testing.T) {
			s := newStack(t, keyschema.Rule{Pattern: "c_*", FromHour: dataFrom/hourMs + 2, Salts: 5, Promoted: []string{"job"}})
			defer func() { require.NoError(t, s.Close()) }()
			s.fill(data.history(rng), mode)
			compareAll(t, exprs{rng}, newQueryEngine(t, s), theirs, int(fromEnv("HALITE_CASES", differentialCases)))
		})
	}
}

func newQueryEngine(t *testing.T, q promstorage.SampleAndChunkQueryable) *query.Engine {
	e, err := query.New(query.Options{Queryable: q, Experimental: true})
	require.NoError(t, err)
	return e
}

// prometheusOf loads the data into Prometheus' storage.
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

// fill writes the history in requests of a thousand samples, with flushes as the mode wants them.
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
	filled, failed := 0, 0
	for i := range cases {
		text := g.vector(1 + g.IntN(3))
		run := instantCase(g, text)
		if i%2 == 0 {
			run = rangeCase(g, text)
		}
		got, gotErr := run(ours)
		want, wantErr := run(theirs)
		if wantErr != nil || gotErr != nil {
			failed++
			requireSameError(t, text, wantErr, gotErr)
			continue
		}
		filled += requireSame(t, text, want, got)
		got.Close()
		want.Close()
	}
	t.Logf("%d cases: %d with a result, %d with an error", cases, filled, failed)
	require.Greater(t, filled, cases/2, "the generator asks for things that exist")
	require.Less(t, failed, cases/4, "the generator writes expressions that make sense")
}

func instantCase(g exprs, text string) func(*query.Engine) (*query.Result, error) {
	r := query.InstantRequest{Query: text, TimeMs: dataFrom - hourMs/2 + g.Int64N(8*hourMs)}
	return func(e *query.Engine) (*query.Result, error) { return e.Instant(context.Background(), r) }
}

func rangeCase(g exprs, text string) func(*query.Engine) (*query.Result, error) {
	start := dataFrom - hourMs/2 + g.Int64N(8*hourMs)
	step := pick(g, time.Second, 15*time.Second, time.Minute, 13*time.Minute, time.Hour)
	end := start + g.Int64N(100)*step.Milliseconds() + g.Int64N(1000)
	r := query.RangeRequest{Query: text, Start: time.UnixMilli(start), End: time.UnixMilli(end), Step: step}
	return func(e *query.Engine) (*query.Result, error) { return e.Range(context.Background(), r) }
}

func requireSameError(t *testing.T, text string, want, got error) {
	t.Helper()
	var wantTyped, gotTyped *query.Error
	if !errors.As(want, &wantTyped) || !errors.As(got, &gotTyped) || wantTyped.Type != gotTyped.Type {
		t.Fatalf("%s:\nPrometheus: %v\nHalite: %v", text, want, got)
	}
}

// requireSame compares two results: labels, times and annotations exactly, values to 1e-12. It returns 1 if there is
// anything in them.
func requireSame(t *testing.T, text string, want, got *query.Result) int {
	t.Helper()
	wantWarnings, wantInfos := want.Warnings.AsStrings(text, 0, 0)
	gotWarnings, gotInfos := got.Warnings.AsStrings(text, 0, 0)
	require.ElementsMatch(t, wantWarnings, gotWarnings, text)
	require.ElementsMatch(t, wantInfos, gotInfos, text)
	wantPoints, gotPoints := points(t, want.Value), points(t, got.Value)
	require.Len(t, gotPoints, len(wantPoints), text)
	for i, w := range wantPoints {
		g := gotPoints[i]
		if !labels.Equal(w.Metric, g.Metric) || len(w.Floats) != len(g.Floats) {
			t.Fatalf("%s:\nPrometheus: %v\nHalite: %v", text, w, g)
		}
		for j := range w.Floats {
			if w.Floats[j].T != g.Floats[j].T || !near(w.Floats[j].F, g.Floats[j].F) {
				t.Fatalf("%s: %s:\nPrometheus: %v\nHalite: %v", text, w.Metric, w.Floats[j], g.Floats[j])
			}
		}
	}
	return min(1, len(wantPoints))
}

// points is any value as a matrix; a vector's order is part of the result only after a sort, which orders both alike.
func points(t *testing.T, v parser.Value) promengine.Matrix {
	t.Helper()
	switch v := v.(type) {
	case promengine.Matrix:
		return v
	case promengine.Vector:
		var m promengine.Matrix
		for _, s := range v {
			m = append(m, promengine.Series{Metric: s.Metric, Floats: []promengine.FPoint{{T: s.T, F: s.F}}})
		}
		slices.SortFunc(m, func(a, b promengine.Series) int { return labels.Compare(a.Metric, b.Metric) })
		return m
	case promengine.Scalar:
		return promengine.Matrix{{Floats: []promengine.FPoint{{T: v.T, F: v.V}}}}
	}
	t.Fatalf("unexpected %T", v)
	return nil
}

func near(a, b float64) bool {
	if math.IsNaN(a) || math.IsNaN(b) {
		return math.IsNaN(a) && math.IsNaN(b)
	}
	return a == b || math.Abs(a-b) <= 1e-12*math.Max(math.Abs(a), math.Abs(b))
}
