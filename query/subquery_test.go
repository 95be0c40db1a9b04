package query_test

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
	"halite/storage/storagetest/seeds"
)

// TestSubqueriesAgainstPrometheus sends random subqueries to Halite and to Prometheus's storage.
func TestSubqueriesAgainstPrometheus(t *testing.T) {
	t.Parallel()
	rng := newRandOf(t)
	data := newDataset(rng)
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	s.fill(data.history(rng), inBoth)
	theirs := newQueryEngine(t, prometheusOf(t, data), query.Off)
	cases := seeds.Number(t, "HALITE_CASES", unlessShort(differentialCases, differentialCases/5))
	compareAll(t, exprs{Rand: rng, subqueries: true}, newQueryEngine(t, s, query.On), theirs, int(cases))
}

// TestSubqueriesAddInOrder: functions that amplify differences in the last bits add the samples of windows in Prometheus's
// order.
func TestSubqueriesAddInOrder(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	ls := labels.FromStrings("__name__", "m")
	var samples []ingest.Sample
	for i := range int64(4 * 240) {
		samples = append(samples, ingest.Sample{Labels: ls, TsMs: dataFrom + i*15_000, Value: 0.1 + float64(i%240)/7})
	}
	s.write(samples)
	e := newQueryEngine(t, s, query.On)
	for _, text := range []string{
		"changes(avg_over_time(m[1h])[1h:15s])", "idelta(sum_over_time(m[1h])[1h:15s])",
		"resets(max_over_time(avg_over_time(m[1h])[1m:15s])[1h:15s])", "1e9 % stdvar_over_time(m[1h])",
	} {
		var got [2]response
		for i, way := range []query.Switch{query.On, query.Off} {
			res, err := runQuery(e, text, dataFrom+2*hourMs, dataFrom+3*hourMs, time.Minute, query.Params{Columnar: way, Explain: true})
			got[i] = responseOf(text, res, err)
		}
		require.Equal(t, "columnar", got[0].way, text)
		require.NoError(t, difference(got[1], got[0]), text)
		require.Equal(t, got[1].points, got[0].points, text)
	}
}
