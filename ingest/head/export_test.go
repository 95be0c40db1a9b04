package head

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// RequireFold folds the columns both ways and checks them against what a map holds.
func RequireFold(t *testing.T, tsMs []int64, values []float64, want map[int64]float64) {
	t.Helper()
	var o sorter
	for _, fold := range []func([]int64, []float64) ([]int64, []float64){o.fold, o.sort} {
		gotMs, got := fold(slices.Clone(tsMs), slices.Clone(values))
		require.Len(t, gotMs, len(want))
		for i, at := range gotMs {
			require.True(t, i == 0 || gotMs[i-1] < at)
			require.Equal(t, want[at], got[i])
		}
	}
}
