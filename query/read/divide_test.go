package read_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/query/read"
	"halite/query/read/readtest"
)

// TestBatchesOfSeveralRows: a batch has RangeBatchRowsMax rows of series with some hours, and BatchRowsMax rows of others.
func TestBatchesOfSeveralRows(t *testing.T) {
	const series, hourMs = 120, 3_600_000
	for _, c := range []struct{ hours, batches int }{
		{1, 2},  // 60 series each
		{3, 12}, // 10 series each
		{30, 60},
	} {
		w := readtest.NewWorld(t)
		for i := range series {
			s := w.Add(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
			for hour := range int64(c.hours) {
				s.Table[hour*hourMs] = float64(hour)
			}
		}
		w.Store(rand.New(rand.NewPCG(1, 1)))
		q := w.Reader(func(o *read.Options) { o.BatchRowsMax, o.RangeBatchRowsMax = 60, 30 })
		session := q.Session()
		windows := read.Windows{FirstEndMs: int64(c.hours) * hourMs, RangeMs: int64(c.hours)*hourMs + 1, Steps: 1}
		sel, err := session.Select(t.Context(), windows, match(labels.MatchEqual, "__name__", "m"))
		require.NoError(t, err)
		batches := 0
		for range sel.Batches() {
			batches++
		}
		require.Equal(t, c.batches, batches, "%d hours", c.hours)
		sel.Close()
		session.Close()
	}
}
