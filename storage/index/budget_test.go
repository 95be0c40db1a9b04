package index

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"halite/storage/index/lookup"
	"halite/storage/index/segment"
)

// TestBudget: a budget accounts for all memory of a result, from active series or from closed days. After its error, a
// look-up allocates only little memory.
func TestBudget(t *testing.T) {
	w := newWorld(t, 1)
	w.layout = segment.DefaultLayout()
	w.x.store.Layout = w.layout
	const count = 5000
	for i := range count {
		ref, _, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, "pods", "uid", fmt.Sprintf("%0100d", i), "zone",
			fmt.Sprint(i%7)))
		require.NoError(t, err)
		w.x.MarkActive(ref, w.hourNow())
	}
	from := w.now().UnixMilli()
	check := func(name string, find func(budget Budget) ([]Series, error)) {
		charged := int64(0)
		got, err := find(func(bytes int64) error { charged += bytes; return nil })
		require.NoError(t, err, name)
		require.Len(t, got, count, name)
		size := int64(count * lookup.SeriesBytes)
		for i := range got {
			if got[i].Group == 0 {
				size += int64(got[i].Labels.ByteSize())
			}
		}
		require.GreaterOrEqual(t, charged, size-lookup.ChargeBytes, name)
		require.Less(t, charged, 4*size, name)

		refusal, taken := errors.New("no more"), int64(0)
		_, err = find(func(bytes int64) error {
			if taken += bytes; taken > size/2 {
				return refusal
			}
			return nil
		})
		require.ErrorIs(t, err, refusal, name)
	}
	all := func(budget Budget) ([]Series, error) {
		pods := labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "pods")
		return w.x.Select(t.Context(), budget, from, w.now().UnixMilli(), pods)
	}
	check("active", all)
	check("active, part of the labels", func(budget Budget) ([]Series, error) {
		return w.x.SelectProjected(t.Context(), budget, []string{"zone"}, from, w.now().UnixMilli())
	})
	w.advance(26 * time.Hour)
	require.True(t, w.maintain())
	check("active, of a closed day", all)
	w.retire()
	w.reopen()
	check("of a closed day", all)
}
