package index

import (
	"context"
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

// TestMeter: a meter hears of all memory that an answer takes, active series or of closed days, and of no more than a
// little once it has refused.
func TestMeter(t *testing.T) {
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
	check := func(name string, find func(ctx context.Context) ([]Series, error)) {
		told := int64(0)
		got, err := find(WithMeter(t.Context(), func(bytes int64) error { told += bytes; return nil }))
		require.NoError(t, err, name)
		require.Len(t, got, count, name)
		size := int64(count * lookup.SeriesBytes)
		for i := range got {
			if got[i].Group == 0 {
				size += int64(got[i].Labels.ByteSize())
			}
		}
		require.GreaterOrEqual(t, told, size-lookup.ChargeBytes, name)
		require.Less(t, told, 4*size, name)

		refusal, heard := errors.New("no more"), int64(0)
		_, err = find(WithMeter(t.Context(), func(bytes int64) error {
			if heard += bytes; heard > size/2 {
				return refusal
			}
			return nil
		}))
		require.ErrorIs(t, err, refusal, name)
	}
	all := func(ctx context.Context) ([]Series, error) {
		return w.x.Select(ctx, from, w.now().UnixMilli(), labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "pods"))
	}
	check("active", all)
	check("active, part of the labels", func(ctx context.Context) ([]Series, error) {
		return w.x.SelectPart(ctx, []string{"zone"}, from, w.now().UnixMilli())
	})
	w.advance(26 * time.Hour)
	require.True(t, w.maintain())
	check("active, of a closed day", all)
	w.retire()
	w.reopen()
	check("of a closed day", all)
}
