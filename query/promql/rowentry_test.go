package promql

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFallsOfLongEntries: places that do not fit are not known, rather than wrong.
func TestFallsOfLongEntries(t *testing.T) {
	for _, n := range []int{math.MaxUint16 + 1, math.MaxUint16 + 2} {
		c := columns{make([]int64, n), make([]float64, n)}
		for i := range c.tsMs {
			c.tsMs[i], c.values[i] = int64(i), float64(i)
		}
		c.values[n-1] = 0
		shape := rowShapeOf(0, c, traitsOf(c))
		words := make([]uint64, shape.words())
		shape.write(words, 0, c)
		h := hit{shape: shape, end: n}
		lent := h.lent(words)
		falls, known := lent.AppendFalls(nil)
		require.Equal(t, n == math.MaxUint16+1, known)
		if known {
			require.Equal(t, []int{n - 1}, falls)
		}
	}
}
