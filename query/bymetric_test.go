package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/query"
)

// TestCountsHoldOneMetricAtATime: a count may read more series than the limit if each metric stays below it. Some series
// have no name, or labels that sort before it.
func TestCountsHoldOneMetricAtATime(t *testing.T) {
	const metrics, each = 7, 30
	for _, first := range []string{"job", "Job"} {
		s := newStack(t)
		for m := range metrics {
			var request []ingest.Sample
			for i := range each {
				ls := labels.FromStrings("__name__", fmt.Sprintf("m:%d", m), first, fmt.Sprint(i%3), "i", fmt.Sprint(i))
				request = append(request, ingest.Sample{Labels: ls, TsMs: dataFrom, Value: float64(i)})
			}
			s.write(request)
		}
		options := s.options
		options.SeriesMax = each + 5
		limited, err := newSource(options)
		require.NoError(t, err)
		plain, split := newQueryEngine(t, s.source, query.Off), newQueryEngine(t, limited, query.On)
		for _, text := range []string{
			`count by (__name__) ({__name__=~".+"})`, `count by (` + first + `) ({i=~".+"})`, `group by (i) ({__name__!="m:2",i=~".+"})`,
		} {
			want, err := runQuery(plain, text, dataFrom, dataFrom+60_000, time.Minute, query.Params{})
			require.NoError(t, err)
			got, err := runQuery(split, text, dataFrom, dataFrom+60_000, time.Minute, query.Params{})
			if first == "Job" {
				require.ErrorContains(t, err, "query.max-series", "the engine needs all of them")
				continue
			}
			require.NoError(t, err, text)
			require.Equal(t, want.Value.String(), got.Value.String(), text)
		}
		require.NoError(t, s.Close())
	}
}
