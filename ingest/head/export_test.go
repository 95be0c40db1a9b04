package head

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireSortDedup sorts the columns both ways and compares them with a map.
func RequireSortDedup(t *testing.T, tsMs []int64, values []float64, want map[int64]float64) {
	t.Helper()
	var o sorter
	for _, sorted := range []func([]int64, []float64) ([]int64, []float64){o.sortDedup, o.sortDedupAny} {
		gotMs, got := sorted(slices.Clone(tsMs), slices.Clone(values))
		require.Len(t, gotMs, len(want))
		for i, at := range gotMs {
			require.True(t, i == 0 || gotMs[i-1] < at)
			require.Equal(t, want[at], got[i])
		}
	}
}
