package rollup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNumbers writes and reads columns of numbers of all widths, by every way, in as many bits as planned.
func TestNumbers(t *testing.T) {
	rng := seeded(t)
	ways := map[way]int{}
	for range 20_000 {
		x := make([]int64, 1+rng.IntN(BucketsMax))
		width, base, slope := rng.IntN(65), rng.Int64()>>rng.IntN(64), rng.Int64()>>rng.IntN(64)
		if rng.IntN(2) == 0 {
			slope = 0
		}
		sign := rng.IntN(2) == 0
		at := base
		for i := range x {
			noise := int64(rng.Uint64() >> width >> rng.IntN(2))
			if width == 64 {
				noise = 0
			}
			if sign && rng.IntN(2) == 0 {
				noise = -noise
			}
			at += slope
			x[i] = at + noise
			if rng.IntN(3) == 0 {
				at = x[i] // it walks
			}
		}
		like := uint(rng.IntN(80))
		var p plan
		p.make(x, like)
		ways[p.way]++
		b := bitWriter{dst: []byte{7}}
		b.put(1, 3)
		p.append(&b, len(x))
		bits := uint(len(b.dst)-1)*8 + b.n - 3
		require.LessOrEqual(t, bits-p.size, uint(len(x)), "numbers of 63 bits and more take one more")
		r := bitReader{src: b.close()[1:]}
		require.Equal(t, uint64(1), r.get(3))
		got := make([]int64, len(x))
		low, ok := r.numbers(got, like)
		require.True(t, ok)
		require.Equal(t, x, got)
		if p.way != wayEqual {
			require.Equal(t, p.low, low)
		}
		require.True(t, r.rest())
	}
	require.Len(t, ways, waysTried+1, "%v", ways)
}
