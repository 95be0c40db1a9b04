package opentsdb

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"halite/api/opentsdb/stats"
	"halite/storage"
	"halite/storage/notes"
	"halite/storage/storagetest"
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

// TestTimesOfAnnotations: annotations take the times that queries take, and know which are in seconds.
func TestTimesOfAnnotations(t *testing.T) {
	t.Parallel()
	h := New(Options{Now: func() time.Time { return time.Unix(1_600_000_000, 0) }})
	for text, want := range map[string]struct {
		ms      int64
		seconds bool
	}{
		"": {0, true}, "0": {0, true}, "1500000000": {1500000000_000, true}, "1500000000123": {1500000000_123, false},
		"1500000000.5": {1500000000_500, false}, "77ms": {77, false}, "2017/07/14-02:40": {1500000000_000, false},
		"1y-ago": {1568464000_000, false}, "now": {1600000000_000, false},
	} {
		ms, seconds, err := h.timeOf(text)
		require.NoError(t, err, text)
		require.Equal(t, want.ms, ms, text)
		require.Equal(t, want.seconds, seconds, text)
	}
	for _, text := range []string{"-1", "x", "1x-ago", "99999999999999", "true"} {
		_, _, err := h.timeOf(text)
		var failed *failure
		require.ErrorAs(t, err, &failed, text)
		require.Equal(t, http.StatusBadRequest, failed.status, text)
	}
}

// TestBulkIsWhole: one invalid annotation or tsuid refuses the whole request, and nothing is stored or deleted.
func TestBulkIsWhole(t *testing.T) {
	t.Parallel()
	meta, err := storagetest.NewModel(time.Now).EnsureTable(t.Context(), storage.MetaSchema())
	require.NoError(t, err)
	stored := notes.New(meta, func(context.Context) error { return nil })
	h := New(Options{Now: func() time.Time { return time.Unix(1_600_000_000, 0) }, Notes: stored, BodyBytesMax: 1 << 20})
	send := func(method, body string, handle handler) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, "/api/annotation/bulk", strings.NewReader(body))
		Port(h.handlerFunc(handle)).ServeHTTP(w, r)
		return w.Code
	}
	count := func() int {
		list, err := stored.Annotations(t.Context(), "", 0, 2e12, 10)
		require.NoError(t, err)
		return len(list)
	}
	const good = `[{"startTime":1500000000,"description":"a"}`
	for _, bad := range []string{`{"startTime":1500000100,"endTime":1500000000}`, `{"startTime":1500000100,"endTime":"x"}`, `{}`} {
		require.Equal(t, http.StatusBadRequest, send(http.MethodPost, good+","+bad+"]", h.storeAnnotations), bad)
		require.Zero(t, count(), bad)
	}
	require.Equal(t, http.StatusOK, send(http.MethodPost, good+"]", h.storeAnnotations))
	const deletion = `{"global":true,"startTime":1400000000,"tsuids":["x"]}`
	require.Equal(t, http.StatusBadRequest, send(http.MethodDelete, deletion, h.deleteAnnotations))
	require.Equal(t, 1, count())
}

// TestBareStats: without /api/ stats are lines, or with json an array of lines.
func TestBareStats(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	writes := prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_writes_total"})
	reads := prometheus.NewCounter(prometheus.CounterOpts{Name: "tsdb_reads_total"})
	registry.MustRegister(writes, reads)
	h := New(Options{Stats: &stats.Source{Gatherer: registry, Host: "h", Now: func() time.Time { return time.Unix(7, 0) }}})
	for path, want := range map[string]string{
		"/stats":          "tsd.tsdb.reads.total 7 0 host=h\ntsd.tsdb.writes.total 7 0 host=h\n",
		"/Stats/?json":    `["tsd.tsdb.reads.total 7 0 host=h","tsd.tsdb.writes.total 7 0 host=h"]`,
		"/api/stats/else": `[{"metric":"tsd.tsdb.reads.total","timestamp":7,"value":"0","tags":{"host":"h"}},`,
	} {
		w := httptest.NewRecorder()
		Port(h.handlerFunc(h.stats)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Equal(t, want, w.Body.String()[:min(len(want), w.Body.Len())], path)
	}
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
