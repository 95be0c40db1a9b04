package column

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTaggedRoundTrip encodes columns of all widths one after the other, each with a tag, and decodes them.
func TestTaggedRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var e TaggedEncoder
	var d TaggedDecoder
	for range 2000 {
		columns, tags := make([][]int64, 1+rng.IntN(4)), make([]byte, 4)
		var encoded []byte
		for c := range columns {
			columns[c] = make([]int64, 1+rng.IntN(600))
			width, step := rng.IntN(64), rng.Int64()>>rng.IntN(64)
			for i := range columns[c] {
				columns[c][i] = int64(i)*step + rng.Int64()>>width
			}
			tags[c] = byte(rng.IntN(256)) & TagMask
			encoded = e.Append(encoded, tags[c], columns[c])
		}
		for c, want := range columns {
			got := make([]int64, len(want))
			tag, rest, err := d.Decode(got, encoded)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, tags[c], tag)
			encoded = rest
		}
		require.Empty(t, encoded)
	}
	_, _, err := d.Decode(make([]int64, 3), nil)
	require.ErrorIs(t, err, ErrCorrupt)
}
