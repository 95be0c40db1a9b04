package chunk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
)

// TestValuesRoundTrip encodes several lists of random values without timestamps, and decodes them.
func TestValuesRoundTrip(t *testing.T) {
	r := chunktest.NewRand(t)
	var e Encoder
	var d Decoder
	for range 2000 {
		columns := make([][]float64, 1+r.IntN(4))
		var encoded []byte
		for i := range columns {
			columns[i] = make([]float64, 1+r.IntN(600))
			chunktest.RandomValues(r, columns[i])
			encoded = e.AppendValues(encoded, columns[i])
		}
		for _, want := range columns {
			got, rest, err := d.DecodeValues(encoded, len(want), []float64{7})
			require.NoError(t, err)
			require.True(t, chunktest.SameBits(want, got[1:]), "%v, want %v", got[1:], want)
			encoded = rest
		}
		require.Empty(t, encoded)
	}
	_, _, err := d.DecodeValues(nil, 3, nil)
	require.ErrorIs(t, err, ErrCorrupt)
}
