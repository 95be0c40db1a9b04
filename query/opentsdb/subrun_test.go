package opentsdb

import (
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/query/column"
)

// TestNumbers: times of one series never overwrite the times of another one in the same array.
func TestNumbers(t *testing.T) {
	stale := math.Float64frombits(value.StaleNaN)
	array := []int64{1, 2, 10, 20}
	series := []column.Samples{
		{TsMs: array[:2], Values: []float64{1, 2}, NoStale: true},
		{FirstMs: 100, StepMs: 5, Values: []float64{1, stale, 3, 4}},
		{TsMs: array[2:], Values: []float64{stale, 2}},
		{FirstMs: 50, StepMs: 1, Values: []float64{7, 8, 9}, NoStale: true},
	}
	var c sampleBuffer
	for _, laterMs := range []int64{0, 1000} {
		for i, want := range [][]int64{{1, 2}, {100, 110, 115}, {20}, {50, 51, 52}} {
			tsMs, values := c.numbers(&series[i], laterMs)
			require.Len(t, values, len(want))
			for k := range want {
				require.Equal(t, want[k]+laterMs, tsMs[k])
			}
		}
	}
	require.Equal(t, []int64{1, 2, 10, 20}, array)
}
