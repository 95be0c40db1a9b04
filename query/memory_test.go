package query_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

const memoryCases = 120

// TestMemoryOfQueriesComesBack runs queries that succeed, fail, are cancelled, or exceed the memory. After its end a query
// holds no memory.
func TestMemoryOfQueriesComesBack(t *testing.T) {
	w := newRandomStack(t)
	var request []ingest.Sample
	for i := range 400 {
		for ts := dataFrom; ts < dataFrom+2*hourMs; ts += 60_000 {
			request = append(request, ingest.Sample{
				Labels: labels.FromStrings("__name__", "many", "i", fmt.Sprint(i)), TsMs: ts, Value: float64(ts % 70_000 * int64(i)),
			})
		}
	}
	w.write(request)
	many := []string{"many", "rate(many[5m])", "many * on (i) many", "sum(many)", "topk(300, many)",
		"double_exponential_smoothing(many[5m], 0.5, pi()/9)",
		"many + on (i) double_exponential_smoothing(many[3m], 0.5, pi()/9)", "many * on () many", "absent(many)"}
	registry := prometheus.NewRegistry()
	options := w.options
	options.TotalBytesMax, options.Registerer = 1<<20, registry
	limited, err := newSource(options)
	require.NoError(t, err)
	e := newQueryEngine(t, limited, query.On)
	held := func() float64 { return heldBytes(t, registry) }
	refused, most := 0, 0.0
	for range int(seeds.Number(t, "HALITE_CASES", memoryCases)) {
		text := w.vector(1 + w.IntN(3))
		if w.IntN(2) == 0 {
			text = many[w.IntN(len(many))]
		}
		ctx, cancel := context.WithCancel(context.Background())
		if w.IntN(8) == 0 {
			time.AfterFunc(time.Duration(w.IntN(2000))*time.Microsecond, cancel)
		}
		r, err := e.Range(ctx, query.RangeRequest{
			Query: text, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + w.Int64N(3*hourMs)), Step: time.Minute,
			Params: query.Params{Columnar: []query.Switch{query.On, query.Off}[w.IntN(2)]},
		})
		cancel()
		if typed := new(query.Error); errors.As(err, &typed) && typed.Type == query.ErrorUnavailable {
			require.ErrorContains(t, err, "(query.max-total-bytes)", text)
			refused++
		}
		if err == nil {
			most = max(most, held())
			r.Close()
		}
		require.Zero(t, held(), text)
	}
	t.Logf("%d refused, %.0f bytes held at most", refused, most)
	require.Positive(t, refused)
	require.Positive(t, most)
}

// heldBytes returns tsdb_query_memory_bytes.
func heldBytes(t *testing.T, g prometheus.Gatherer) float64 {
	t.Helper()
	families, err := g.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "tsdb_query_memory_bytes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no tsdb_query_memory_bytes")
	return 0
}

// TestMemoryLimitOfPrincipals: the limit of a principal holds for operators, for the engine, and for both together.
func TestMemoryLimitOfPrincipals(t *testing.T) {
	s := newStack(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var request []ingest.Sample
	for i := range 100 {
		for k := range int64(120) {
			request = append(request, ingest.Sample{
				Labels: labels.FromStrings("__name__", "many", "i", fmt.Sprint(i)), TsMs: dataFrom + k*30_000, Value: float64(k),
			})
		}
	}
	s.write(request)
	type limitKey struct{}
	options := s.options
	options.BytesLimit = func(ctx context.Context) int64 {
		most, _ := ctx.Value(limitKey{}).(int64)
		return most
	}
	limited, err := newSource(options)
	require.NoError(t, err)
	e := newQueryEngine(t, limited, query.On)
	for _, c := range []struct {
		text     string
		columnar query.Switch
	}{
		{"many", query.On}, {"many", query.Off}, {"double_exponential_smoothing(many[5m], 0.5, pi()/9)", query.On},
		{"many + on (i) double_exponential_smoothing(many[3m], 0.5, pi()/9)", query.On},
	} {
		for limit, refused := range map[int64]bool{0: false, 32 << 10: true} {
			r, err := e.Range(context.WithValue(t.Context(), limitKey{}, limit), query.RangeRequest{
				Query: c.text, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + hourMs), Step: time.Minute,
				Params: query.Params{Columnar: c.columnar},
			})
			if refused {
				require.ErrorContains(t, err, "32768", c.text)
				continue
			}
			require.NoError(t, err, c.text)
			r.Close()
		}
	}
}

// TestMemoryOfRankings: topk needs memory for each group and step, even if its series have few samples.
func TestMemoryOfRankings(t *testing.T) {
	s := newStack(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var request []ingest.Sample
	for i := range 100 {
		request = append(request, ingest.Sample{
			Labels: labels.FromStrings("__name__", "brief", "i", fmt.Sprint(i)), TsMs: dataFrom, Value: float64(i),
		})
	}
	s.write(request)
	options := s.options
	options.BytesLimit = func(context.Context) int64 { return 4 << 20 }
	limited, err := newSource(options)
	require.NoError(t, err)
	e := newQueryEngine(t, limited, query.On)
	for text, refused := range map[string]bool{"topk(1, brief)": false, "topk by (i) (1, brief)": true} {
		r, err := e.Range(t.Context(), query.RangeRequest{
			Query: text, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(dataFrom + 10_000_000), Step: time.Second,
		})
		if refused {
			require.ErrorContains(t, err, "4194304", text)
			continue
		}
		require.NoError(t, err, text)
		r.Close()
	}
}

// unchanged reports no changes of samples.
type unchanged struct{}

func (unchanged) Generation() uint64 { return 1 }

func (unchanged) ChangedSince(uint64, int64, int64) (fromMs, toMs int64, changed bool) {
	return 0, 0, false
}

// TestResultsAreCountedUntilClose: the memory of a result counts until Close, whether operators, the engine, both or the
// result cache have made it. If results hold all memory, the next query is refused.
func TestResultsAreCountedUntilClose(t *testing.T) {
	s := newStack(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	var request []ingest.Sample
	const series, samples = 100, 120
	for i := range series {
		for k := range int64(samples) {
			request = append(request, ingest.Sample{
				Labels: labels.FromStrings("__name__", "many", "i", fmt.Sprint(i)), TsMs: dataFrom + k*30_000, Value: float64(k),
			})
		}
	}
	s.write(request)
	registry := prometheus.NewRegistry()
	options := s.options
	options.TotalBytesMax, options.Registerer = 3<<20, registry
	limited, err := newSource(options)
	require.NoError(t, err)
	e, err := newEngine(query.Options{Queryable: limited, Changes: unchanged{}, Experimental: true})
	require.NoError(t, err)
	const resultBytes = series * samples * 16
	end := dataFrom + int64(samples-1)*30_000
	for _, c := range []struct {
		name, text string
		instant    bool
		columnar   query.Switch
	}{
		{name: "engine", text: "many[1h]", instant: true}, {name: "engine, subquery", text: "many[59m:30s]", instant: true},
		{name: "engine by request", text: "many", columnar: query.Off}, {name: "columns", text: "many"},
		{name: "result cache", text: "many"},
		{name: "both", text: "double_exponential_smoothing(many[1m:30s], 0.5, pi()/9) + on (i) many"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Zero(t, heldBytes(t, registry))
			var results []*query.Result
			for {
				p := query.Params{Columnar: c.columnar}
				var r *query.Result
				if c.instant {
					r, err = e.Instant(t.Context(), query.InstantRequest{Query: c.text, TimeMs: end, Params: p})
				} else {
					r, err = e.Range(t.Context(), query.RangeRequest{
						Query: c.text, Start: time.UnixMilli(dataFrom), End: time.UnixMilli(end), Step: 30 * time.Second, Params: p,
					})
				}
				if err != nil {
					break
				}
				results = append(results, r)
				require.GreaterOrEqual(t, heldBytes(t, registry), 0.9*resultBytes*float64(len(results)))
				require.Less(t, len(results), 20)
			}
			require.ErrorContains(t, err, "(query.max-total-bytes)")
			require.Greater(t, len(results), 3)
			for _, r := range results {
				r.Close()
			}
			require.Zero(t, heldBytes(t, registry))
		})
	}
}
