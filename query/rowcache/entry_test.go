package rowcache

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/query/column"
)

// TestResetsOfLongEntries: positions that do not fit are unknown, not wrong.
func TestResetsOfLongEntries(t *testing.T) {
	for _, n := range []int{math.MaxUint16 + 1, math.MaxUint16 + 2} {
		c := column.Points{TsMs: make([]int64, n), Values: make([]float64, n)}
		for i := range c.TsMs {
			c.TsMs[i], c.Values[i] = int64(i), float64(i)
		}
		c.Values[n-1] = 0
		entry := layoutOf(0, c, column.PropertiesOf(c))
		words := make([]uint64, entry.words())
		entry.write(words, 0, c)
		h := hit{layout: entry, end: n}
		pinned := h.pinned(words)
		resets, known := pinned.AppendResets(nil)
		require.Equal(t, n == math.MaxUint16+1, known)
		if known {
			require.Equal(t, []int{n - 1}, resets)
		}
	}
}
