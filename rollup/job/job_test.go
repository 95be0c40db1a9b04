package job

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/rollup"
	"halite/rollup/cell"
	"halite/rollup/store"
	"halite/storage"
)

// known counts the known buckets of a series from firstDay on, and their samples.
func (r *rig) known(t testing.TB, s *series, unit store.Unit, days int64) (known, samples int) {
	t.Helper()
	from, to := int64(firstDay), firstDay+days-1
	if unit == store.Hours {
		from, to = from*keyschema.DayHours, to*keyschema.DayHours+keyschema.DayHours-1
	}
	require.NoError(t, r.Read(context.Background(), store.Request{
		Prefixes: [][]byte{s.prefix}, Unit: unit, From: from, To: to, Fields: rollup.FieldsAll,
	}, func(_ int, c *rollup.Columns) error {
		for i := range c.Len() {
			if c.Known[i] {
				known++
				samples += int(c.Count[i])
			}
		}
		return nil
	}))
	return known, samples
}

// verified fails if a state does not equal its samples.
func (r *rig) verified(t testing.TB) Verification {
	t.Helper()
	v, err := r.Verify(context.Background(), firstDay, firstDay+400, func(d Difference) error {
		t.Errorf("differs: %+v", d)
		return nil
	})
	require.NoError(t, err)
	return v
}

func filled(t *testing.T, days int64, tweak func(*rigOptions)) (*rig, []*series, *rand.Rand) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := openRig(t, vfs.NewMem(), newClock(firstDay), tweak)
	all := []*series{newSeries(0), newSeries(1), newSeries(2), newSeries(3)}
	sortSeries(all)
	for i, s := range all {
		r.write(t, rng, s, generate(rng, i, firstDay*dayMs, (firstDay+days)*dayMs, 300_000))
	}
	r.clock.Store((firstDay+days)*dayMs + keyschema.HourMs)
	return r, all, rng
}

func TestDaysAndMonthsAreComputedWhenTheyClose(t *testing.T) {
	r, all, _ := filled(t, 14, nil) // January 20th to February 2nd
	defer r.close(t)
	known, _ := r.known(t, all[0], store.Hours, 14)
	require.Zero(t, known, "nothing is computed yet")
	r.work(t)
	known, samples := r.known(t, all[0], store.Hours, 14)
	require.Equal(t, 14*24, known)
	require.Equal(t, len(all[0].samples), samples)
	known, _ = r.known(t, all[0], store.Days, 14)
	require.Equal(t, 12, known, "January's days; February is open")
	require.Equal(t, Verification{Hours: 4 * 14 * 24, Days: 4 * 12}, r.verified(t))
	require.InDelta(t, 0, r.counter(t, "tsdb_rollup_corrupt_cells_total"), 0)
	n, err := testutil.GatherAndCount(r.reg)
	require.NoError(t, err)
	require.Greater(t, n, 10)
}

func TestLateSamplesMakeTheirHourUnknown(t *testing.T) {
	r, all, rng := filled(t, 14, nil)
	defer r.close(t)
	r.work(t)
	at := int64(firstDay*dayMs) + 5*keyschema.HourMs + 1
	r.write(t, rng, all[1], map[int64]float64{at: 7})
	known, _ := r.known(t, all[1], store.Hours, 14)
	require.Equal(t, 14*24-1, known)
	known, _ = r.known(t, all[0], store.Hours, 14)
	require.Equal(t, 14*24, known, "other series keep their states")
	known, _ = r.known(t, all[1], store.Days, 14)
	require.Zero(t, known, "January is computed again")
	r.verified(t)

	// A mark survives a restart and disappears when the job has computed the hour.
	require.NoError(t, r.store.Sync(context.Background()))
	r.close(t)
	r = openRig(t, r.fs, r.clock, nil)
	known, _ = r.known(t, all[1], store.Hours, 14)
	require.Equal(t, 14*24-1, known)
	r.work(t)
	known, samples := r.known(t, all[1], store.Hours, 14)
	require.Equal(t, 14*24, known)
	require.Equal(t, len(all[1].samples), samples)
	known, _ = r.known(t, all[1], store.Days, 14)
	require.Equal(t, 12, known)
	require.Equal(t, 0, r.verified(t).Different)
}

func TestManyLateSeriesInvalidateTheDay(t *testing.T) {
	r, all, rng := filled(t, 2, func(o *rigOptions) { o.MarksMax = 2 })
	defer r.close(t)
	r.work(t)
	var muts []storage.RowMutation
	for _, s := range all {
		late := map[int64]float64{firstDay*dayMs + 1: 3}
		muts = append(muts, s.rows(t, rng, late)...)
		s.samples[firstDay*dayMs+1] = 3
	}
	require.NoError(t, r.data.Apply(context.Background(), muts))
	require.Equal(t, store.WorkWhole, r.Manifest.View().Days[firstDay])
	known, _ := r.known(t, all[0], store.Hours, 2)
	require.Equal(t, 24, known, "only the second day's")
	r.work(t)
	known, samples := r.known(t, all[0], store.Hours, 2)
	require.Equal(t, 48, known)
	require.Equal(t, len(all[0].samples), samples)
}

// TestClosedDaysWithoutStatesGetNoMarks backfills days that never had states.
func TestClosedDaysWithoutStatesGetNoMarks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	r := openRig(t, vfs.NewMem(), newClock(firstDay+4), nil)
	defer r.close(t)
	s := newSeries(0)
	r.write(t, rng, s, generate(rng, 1, firstDay*dayMs, (firstDay+2)*dayMs, 300_000))
	require.Equal(t, map[int64]store.Work{firstDay: store.WorkWhole, firstDay + 1: store.WorkWhole}, r.Manifest.View().Days)
	require.Zero(t, r.counter(t, "tsdb_rollup_marks_total"))
	r.work(t)
	known, samples := r.known(t, s, store.Hours, 2)
	require.Equal(t, 48, known)
	require.Equal(t, len(s.samples), samples)
	// A day with states, and one without.
	r.write(t, rng, s, map[int64]float64{firstDay*dayMs + 1: 3, (firstDay+2)*dayMs + 1: 4})
	require.Equal(t, map[int64]store.Work{firstDay: store.WorkPart, firstDay + 2: store.WorkWhole}, r.Manifest.View().Days)
	require.InDelta(t, 1, r.counter(t, "tsdb_rollup_marks_total"), 0)
	r.work(t)
	known, _ = r.known(t, s, store.Hours, 3)
	require.Equal(t, 72, known)
	r.verified(t)
}

func TestDroppedAndDeletedRows(t *testing.T) {
	r, all, _ := filled(t, 3, nil)
	defer r.close(t)
	r.work(t)
	start, end := keyschema.SeriesRange(all[2].prefix, 0, keyschema.HourMax)
	require.NoError(t, r.data.DropRows(context.Background(), storage.RowRange{Start: start, End: end}))
	clear(all[2].samples)
	r.remove(t, all[0], firstDay*24, firstDay*24+30)
	known, _ := r.known(t, all[2], store.Hours, 3)
	require.Zero(t, known)
	known, _ = r.known(t, all[0], store.Hours, 3)
	require.Equal(t, 72-31, known)
	r.verified(t)
	r.work(t)
	_, samples := r.known(t, all[2], store.Hours, 3)
	require.Zero(t, samples)
	known, samples = r.known(t, all[0], store.Hours, 3)
	require.Equal(t, 72, known)
	require.Equal(t, len(all[0].samples), samples)
	r.verified(t)
}

// TestStatesOutliveTheirSamples computes a day again after half of its samples have expired.
func TestStatesOutliveTheirSamples(t *testing.T) {
	r, all, rng := filled(t, 9, func(o *rigOptions) { o.keep(10*24*time.Hour, 400*24*time.Hour) })
	defer r.close(t)
	r.work(t)
	before := len(all[0].samples)
	r.clock.Store((firstDay+10)*dayMs + dayMs/2)
	at := int64(firstDay*dayMs) + 20*keyschema.HourMs + 1
	r.write(t, rng, all[0], map[int64]float64{at: 7})
	r.work(t)
	known, samples := r.known(t, all[0], store.Hours, 9)
	require.Equal(t, 9*24, known)
	require.Equal(t, before+1, samples, "hours without samples keep their states")
	require.NoError(t, r.Rebuild(context.Background(), 0, 1<<40))
	_, samples = r.known(t, all[0], store.Hours, 9)
	require.Equal(t, before+1, samples)
	r.verified(t)
}

func TestDamagedCellsAreUnknownReportedAndRebuilt(t *testing.T) {
	r, all, _ := filled(t, 2, nil)
	defer r.close(t)
	r.work(t)
	month := store.MonthOfDay(firstDay)
	require.NoError(t, r.Table.Apply(context.Background(), []storage.RowMutation{{
		Key: keyschema.AppendMonthKey(nil, all[1].prefix, month), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilyHours, TsMs: store.DayCellMs(firstDay),
			Qualifier: store.StatesQualifier(int(firstDay-store.MonthStart(month)) + 1), Value: []byte("damaged"),
		}},
	}}))
	known, _ := r.known(t, all[1], store.Hours, 2)
	require.Equal(t, 24, known)
	require.InDelta(t, 1, r.counter(t, "tsdb_rollup_corrupt_cells_total"), 0)
	var named []Difference
	v, err := r.Verify(context.Background(), firstDay, firstDay+5, func(d Difference) error {
		named = append(named, d)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 1, v.Different)
	require.ErrorIs(t, named[0].Err, cell.ErrCorrupt)
	require.Equal(t, string(all[1].prefix), named[0].Prefix)
	require.NoError(t, r.Rebuild(context.Background(), firstDay, firstDay))
	known, _ = r.known(t, all[1], store.Hours, 2)
	require.Equal(t, 48, known)
	r.verified(t)
}

func TestVerifyReportsAWrongState(t *testing.T) {
	r, all, rng := filled(t, 2, nil)
	defer r.close(t)
	r.work(t)
	// Only this test writes past the invalidating store.
	require.NoError(t, r.raw.Apply(context.Background(), all[3].rows(t, rng, map[int64]float64{firstDay*dayMs + 2: 1})))
	var named []Difference
	_, err := r.Verify(context.Background(), firstDay, firstDay+1, func(d Difference) error {
		named = append(named, d)
		return nil
	})
	require.NoError(t, err)
	require.Len(t, named, 1)
	require.Equal(t, int64(firstDay*24), named[0].Bucket)
	require.Equal(t, named[0].Stored.Count+1, named[0].Computed.Count)
}

func TestDamagedRowsGetNoState(t *testing.T) {
	r, all, _ := filled(t, 2, nil)
	defer r.close(t)
	hour := int64(firstDay*24 + 7)
	require.NoError(t, r.data.Apply(context.Background(), []storage.RowMutation{{
		Key: keyschema.AppendHour(bytes.Clone(all[0].prefix), hour), Entries: []storage.Entry{{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(hour),
			Qualifier: keyschema.AppendChunkQualifier(nil, 1<<30), Value: []byte("damaged"),
		}},
	}}))
	r.work(t)
	known, _ := r.known(t, all[0], store.Hours, 2)
	require.Equal(t, 47, known)
	require.InDelta(t, 1, testutil.ToFloat64(r.metrics.unreadable), 0)
}

func TestDamagedManifest(t *testing.T) {
	r, all, _ := filled(t, 2, nil)
	r.work(t)
	meta, err := r.store.Table(context.Background(), storage.TableMeta)
	require.NoError(t, err)
	require.NoError(t, meta.Apply(context.Background(), []storage.RowMutation{{
		Key: []byte(manifestRow), Entries: []storage.Entry{{Kind: storage.SetCell, Family: storage.FamilyMeta,
			Qualifier: []byte(manifestQualifier), Value: []byte("{")}},
	}}))
	require.NoError(t, r.store.Sync(context.Background()))
	r.close(t)
	_, err = tryRig(r.fs, r.clock, nil)
	require.ErrorIs(t, err, storage.ErrCorrupt)
	r = openRig(t, r.fs, r.clock, func(o *rigOptions) { o.Reset = true })
	defer r.close(t)
	r.work(t)
	known, _ := r.known(t, all[0], store.Hours, 2)
	require.Equal(t, 48, known)
}

// TestMarksDuringAPassSurvive writes late samples while the job is between reading and writing.
func TestMarksDuringAPassSurvive(t *testing.T) {
	r, all, rng := filled(t, 2, func(o *rigOptions) { o.Job.Share = 0.5 })
	defer r.close(t)
	s := all[3]
	p := r.newDayPass(firstDay, nil, 1)
	r.work(t)
	r.planDay(t, firstDay)
	require.Equal(t, store.WorkWhole, r.Manifest.BeginPass(firstDay))
	require.NoError(t, p.computeAll(context.Background()))
	r.write(t, rng, s, map[int64]float64{firstDay*dayMs + 3: 5})
	require.NoError(t, p.flush(context.Background()))
	require.NoError(t, r.Manifest.FinishPass(context.Background()))
	require.Equal(t, store.WorkPart, r.Manifest.View().Days[firstDay])
	known, _ := r.known(t, s, store.Hours, 2)
	require.Equal(t, 24, known, "the pass left out the series, so its whole day stays unknown")
	r.verified(t)
	r.work(t)
	_, samples := r.known(t, s, store.Hours, 2)
	require.Equal(t, len(s.samples), samples)
}

func TestOptionsAndRequestsAreChecked(t *testing.T) {
	require.Error(t, Options{Share: 2}.Validate())

	r, all, _ := filled(t, 1, nil)
	defer r.close(t)
	none := func(int, *rollup.Columns) error { return errors.New("there is nothing to pass on") }
	for _, bad := range []store.Request{
		{From: 2, To: 1}, {From: -1}, {Unit: 7}, {Fields: 1 << 15}, {To: 1 << 40},
		{Prefixes: [][]byte{all[1].prefix, all[0].prefix}}, {Prefixes: [][]byte{all[0].prefix, all[0].prefix}},
	} {
		require.ErrorIs(t, r.Read(context.Background(), bad, none), store.ErrBadRequest)
	}
	require.NoError(t, r.Read(context.Background(), store.Request{}, none))
}

// TestProgress: Rebuild and Verify count each day and month once, up to all.
func TestProgress(t *testing.T) {
	var said [][2]int
	r, _, _ := filled(t, 14, func(o *rigOptions) { // January 20th to February 2nd
		o.Job.Progress = func(done, total int) { said = append(said, [2]int{done, total}) }
	})
	defer r.close(t)
	requireAll := func(total int) {
		t.Helper()
		require.NotEmpty(t, said)
		require.Equal(t, [2]int{0, total}, said[0])
		require.Equal(t, [2]int{total, total}, said[len(said)-1])
		for i, s := range said[1:] {
			require.GreaterOrEqual(t, s[0], said[i][0])
		}
		require.GreaterOrEqual(t, len(said), total)
		said = nil
	}
	require.NoError(t, r.Rebuild(context.Background(), firstDay, firstDay+13))
	requireAll(14) // January's month is pending after its last day
	require.Zero(t, r.verified(t).Different)
	requireAll(15)
}
