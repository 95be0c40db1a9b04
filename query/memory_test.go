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
	"halite/query/promql"
)

const memoryCases = 120

// TestMemoryOfQueriesComesBack asks what succeeds, fails, is cancelled, or finds no memory left: once it is over, nothing
// is held.
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
	many := []string{"many", "rate(many[5m])", "many * on (i) many", "sum(many)", "mad_over_time(many[5m])", "topk(300, many)",
		"many + on (i) mad_over_time(many[3m])", "many * on () many", "absent(many)"}
	registry := prometheus.NewRegistry()
	options := w.options
	options.TotalBytesMax, options.Registerer = 1<<20, registry
	limited, err := promql.New(options)
	require.NoError(t, err)
	e := newQueryEngine(t, limited, query.On)
	held := func() (bytes float64) {
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "tsdb_query_memory_bytes" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("there is no tsdb_query_memory_bytes")
		return 0
	}
	refused, most := 0, 0.0
	for range int(fromEnv("HALITE_CASES", memoryCases)) {
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
