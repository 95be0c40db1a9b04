package histchunk

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzRecord decodes any bytes, and encodes and decodes the result again.
func FuzzRecord(f *testing.F) {
	for _, samples := range seedSamples(f) {
		f.Add(AppendRecord(nil, samples[0]))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, rest, err := DecodeRecord(src)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.LessOrEqual(t, len(rest), len(src))
		again, rest, err := DecodeRecord(AppendRecord(nil, s))
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, textOf(s), textOf(again))
	})
}

// FuzzChunk decodes any bytes. It also makes random histograms from seed, and encodes and decodes them.
func FuzzChunk(f *testing.F) {
	for i, samples := range seedSamples(f) {
		encoded, err := new(Encoder).Append(nil, 0, samples)
		require.NoError(f, err)
		f.Add(encoded, uint64(i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, src []byte, seed uint64, n uint8) {
		var e Encoder
		var d Decoder
		checkChunk(t, &e, &d, 0, randomSamples(rand.New(rand.NewPCG(seed, 0)), 0, 1+int(n)))
		samples, err := d.Decode(src, 0, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Empty(t, samples)
			return
		}
		checkChunk(t, &e, &d, 0, samples)
	})
}
