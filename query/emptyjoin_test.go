package query_test

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// TestEmptyJoin: while an alert does not fire, the left side of its join is often empty. Then series with equal signatures on
// the right side are not an error, and the engine need not evaluate the query again.
func TestEmptyJoin(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	for _, inst := range []string{"a", "b"} {
		ls := labels.FromStrings("__name__", "info", "job", "x", "inst", inst)
		s.write([]ingest.Sample{{Labels: ls, TsMs: dataFrom, Value: 1}})
	}
	for _, text := range []string{
		"none * on (job) group_left (inst) info", "none + on (job) info", "(none > 1) == on (job) info",
		"none / on (job) group_right () info",
	} {
		e := newQueryEngine(t, s.source, query.On)
		res, err := runQuery(e, text, dataFrom, dataFrom+hourMs, 15*time.Minute, query.Params{Explain: true})
		a := responseOf(text, res, err)
		require.NoError(t, a.err)
		require.Empty(t, a.points, text)
		require.Equal(t, "columnar", a.way, text)
	}
}
