package rollup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJoinToIsAppend joins random ranges of a day's buckets, some of them empty, to what came before: the bits are those
// of joining one state after the other.
func TestJoinToIsAppend(t *testing.T) {
	rng := seeded(t)
	for range 5000 {
		states := day(rng, 0)
		for i := range states {
			if rng.IntN(4) == 0 {
				states[i] = State{Stale: rng.IntN(2) == 0}
			}
		}
		var c Columns
		c.Reset(0, hourMs, len(states), Fields(rng.IntN(int(FieldsAll)+1)))
		for i, s := range states {
			c.Set(i, s)
		}
		i := rng.IntN(len(states) + 1)
		j := i + rng.IntN(len(states)-i+1)
		var want, got State
		if i > 0 && rng.IntN(2) == 0 {
			want = c.Join(0, i)
			got = want
		}
		for _, b := range states[i:j] {
			want.Append(&b, c.Fields)
		}
		c.JoinTo(&got, i, j)
		require.Equal(t, bitsOf(want), bitsOf(got), "buckets %d to %d, fields %x", i, j, c.Fields)
	}
}
