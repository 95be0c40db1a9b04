package query_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
	"halite/query"
	"halite/query/column"
)

// TestExpiredHistogramsAreHidden: histograms older than their own age are hidden to the millisecond, in the head and in the
// tables. Floats of the same series stay.
func TestExpiredHistogramsAreHidden(t *testing.T) {
	const day = 24 * time.Hour
	clock := new(atomic.Int64)
	clock.Store(dataFrom)
	s := openStackWith(t, vfs.NewMem(), stackOptions{clock: clock, raw: 9 * day})
	two := 2 * keyschema.AgeMin
	schema, err := keyschema.NewSchema([]keyschema.Rule{
		{Pattern: "short", Retention: &keyschema.RuleRetention{Histograms: &two}},
	})
	require.NoError(t, err)
	ages, err := schema.Retention(keyschema.RetentionByTier{9 * keyschema.AgeMin, 0, 0, 4 * keyschema.AgeMin})
	require.NoError(t, err)
	s.options.Retention = ages.Tier(keyschema.Raw)
	s.source, err = newSource(s.options)
	require.NoError(t, err)
	for i, metric := range []string{"short", "other"} {
		ls := labels.FromStrings("__name__", metric)
		var samples []ingest.Sample
		for n := range int64(3) {
			samples = append(samples, ingest.Sample{Labels: ls, TsMs: dataFrom - 1 + n, H: tsdbutil.GenerateTestHistogram(int64(i))})
		}
		s.write(append(samples, ingest.Sample{Labels: ls, TsMs: dataFrom - 2, Value: 7}))
	}
	count := func(metric, function string, at time.Duration) string {
		t.Helper()
		clock.Store(dataFrom + at.Milliseconds())
		engine := newQueryEngine(t, s.source, query.On)
		text := function + "(" + metric + "[9d])"
		got, err := runQuery(engine, text, dataFrom+at.Milliseconds(), dataFrom+at.Milliseconds(), time.Minute, query.Params{})
		require.NoError(t, err)
		return got.Value.String()
	}
	for _, where := range []string{"head", "tables"} {
		if where == "tables" {
			s.flush()
		}
		for metric, age := range map[string]time.Duration{"short": 2 * day, "other": 4 * day} {
			require.Contains(t, count(metric, "count_over_time", age-time.Millisecond), "\n4 @[", "%s %s", where, metric)
			require.Contains(t, count(metric, "count_over_time", age), "\n3 @[", "%s %s", where, metric)
			require.Contains(t, count(metric, "count_over_time", age+time.Millisecond), "\n2 @[", "%s %s", where, metric)
			warnings := s.Reader().RetiredHistograms(t.Context(), column.TimeRange{MinMs: dataFrom, MaxMs: dataFrom},
				[]*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", metric)})
			require.NotEmpty(t, warnings)
			require.Contains(t, count(metric, "last_over_time", age+2*time.Millisecond), "\n7 @[", "%s %s", where, metric)
		}
	}
	require.NoError(t, s.Close())
}
