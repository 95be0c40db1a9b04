package query_test

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// TestTypedSeriesAreNotJoinedFromParts: two series with the same name and different types become equal when a function drops
// name and type. A range with both series is an error, even if the cache has a first part with only one of them.
func TestTypedSeriesAreNotJoinedFromParts(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	var history []ingest.Sample
	for k := range int64(120) {
		kind := "counter"
		switch {
		case k >= 80:
			kind = "gauge"
		case k > 60:
			continue
		}
		ls := labels.FromStrings("__name__", "x_total", "__type__", kind)
		history = append(history, ingest.Sample{Labels: ls, TsMs: dataFrom + k*60_000, Value: float64(k)})
	}
	s.write(history)
	e := cachingEngine(t, s, nil)
	const text = "rate(x_total[5m])"
	at := func(k int64) int64 { return dataFrom + k*60_000 }
	for range 2 {
		_, err := runQuery(e, text, at(0), at(70), time.Minute, query.Params{})
		require.NoError(t, err)
		_, err = runQuery(e, text, at(0), at(110), time.Minute, query.Params{})
		require.ErrorContains(t, err, "same labelset")
	}
}
