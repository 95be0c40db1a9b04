package rollup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPackingShowsWhatWasPacked packs parts of random days with random fields: a view of the words shows them, and joins
// to the same.
func TestPackingShowsWhatWasPacked(t *testing.T) {
	rng := seeded(t)
	var view Columns
	for range 2000 {
		states := day(rng, 0)
		var c Columns
		fields := Fields(rng.IntN(int(FieldsAll)+1)) &^ FieldStale
		c.Reset(0, hourMs, len(states), fields)
		for i, s := range states {
			if rng.IntN(8) > 0 {
				c.Set(i, only(s, fields))
			}
		}
		from := rng.IntN(len(states))
		n := 1 + rng.IntN(len(states)-from)
		p := NewPacking(fields)
		words := make([]uint64, p.Words(n))
		p.Pack(words, &c, from, n)
		p.View(&view, words, int64(from)*hourMs, hourMs, n)
		require.Equal(t, c.Known[from:from+n], view.Known)
		require.Equal(t, n, view.Len())
		for i := range n {
			require.Equal(t, bitsOf(c.State(from+i)), bitsOf(view.State(i)), "bucket %d, fields %x", i, fields)
		}
		require.Equal(t, bitsOf(c.Join(from, from+n)), bitsOf(view.Join(0, n)))
	}
}
