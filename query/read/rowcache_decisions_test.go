package read_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/column"
	"halite/query/read"
	"halite/query/read/readtest"
	"halite/query/rowcache"
)

// TestRowCacheDecisions shows which rows a query reads from the table and which from the row cache. Times count from a day.
//
//	world series=2 step=1m [cache-bytes=…] writes two days of samples and begins with an empty cache
//	query from=0h to=3h        reads a range
//	query to=3h range=5m step=24h steps=2 reads windows
//	change from=1h to=1h       rewrites the samples of a range
func TestRowCacheDecisions(t *testing.T) {
	var (
		q     *read.Reader
		watch *rowcache.Watch
	)
	datadriven.RunTest(t, "testdata/rowcache", func(t *testing.T, d *datadriven.TestData) string {
		ms := func(name string) int64 {
			var text string
			d.MaybeScanArgs(t, name, &text)
			if text == "" {
				return 0
			}
			out, err := time.ParseDuration(text)
			require.NoError(t, err)
			return out.Milliseconds()
		}
		switch d.Cmd {
		case "world":
			w, series, bytes := readtest.NewWorld(t), 1, int64(64<<20)
			d.MaybeScanArgs(t, "series", &series)
			d.MaybeScanArgs(t, "cache-bytes", &bytes)
			for i := range series {
				s := w.Add(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
				for ts := base; ts < base+2*day; ts += ms("step") {
					s.Table[ts] = float64(ts)
				}
			}
			w.Store(rand.New(rand.NewPCG(1, 1)))
			watch = rowcache.NewWatch()
			cache, err := rowcache.New(rowcache.Options{Watch: watch, BytesMax: bytes})
			require.NoError(t, err)
			q = w.Reader(func(o *read.Options) { o.Cache = cache })
			return ""
		case "change":
			require.NoError(t, watch.During(base+ms("from"), base+ms("to"), func() error { return nil }))
			return ""
		}
		w := read.Windows{FirstEndMs: base + ms("to") - 1, Steps: 1, StepMs: max(1, ms("step")), RangeMs: ms("to") - ms("from")}
		if d.HasArg("range") {
			w.RangeMs = ms("range")
		}
		d.MaybeScanArgs(t, "steps", &w.Steps)
		session := q.Session()
		sel, err := session.Select(t.Context(), w, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
		require.NoError(t, err)
		defer sel.Close()
		got := make([]column.Points, sel.Len())
		for i := range sel.Batches() {
			readPieces(t, sel, i, got, w.Bounds().MaxMs)
		}
		f := session.Figures()
		return fmt.Sprintf("rows read %d, cached %d; samples %d\n", f.Rows, f.RowsCached, f.Samples)
	})
}
