package rollup_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/rollup"
	"halite/rollup/rolluptest"
)

// TestPackingRoundTrip packs parts of random days with random fields. A view of the words has the same states, and joins to
// the same state.
func TestPackingRoundTrip(t *testing.T) {
	rng := rolluptest.Seeded(t)
	var view rollup.Columns
	for range 2000 {
		states := rolluptest.Day(rng, 0)
		var c rollup.Columns
		fields := rollup.Fields(rng.IntN(int(rollup.FieldsAll)+1)) &^ rollup.FieldStale
		c.Reset(0, rolluptest.HourMs, len(states), fields)
		for i, s := range states {
			if rng.IntN(8) > 0 {
				c.Set(i, rolluptest.Only(s, fields))
			}
		}
		from := rng.IntN(len(states))
		n := 1 + rng.IntN(len(states)-from)
		p := rollup.NewPacking(fields)
		words := make([]uint64, p.Words(n))
		p.Pack(words, &c, from, n)
		p.View(&view, words, int64(from)*rolluptest.HourMs, rolluptest.HourMs, n)
		require.Equal(t, c.Known[from:from+n], view.Known)
		require.Equal(t, n, view.Len())
		for i := range n {
			require.Equal(t, rolluptest.Bits(c.State(from+i)), rolluptest.Bits(view.State(i)), "bucket %d, fields %x", i, fields)
		}
		require.Equal(t, rolluptest.Bits(c.Join(from, from+n)), rolluptest.Bits(view.Join(0, n)))
	}
}
