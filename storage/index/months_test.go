package index

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/storage"
	"halite/storage/index/compaction"
	"halite/storage/index/lookup"
	"halite/storage/index/presence"
	"halite/storage/index/segment"
)

// newLongWorld returns a world that runs for months. Half of these worlds have a retention.
func newLongWorld(t testing.TB, seed uint64) *world {
	w := newWorld(t, seed)
	w.long = true
	if w.rng.IntN(2) == 0 {
		w.retention = time.Duration(20+w.rng.IntN(40)) * 24 * time.Hour
	}
	w.reopen()
	return w
}

// longStep is a step of a world in which days pass quickly.
func (w *world) longStep() {
	switch op := w.rng.IntN(20); op {
	case 0, 1, 2, 3, 4, 5, 6:
		w.touchSome()
	case 7, 8, 9, 10:
		w.advance(time.Duration(w.rng.IntN(60)) * time.Hour)
	case 11, 12, 13, 14:
		w.advance(31 * time.Minute)
		w.maintain()
	case 15:
		w.persist()
	case 16:
		w.persist()
		w.reopen()
	case 17:
		w.retire()
	case 18:
		w.rebuild()
	case 19:
		w.failSome()
	}
}

// TestMonthsAgainstOracle runs a world through more than two months of churn, late data, retention, crashes and rebuilds. It
// compares every look-up, from days or months, with a naive map, hour by hour.
func TestMonthsAgainstOracle(t *testing.T) {
	for seed := range seedCount(t, 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newLongWorld(t, seed)
			reads, days := 0.0, int64(75)
			if testing.Short() {
				days = 50
			}
			for w.now().Before(time.UnixMilli(keyschema.HourStartMs((baseDay + days) * 24))) {
				before := w.x
				w.longStep()
				if w.x != before {
					reads += testutil.ToFloat64(before.metrics.monthReads)
				}
				if w.rng.IntN(4) == 0 {
					w.check()
					w.eachLevel()
				}
			}
			reads += testutil.ToFloat64(w.x.metrics.monthReads)
			require.Greater(t, reads, float64(days-45)/3)
		})
	}
}

// eachLevel compares a look-up that reads only days with one that reads months where possible.
func (w *world) eachLevel() {
	mint, maxt := w.window()
	m := w.matcher()
	days, err := w.x.SelectBy(context.Background(), nil, lookup.ByDays, mint, maxt, m)
	require.NoError(w.t, err)
	months, err := w.x.SelectBy(context.Background(), nil, lookup.ByMonths, mint, maxt, m)
	require.NoError(w.t, err)
	w.same(days, months, fmt.Sprintf("days and months of %d..%d, %v", mint/keyschema.HourMs, maxt/keyschema.HourMs, m))
}

// monthWorld has a month of ten days, all compacted and contained.
func monthWorld(t *testing.T, seed uint64) *world {
	w := newWorld(t, seed)
	w.layout.Months = segment.MonthRule{DaysMin: 2, Share: 1000}
	w.x.store.Layout = w.layout
	for range 10 {
		for range 3 {
			w.touchSome()
		}
		w.advance(26 * time.Hour)
		require.True(t, w.persist())
		require.True(t, w.maintain())
	}
	return w
}

// monthReads counts the months that a look-up of the whole history reads, and checks its result.
func (w *world) monthReads() float64 {
	before := testutil.ToFloat64(w.x.metrics.monthReads)
	w.everything()
	return testutil.ToFloat64(w.x.metrics.monthReads) - before
}

// TestDamagedMonth damages one cell of a month after another. Look-ups then read the days, and the next Maintain rewrites
// the month.
func TestDamagedMonth(t *testing.T) {
	w := monthWorld(t, 3)
	require.NotZero(t, w.monthReads())
	step, stepsMin, seenMin := 23, 3, 6 // damaging every cell would take too long
	if testing.Short() {
		step, stepsMin, seenMin = 92, 0, 1
	}
	at, seen := presence.MonthOf(baseDay).CellMs(), 0
	for n := 0; ; n++ {
		var cells []placedCell
		for _, c := range w.storedCells() {
			if c.cell.TsMs == at {
				cells = append(cells, c)
			}
		}
		if n*step >= len(cells) {
			require.Greater(t, n, stepsMin)
			break
		}
		c := cells[n*step]
		bad := damage(w.rng, c.cell.Value, nil)
		if string(bad) == string(c.cell.Value) {
			continue
		}
		c.write(t, bad)
		w.reopen()
		w.everything()
		noticed := w.x.store.Closed.Month(presence.MonthOf(baseDay)) == nil ||
			w.x.store.Closed.Month(presence.MonthOf(baseDay)).Broken.Load()
		require.True(t, w.maintain())
		if noticed {
			require.False(t, w.x.store.Closed.Month(presence.MonthOf(baseDay)).Broken.Load())
			require.NotZero(t, w.monthReads(), "%q %q", c.key, c.cell.Qualifier)
			w.tidy("after damage")
			seen++
		}
	}
	require.GreaterOrEqual(t, seen, seenMin)
}

// TestDamagedDayIsLeftOut breaks cells of one day after another. The month omits the day until it is rebuilt, and logs
// this once.
func TestDamagedDayIsLeftOut(t *testing.T) {
	w := monthWorld(t, 8)
	damagedDays := func() float64 { return testutil.ToFloat64(w.x.metrics.compaction.DamagedDays) }
	for n := range 6 {
		w.x.maint.Lock()
		require.NoError(t, w.x.compactor.VoidMonth(context.Background(), presence.MonthOf(baseDay)))
		w.x.maint.Unlock()
		day := baseDay + int64(n)
		w.breakDay(day)
		month := w.x.store.Closed.Month(presence.MonthOf(baseDay))
		for range 3 {
			require.True(t, w.maintain())
			require.EqualValues(t, 1, damagedDays())
			w.advance(time.Minute)
		}
		gen := month.Gen.Load()
		require.Zero(t, month.Manifest.Load().Days[day-month.Partition.FirstDay()].Gen)
		require.True(t, w.maintain())
		require.Equal(t, gen, month.Gen.Load())
		_, err := w.x.SelectBy(context.Background(), nil, lookup.ByMonths, 0, w.now().UnixMilli())
		require.ErrorIs(t, err, storage.ErrCorrupt)
		require.NoError(t, w.x.Rebuild(context.Background(), day, day))
		require.True(t, w.maintain())
		require.Zero(t, damagedDays())
		w.everything()
		require.NotZero(t, w.monthReads())
	}
}

// breakDay changes a cell of a day's segment that a compaction reads, and reopens the index.
func (w *world) breakDay(day int64) {
	var cells []placedCell
	for _, c := range w.storedCells() {
		kind := c.cell.Qualifier[0]
		if c.cell.TsMs == presence.DayPartition(day).CellMs() && (kind == segment.QualManifest || kind == segment.QualBlock ||
			kind == segment.QualValues) {
			cells = append(cells, c)
		}
	}
	c := cells[w.rng.IntN(len(cells))]
	c.cell.Value[w.rng.IntN(len(c.cell.Value))] ^= 4
	c.write(w.t.(*testing.T), c.cell.Value)
	w.reopen()
}

// TestLostDayManifest loses the manifest of a day that a month contains. Then the day has no segment, and the month never
// counts as containing a new segment of the day.
func TestLostDayManifest(t *testing.T) {
	w := monthWorld(t, 4)
	day := int64(baseDay + 2)
	gen := w.x.store.Closed.Day(day).Gen.Load()
	for _, c := range w.storedCells() {
		if string(c.key) == string(segment.ManifestKey(presence.DayPartition(day))) {
			c.write(t, nil)
		}
	}
	w.reopen()
	require.Nil(t, w.x.store.Closed.Day(day))
	s := w.add()
	w.touch(s, day*24+3) // late data makes a small segment
	require.True(t, w.maintain())
	require.Greater(t, w.x.store.Closed.Day(day).Gen.Load(), gen)
	from := keyschema.HourStartMs(day * 24)
	got, err := w.x.SelectBy(context.Background(), nil, lookup.ByMonths, from, from+24*keyschema.HourMs-1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.NoError(t, w.x.Rebuild(context.Background(), day, day))
	w.everything()
}

// TestMonthVerified finds wrong contents of a day in a month.
func TestMonthVerified(t *testing.T) {
	w := monthWorld(t, 5)
	day := int64(baseDay + 1)
	diff, err := w.x.Verify(context.Background(), day)
	require.NoError(t, err)
	require.Empty(t, diff)
	// Give the month the contents of another day.
	month := w.x.store.Closed.Month(presence.MonthOf(day))
	other, err := w.x.store.Open(context.Background(), w.x.store.Closed.Day(day+1))
	require.NoError(t, err)
	r := *month.Manifest.Load()
	at := day - month.Partition.FirstDay()
	wrong := []compaction.Source{compaction.SegmentSource{Segment: other, Shift: uint8(at)}}
	w.x.maint.Lock()
	err = w.x.compactor.Replace(context.Background(), month.Partition, wrong, compaction.Inputs{Days: r.Days}, nil)
	w.x.maint.Unlock()
	require.NoError(t, err)
	diff, err = w.x.Verify(context.Background(), day)
	require.NoError(t, err)
	require.NotEmpty(t, diff.Missing)
	require.NotEmpty(t, diff.Surplus)
	require.NoError(t, w.x.Rebuild(context.Background(), day, day))
	diff, err = w.x.Verify(context.Background(), day)
	require.NoError(t, err)
	require.Empty(t, diff)
	w.everything()
}

// TestMonthCompactIsThrottled: late data causes another compaction of a month only after hours, a new day at once.
func TestMonthCompactIsThrottled(t *testing.T) {
	w := monthWorld(t, 6)
	month := w.x.store.Closed.Month(presence.MonthOf(baseDay))
	gen := month.Gen.Load()
	w.touch(w.add(), baseDay*24+1)
	w.advance(compaction.DayInterval)
	require.True(t, w.maintain())
	require.Equal(t, gen, month.Gen.Load())
	w.everything()
	w.advance(compaction.MonthInterval)
	require.True(t, w.maintain())
	require.Equal(t, gen+1, month.Gen.Load())
	w.everything()
}

// TestExpiredMonth: a month is deleted together with its last day.
func TestExpiredMonth(t *testing.T) {
	w := monthWorld(t, 7)
	w.retention = 30 * 24 * time.Hour
	w.reopen()
	for range 50 {
		w.advance(24 * time.Hour)
		require.True(t, w.maintain())
		w.check()
	}
	require.Empty(t, w.x.store.Closed.AllMonths())
	require.Empty(t, w.x.store.Closed.DaysBetween(0, presence.DayMax))
}

// TestMonthSeriesMax compacts five days. One has more series than a month may contain, so look-ups read it on its own.
func TestMonthSeriesMax(t *testing.T) {
	w := newWorld(t, 3)
	w.layout = segment.DefaultLayout()
	w.layout.Months = segment.MonthRule{DaysMin: 2, Share: 1000}
	w.monthSeriesMax = 60
	w.reopen()
	for day, series := range []int{10, 100, 20, 30, 20} {
		for i := range series {
			ls := labels.FromStrings(model.MetricNameLabel, "m1", "b", fmt.Sprintf("%d-%d", day, i))
			s := &oracleSeries{labels: ls, hours: map[int64]bool{}, pending: map[int64]bool{}}
			w.series[ls.String()] = s
			w.keys = append(w.keys, ls.String())
			w.touch(s, w.hourNow())
		}
		w.advance(26 * time.Hour)
		require.True(t, w.persist())
		require.True(t, w.maintain())
	}
	m, err := w.x.store.Open(context.Background(), w.x.store.Closed.Month(presence.MonthOf(baseDay)))
	require.NoError(t, err)
	require.Equal(t, uint64(60), m.Manifest.Series, "days of 10, 20 and 30 series")
	require.NotZero(t, w.monthReads())
	for range 20 {
		w.check()
	}
}
