package ingest

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/ingest/deletion"
	"halite/ingest/ingesttest"
	"halite/keyschema"
	rollupstore "halite/rollup/store"
	"halite/storage/index"
)

// daysRig has three series with samples on one day. Two of them have only states of the day left, the third has its
// rows.
type daysRig struct {
	*statesRig
	day                  int64
	gone, beside, longer labels.Labels
}

func (r *daysRig) at(hour int) int64 { return r.day*dayMs + int64(hour)*keyschema.HourMs }

func openDays(t *testing.T) *daysRig {
	ctx, c := context.Background(), ingesttest.NewClock()
	raw, hours, long := ageDay, 2*ageDay, 100*ageDay
	rules := []keyschema.Rule{
		{Pattern: "m", Retention: &keyschema.RuleRetention{Raw: &raw, Hours: &hours}},
		{Pattern: "kept", Retention: &keyschema.RuleRetention{Raw: &long, Hours: &long}},
	}
	r := &daysRig{
		day: c.Now().UnixMilli()/dayMs + 1, gone: labels.FromStrings("__name__", "m", "n", "gone"),
		beside: labels.FromStrings("__name__", "m", "n", "beside"), longer: labels.FromStrings("__name__", "kept"),
	}
	var err error
	r.statesRig, err = openStates(t, vfs.NewMem(), c, rules...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close(ctx))
		require.NoError(t, r.store.Close())
	})
	c.Ms.Store(r.at(23))
	r.put(r.gone, 2, 10, 20)
	r.put(r.beside, 1, 20)
	r.put(r.longer, 2, 10, 20)
	for range 40 {
		r.pass()
		c.Advance(24 * time.Hour)
	}
	require.Empty(t, r.rowHours(r.gone))
	require.Len(t, r.rowHours(r.longer), 3)
	return r
}

// put writes a sample to hours of the day.
func (r *daysRig) put(ls labels.Labels, hours ...int) {
	r.t.Helper()
	for _, hour := range hours {
		_, err := r.Ingester.Write(context.Background(), SamplesInput([]Sample{
			{Labels: ls, TsMs: r.at(hour) + 1000, Value: float64(hour)},
		}))
		require.NoError(r.t, err)
	}
}

// pass flushes, computes states and frees what is too old.
func (r *daysRig) pass() {
	r.t.Helper()
	ctx := context.Background()
	require.NoError(r.t, r.Flush(ctx))
	for worked := true; worked; {
		var err error
		worked, err = r.tiers.Step(ctx)
		require.NoError(r.t, err)
	}
	_, err := r.sweeper.Sweep(ctx)
	require.NoError(r.t, err)
	require.NoError(r.t, r.maintain(ctx))
}

// rowHours returns the hours in which a series has rows.
func (r *daysRig) rowHours(ls labels.Labels) map[int64]bool {
	r.t.Helper()
	rows, err := deletion.Scanner{Index: r.index, Schema: r.schema, Data: r.data}.RowHours(context.Background(), r.selectOne(ls))
	require.NoError(r.t, err)
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}

func (r *daysRig) selectOne(ls labels.Labels) (found []index.Series) {
	r.t.Helper()
	var ms []*labels.Matcher
	ls.Range(func(l labels.Label) { ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, l.Name, l.Value)) })
	found, err := r.index.Select(context.Background(), nil, r.at(0), r.at(24)-1, ms...)
	require.NoError(r.t, err)
	return found
}

// hoursOf returns the hours of the day in which the index lists a series.
func (r *daysRig) hoursOf(ls labels.Labels) (hours []int64) {
	r.t.Helper()
	for _, s := range r.selectOne(ls) {
		ingesttest.EachHour(s.Hours, func(hour int64) { hours = append(hours, hour-r.day*keyschema.DayHours) })
	}
	return hours
}

func (r *daysRig) deletion(fromMs, toMs int64) deletion.Request {
	all := labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+")
	return deletion.Request{Selectors: [][]*labels.Matcher{{all}}, FromMs: fromMs, ToMs: toMs, Everything: true}
}

// TestDeletedDays deletes parts of a day that has only a state left. The state goes with all hours of the series. Series with
// rows or states outside the deletion keep them.
func TestDeletedDays(t *testing.T) {
	for name, c := range map[string]struct {
		from, to             float64 // hours
		gone, beside, longer []int64
		orphans              rollupstore.Orphans
	}{
		"a part of an hour":       {10, 10.5, nil, nil, []int64{2, 20}, rollupstore.Orphans{Days: 2, Partial: 2}},
		"whole hours":             {9, 11, nil, nil, []int64{2, 20}, rollupstore.Orphans{Days: 2, Partial: 2}},
		"before the first of one": {0, 2, []int64{2, 10, 20}, nil, []int64{2, 10, 20}, rollupstore.Orphans{Days: 1, Partial: 1}},
		"after the last":          {21, 40, []int64{2, 10, 20}, []int64{1, 20}, []int64{2, 10, 20}, rollupstore.Orphans{}},
		"from the day before":     {-5, 3, nil, nil, []int64{10, 20}, rollupstore.Orphans{Days: 2, Partial: 2}},
		"to the day after":        {20, 30, nil, nil, []int64{2, 10}, rollupstore.Orphans{Days: 2, Partial: 2}},
		"the whole day":           {0, 24, nil, nil, nil, rollupstore.Orphans{Days: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, r := context.Background(), openDays(t)
			ms := func(hours float64) int64 { return r.at(0) + int64(hours*float64(keyschema.HourMs)) }
			d := r.deletion(ms(c.from), ms(c.to)-1)
			require.Equal(t, []int64{2, 10, 20}, r.hoursOf(r.gone))
			count, err := r.CountDeletion(ctx, d)
			require.NoError(t, err)
			require.Equal(t, c.orphans, count.Orphans)
			_, err = r.DeleteSeries(ctx, d)
			require.NoError(t, err)
			check := func(when string) {
				t.Helper()
				require.Equal(t, c.gone, r.hoursOf(r.gone), when)
				require.Equal(t, c.beside, r.hoursOf(r.beside), when)
				require.Equal(t, c.longer, r.hoursOf(r.longer), when)
			}
			require.NoError(t, r.deleter.CleanIndex(ctx))
			check("deleted")
			needed, _ := r.tiers.OldestNeeded(keyschema.Hours)
			cut := name != "the whole day" && name != "after the last" // a deletion after the last sample finds nothing to delete
			require.Equal(t, cut, needed <= r.day, "hours from which the rest of a day is to be computed")
			_, err = r.CleanTombstones(ctx)
			require.NoError(t, err)
			r.pass()
			check("cleaned")
			count, err = r.CountDeletion(ctx, r.deletion(r.at(0), r.at(24)-1))
			require.NoError(t, err)
			left := int64(0)
			for _, hours := range [][]int64{c.gone, c.beside} {
				if hours != nil {
					left++
				}
			}
			require.Equal(t, rollupstore.Orphans{Days: left}, count.Orphans)
		})
	}
}
