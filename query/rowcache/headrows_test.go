package rowcache

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/query/column"
	"halite/storage/index"
)

// headRowsTest finds rows of the head of an hour.
type headRowsTest struct {
	*testing.T
	cache   *Cache
	hour    int64
	startMs int64
	series  []index.Series
}

func newHeadRowsTest(t *testing.T) (*headRowsTest, *Watch) {
	watch := NewWatch()
	c, err := New(Options{Watch: watch})
	require.NoError(t, err)
	const hour = 400_000
	return &headRowsTest{t, c, hour, keyschema.HourStartMs(hour), []index.Series{{Ref: 1}, {Ref: 2}, {}}}, watch
}

// find returns the rows, and the time since which the samples of the first series are needed.
func (h *headRowsTest) find(deletions uint64, minMs int64) (of *HeadRows, pins *Pins, fromMs int64) {
	h.Helper()
	pins = h.cache.NewPins()
	of = h.cache.HeadRows(h.hour, deletions, pins)
	from, found := of.Find(h.series, h.startMs+minMs)
	require.Equal(h, []int64{h.startMs, h.startMs}, from[1:])
	require.Equal(h, found > 0, of.rows[0].words != nil)
	return of, pins, from[0] - h.startMs
}

// points are samples at offsets in the hour.
func (h *headRowsTest) points(offsets []int64, values ...float64) (p column.Points) {
	for _, o := range offsets {
		p.TsMs = append(p.TsMs, h.startMs+o)
	}
	p.Values = values
	return p
}

// TestHeadRowsVersions puts a row of the head and looks it up before and after changes of its hour.
func TestHeadRowsVersions(t *testing.T) {
	h, watch := newHeadRowsTest(t)
	of, pins, from := h.find(7, 0)
	require.Zero(t, from)
	row := h.points([]int64{10, 20, 40}, 1, 2, 3)
	of.Put([]HeadRow{{0, row}, {1, column.Points{}}, {2, row}})
	of.Release()
	pins.Release(nil)

	of, pins, from = h.find(7, 0)
	require.Equal(t, int64(40), from, "the newest sample may still change")
	var b column.Buffer
	within := column.TimeRange{MinMs: h.startMs + 15, MaxMs: h.startMs + 90}
	require.Equal(t, int64(0), of.AppendTo(&b, 0, within).StepMs)
	require.Equal(t, column.Buffer(h.points([]int64{20}, 2)), b)
	require.False(t, of.Compare(0, h.points([]int64{50}, 3), within.MaxMs), "the last sample is missing")
	require.True(t, of.Compare(0, h.points([]int64{40, 50}, 4, 5), within.MaxMs))
	_, ok := of.Pin(0, within)
	require.False(t, ok)
	of.Put([]HeadRow{{0, h.points([]int64{40, 50}, 4, 5)}})
	of.Release()
	pins.Release(nil)

	of, pins, from = h.find(7, 0)
	require.Equal(t, int64(50), from)
	require.True(t, of.Unchanged())
	require.NoError(t, watch.During(h.startMs, h.startMs, func() error { return nil }))
	require.False(t, of.Unchanged())
	of.Release()
	of, _, from = h.find(7, 0)
	require.Zero(t, from, "the hour has changed")
	of.Put([]HeadRow{{0, row}})
	of.Release()
	of, _, from = h.find(8, 0)
	require.Zero(t, from, "something was deleted")
	of.Release()
	pins.Release(nil)
}

// TestHeadRowsGrow adds samples to a row in place while an earlier reader uses it.
func TestHeadRowsGrow(t *testing.T) {
	h, _ := newHeadRowsTest(t)
	of, _, _ := h.find(0, 5)
	of.Put([]HeadRow{{0, h.points([]int64{10, 20, 30, 40, 50}, 1, 2, 3, 4, 5)}})
	of.Release()

	all := column.TimeRange{MinMs: h.startMs, MaxMs: h.startMs + 900}
	earlier, earlierPins, _ := h.find(0, 10)
	other, otherPins, _ := h.find(0, 10)
	later, laterPins, from := h.find(0, 10)
	require.Equal(t, int64(50), from)
	require.True(t, earlier.Compare(0, h.points([]int64{50}, 5), all.MaxMs))
	earlier.Extend()
	before, ok := earlier.Pin(0, all)
	require.True(t, ok)
	require.True(t, later.Compare(0, h.points([]int64{50, 60, 70}, 5, 6, 0), all.MaxMs))
	later.Extend()
	after, ok := later.Pin(0, column.TimeRange{MinMs: h.startMs + 15, MaxMs: h.startMs + 900})
	require.True(t, ok)
	require.Equal(t, []float64{1, 2, 3, 4, 5}, before.Values)
	require.True(t, before.Monotonic)
	require.Equal(t, []float64{2, 3, 4, 5, 6, 0}, after.Values)
	require.Equal(t, []int64{h.startMs + 20, h.startMs + 30}, after.Times(nil)[:2])
	require.False(t, after.Monotonic)
	require.Same(t, &before.Values[1], &after.Values[0], "the memory is shared")

	// The sample at 70 was newest, and has another value now.
	require.True(t, other.Compare(0, h.points([]int64{50, 60, 70, 80}, 5, 6, 7, 8), all.MaxMs))
	other.Extend()
	_, ok = other.Pin(0, all)
	require.False(t, ok)
	// Three samples have room behind five, but these are not evenly spaced.
	for _, since := range []column.Points{h.points([]int64{70, 81}, 0, 1), h.points([]int64{70, 80, 90}, 0, 1, 2)} {
		rows, pins, from := h.find(0, 10)
		require.Equal(t, int64(70), from)
		require.True(t, rows.Compare(0, since, all.MaxMs))
		rows.Extend()
		_, ok := rows.Pin(0, all)
		require.False(t, ok)
		require.Equal(t, len(since.TsMs) == 3, rows.WorthCaching(0, since), "a full row is put again")
		rows.Release()
		pins.Release(nil)
	}
	for _, p := range []*Pins{earlierPins, otherPins, laterPins} {
		p.Release(nil)
	}
}
