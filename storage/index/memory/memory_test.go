package memory

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestSizeBytesGrowsWithSeries compares the running sum with a walk, and counts series by metric.
func TestSizeBytesGrowsWithSeries(t *testing.T) {
	const hour = 500_000
	c, days := New(), NewOpenDays()
	require.GreaterOrEqual(t, int(refPageBytes), int(unsafe.Sizeof(refPage{})))
	require.GreaterOrEqual(t, int(dayPageBytes), int(unsafe.Sizeof(dayPage{})))
	before := c.SizeBytes() + days.SizeBytes()
	for i := range 5000 {
		metric := fmt.Sprintf("m%d", i%7)
		set := labels.FromStrings(model.MetricNameLabel, metric, "id", fmt.Sprint(i), "k", fmt.Sprint(i%3))
		ref, created, err := c.Add(set, hour)
		require.NoError(t, err)
		require.True(t, created)
		days.MarkActive(ref, hour)
		days.MarkActive(ref, hour-int64(i%2)*48)
	}
	require.Equal(t, WalkedBytes(c, days), c.SizeBytes()+days.SizeBytes())
	require.Greater(t, c.SizeBytes()+days.SizeBytes(), before+5000*60)
	require.Equal(t, 5000/7, c.SeriesOf("m5"))
	require.Zero(t, c.SeriesOf("none"))
	var counted []string
	c.EachMetric(5000/7+1, func(metric string, series int) { counted = append(counted, fmt.Sprint(metric, " ", series)) })
	require.Equal(t, []string{"m0 715", "m1 715"}, counted)
}

// TestValuesWhileArrayGrows reads values by id while the array of values grows.
func TestValuesWhileArrayGrows(t *testing.T) {
	for range 20 {
		d := newDictionary(1, "instance", new(atomic.Int64))
		var writer sync.WaitGroup
		writer.Go(func() {
			for n := range 3000 {
				d.Intern(strconv.Itoa(n + 1))
			}
		})
		for n := uint32(0); n < 3000; n = d.Len() {
			if n > 0 {
				require.Equal(t, strconv.Itoa(int(n)), d.Value(n))
			}
		}
		writer.Wait()
	}
}
