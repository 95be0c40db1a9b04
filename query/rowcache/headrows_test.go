package rowcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// TestHeadRowsVersions puts a row of the head and looks for it before and after changes of its hour.
func TestHeadRowsVersions(t *testing.T) {
	const hour = 400_000
	startMs := keyschema.HourStartMs(hour)
	watch := NewWatch()
	c, err := New(Options{Watch: watch})
	require.NoError(t, err)
	series := []index.Series{{Ref: 1}, {Ref: 2}, {}}
	since := column.Points{TsMs: []int64{startMs + 10, startMs + 20, startMs + 40}, Values: []float64{1, 2, 3}}
	find := func(deletions uint64) (nextMs []int64, of *HeadRows) {
		of = c.HeadRows(hour, deletions)
		nextMs, found := of.Find(series)
		require.Equal(t, found > 0, nextMs[0] > startMs)
		require.Equal(t, []int64{startMs, startMs}, nextMs[1:])
		return nextMs, of
	}
	next, of := find(7)
	require.Equal(t, startMs, next[0])
	of.Put([]HeadRow{{&series[0], of.Extended(0, since)}, {&series[1], column.Points{}}, {&series[2], since}})
	of.Release()

	next, of = find(7)
	require.Equal(t, startMs+21, next[0], "the newest sample may still change")
	var b column.Buffer
	require.Equal(t, int64(10), of.AppendTo(&b, 0, column.TimeRange{MinMs: startMs + 15, MaxMs: startMs + 90}).StepMs)
	require.Equal(t, column.Buffer{TsMs: []int64{startMs + 20}, Values: []float64{2}}, b)
	all := of.Extended(0, column.Points{TsMs: []int64{startMs + 50, startMs + 60}, Values: []float64{5, 6}})
	require.Equal(t, column.Points{TsMs: []int64{startMs + 10, startMs + 20, startMs + 50}, Values: []float64{1, 2, 5}}, all)
	of.Put([]HeadRow{{&series[0], all}})
	of.Release()

	next, of = find(7)
	require.Equal(t, startMs+51, next[0])
	require.True(t, of.Unchanged())
	require.NoError(t, watch.During(startMs, startMs, func() error { return nil }))
	require.False(t, of.Unchanged())
	of.Release()
	next, of = find(7)
	require.Equal(t, startMs, next[0], "the hour has changed")
	of.Put([]HeadRow{{&series[0], all}})
	of.Release()
	next, of = find(8)
	require.Equal(t, startMs, next[0], "something was deleted")
	of.Release()
}
