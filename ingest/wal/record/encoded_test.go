package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomEncoded(rng *rand.Rand, count int) []EncodedSample {
	samples := make([]EncodedSample, count)
	for i, s := range randomSamples(rng, count) {
		data := make([]byte, rng.IntN(300))
		for n := range data {
			data[n] = byte(rng.Uint32())
		}
		samples[i] = EncodedSample{s.Ref, s.TsMs, data}
	}
	return samples
}

// decodeEncoded returns the samples of a payload, copied.
func decodeEncoded(payload []byte) (samples []EncodedSample, err error) {
	it := ReadEncoded(payload)
	for it.Next() {
		samples = append(samples, EncodedSample{it.Ref, it.TsMs, append([]byte{}, it.Data...)})
	}
	return samples, it.Err()
}

func TestEncodedRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for count := range 200 {
		want := randomEncoded(rng, count)
		prefix := []byte("before")
		payload := AppendEncoded(slices.Clone(prefix), want)
		require.Equal(t, prefix, payload[:len(prefix)])
		payload = payload[len(prefix):]
		it := ReadEncoded(payload)
		require.Equal(t, count, it.Left())
		got, err := decodeEncoded(payload)
		require.NoError(t, err)
		require.Len(t, got, count)
		size := samplesHeaderBytes
		for i := range want {
			require.Equal(t, want[i], got[i])
			size += EncodedSizeMax(len(want[i].Data))
		}
		require.LessOrEqual(t, len(payload), size)
	}
}

// TestEncodedExtremes checks that every series and time survives, and that sums of deltas never overflow.
func TestEncodedExtremes(t *testing.T) {
	want := []EncodedSample{
		{math.MaxUint32, math.MaxInt64, []byte{1}}, {0, math.MinInt64, []byte{}}, {math.MaxUint32, 0, []byte{2, 3}},
	}
	got, err := decodeEncoded(AppendEncoded(nil, want))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestEncodedDamage(t *testing.T) {
	whole := AppendEncoded(nil, []EncodedSample{{1, 1000, []byte("abc")}, {2, 2000, []byte("de")}})
	for n := range whole {
		_, err := decodeEncoded(whole[:n])
		require.ErrorIs(t, err, ErrMalformed, "cut at byte %d", n)
	}
	_, err := decodeEncoded(append(slices.Clone(whole), 0))
	require.ErrorContains(t, err, "bytes after the last sample")
	more := slices.Clone(whole)
	more[0] = 3
	_, err = decodeEncoded(more)
	require.ErrorIs(t, err, ErrMalformed)
	more[3] = 255
	it := ReadEncoded(more)
	require.Zero(t, it.Left())
	require.ErrorIs(t, it.Err(), ErrMalformed)
	// A length beyond the end of the payload, and a series below 0.
	for _, bad := range [][]byte{{1, 0, 0, 0, 2, 0, 2, 'a'}, {1, 0, 0, 0, 1, 0, 0}} {
		_, err := decodeEncoded(bad)
		require.ErrorIs(t, err, ErrMalformed)
	}
}

// TestEncodedBytes pins the example of FORMAT.md.
func TestEncodedBytes(t *testing.T) {
	got := AppendEncoded(nil, []EncodedSample{{2, 1_700_000_015_000, []byte("abc")}, {1, 1_700_000_015_250, nil}})
	require.Equal(t, []byte{
		2, 0, 0, 0,
		0x04, 0xb0, 0x8a, 0xad, 0xfe, 0xf9, 0x62, 3, 'a', 'b', 'c',
		0x01, 0xf4, 0x03, 0,
	}, got)
}
