package opentsdb

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/api/opentsdb/stats"
)

// FuzzSearch: a search that parses has tags with a key or a value, and as many as its text has commas at most.
func FuzzSearch(f *testing.F) {
	f.Add("sys.cpu{host=*,=lga,dc=}")
	f.Add("{a=b")
	f.Fuzz(func(t *testing.T, text string) {
		_, tags, err := parseSeries(text)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(tags), 1+strings.Count(text, ","))
		for _, at := range tags {
			require.NotEmpty(t, at.Key+at.Value)
		}
	})
}

// FuzzPath: a path that the own address serves is one of OpenTSDB's, without a version.
func FuzzPath(f *testing.F) {
	f.Add("/api/v1/search/lookup")
	f.Add("/API/v2/put/x")
	f.Fuzz(func(t *testing.T, text string) {
		path, err := ownPath(text)
		if err != nil || path == "" {
			return
		}
		require.Contains(t, families(), strings.Split(path, "/")[2])
	})
}

func TestStats(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tsdb_writes_total"}, []string{"by", "none"})
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tsdb_seconds"})
	registry.MustRegister(c, h)
	c.WithLabelValues("a b", "").Add(2.5)
	h.Observe(3)
	s := stats.Source{Gatherer: registry, Host: "box 1", Now: func() time.Time { return time.Unix(7, 0) }}
	text, err := s.Lines()
	require.NoError(t, err)
	require.Equal(t, "tsd.tsdb.seconds.count 7 1 host=box_1\ntsd.tsdb.seconds.sum 7 3 host=box_1\n"+
		"tsd.tsdb.writes.total 7 2.5 by=a_b host=box_1\n", string(text))
}
