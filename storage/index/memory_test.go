package index

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// walkedBytes is SizeBytes, summed up over everything there is.
func walkedBytes(x *Index) (size int64) {
	for _, t := range x.cat.sorted() {
		t.mu.Lock()
		size += t.SizeBytes()
		t.mu.Unlock()
	}
	for _, d := range x.cat.dicts {
		d.mu.Lock()
		size += d.SizeBytes()
		d.mu.Unlock()
	}
	size += x.cat.refs.SizeBytes()
	for _, d := range x.open.all() {
		size += openDayBytes + pointerBytes*int64(len(*d.pages.Load()))
		for _, p := range *d.pages.Load() {
			if p != nil {
				size += dayPageBytes
			}
		}
	}
	return size
}

// TestSizeBytesGrowsWithSeries compares the running sum with a walk, and counts series by metric.
func TestSizeBytesGrowsWithSeries(t *testing.T) {
	w := newWorld(t, 1)
	require.GreaterOrEqual(t, int(refPageBytes), int(unsafe.Sizeof(refPage{})))
	require.GreaterOrEqual(t, int(dayPageBytes), int(unsafe.Sizeof(dayPage{})))
	before := w.x.SizeBytes()
	for i := range 5000 {
		metric := fmt.Sprintf("m%d", i%7)
		ref, created, err := w.x.Add(labels.FromStrings(model.MetricNameLabel, metric, "id", fmt.Sprint(i), "k", fmt.Sprint(i%3)))
		require.NoError(t, err)
		require.True(t, created)
		w.x.Touch(ref, w.hourNow())
		w.x.Touch(ref, w.hourNow()-int64(i%2)*48)
	}
	require.Equal(t, walkedBytes(w.x), w.x.SizeBytes())
	require.Greater(t, w.x.SizeBytes(), before+5000*60)
	require.Equal(t, 5000/7, w.x.ActiveSeries("m5"))
	require.Zero(t, w.x.ActiveSeries("none"))
	var counted []string
	w.x.EachMetric(5000/7+1, func(metric string, series int) { counted = append(counted, fmt.Sprint(metric, " ", series)) })
	require.Equal(t, []string{"m0 715", "m1 715"}, counted)
}
