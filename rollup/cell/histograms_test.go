package cell

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/histchunk"
	"halite/storage/storagetest/seeds"
)

var histogramRow, histogramQualifier = []byte("up#03##99351"), []byte("\x07n")

// checkHistograms encodes histograms, decodes them and compares.
func checkHistograms(t testing.TB, dayStartMs int64, samples []histchunk.Sample) []byte {
	t.Helper()
	var e HistogramEncoder
	encoded, err := e.Append([]byte("x"), histogramRow, histogramQualifier, dayStartMs, samples)
	require.NoError(t, err)
	require.Equal(t, "x", string(encoded[:1]))
	var d HistogramDecoder
	decoded, err := d.Decode(histogramRow, histogramQualifier, encoded[1:], dayStartMs, nil)
	require.NoError(t, err)
	require.Equal(t, recordsOf(samples), recordsOf(decoded))
	return encoded[1:]
}

// recordsOf makes histograms comparable bit by bit.
func recordsOf(samples []histchunk.Sample) (out [][]byte) {
	for _, s := range samples {
		out = append(out, histchunk.AppendRecord(nil, s))
	}
	return out
}

// randomHistograms makes histograms of a day, integers and floats, with hints.
func randomHistograms(rng *rand.Rand, dayStartMs int64) (samples []histchunk.Sample) {
	for ts := rng.Int64N(keyschema.HourMs); ts < keyschema.DayMs && len(samples) < 100; ts += 1 + rng.Int64N(2*keyschema.HourMs) {
		s := histchunk.Sample{TsMs: dayStartMs + ts}
		if rng.IntN(4) > 0 {
			s.H = tsdbutil.GenerateTestHistogram(rng.Int64N(1000))
			s.H.CounterResetHint = histogram.CounterResetHint(rng.IntN(4))
		} else {
			s.FH = tsdbutil.GenerateTestFloatHistogram(rng.Int64N(1000))
		}
		samples = append(samples, s)
	}
	return samples
}

func TestHistogramsRoundTrip(t *testing.T) {
	rng := seeds.Rand(t, 1)
	for range 100 {
		dayStartMs := rng.Int64N(20_000) * keyschema.DayMs
		if samples := randomHistograms(rng, dayStartMs); len(samples) > 0 {
			checkHistograms(t, dayStartMs, samples)
		}
	}
}

// TestDamagedHistograms: a cell with a wrong byte, or at another place, is corrupt. Times outside the day are refused.
func TestDamagedHistograms(t *testing.T) {
	h := tsdbutil.GenerateTestHistogram(1)
	samples := []histchunk.Sample{{TsMs: 7, H: h}, {TsMs: keyschema.DayMs - 1, H: h}}
	encoded := checkHistograms(t, 0, samples)
	var d HistogramDecoder
	for i := range encoded {
		encoded[i] ^= 0x10
		got, err := d.Decode(histogramRow, histogramQualifier, encoded, 0, nil)
		require.ErrorIs(t, err, ErrCorrupt)
		require.Empty(t, got)
		_, err = d.Decode(histogramRow, histogramQualifier, encoded[:i], 0, nil)
		require.ErrorIs(t, err, ErrCorrupt)
		encoded[i] ^= 0x10
	}
	_, err := d.Decode([]byte("up#04##99351"), histogramQualifier, encoded, 0, nil)
	require.ErrorIs(t, err, ErrCorrupt)
	var e HistogramEncoder
	for _, bad := range [][]histchunk.Sample{
		nil, {{TsMs: -1, H: h}}, {{TsMs: keyschema.DayMs, H: h}}, {{TsMs: 5, H: h}, {TsMs: 5, H: h}}, {{TsMs: 5}},
	} {
		got, err := e.Append(nil, histogramRow, histogramQualifier, 0, bad)
		require.ErrorIs(t, err, ErrInvalidStates)
		require.Empty(t, got)
	}
}

// FuzzHistograms decodes any bytes with a right checksum. What they decode to is encoded and decoded again.
func FuzzHistograms(f *testing.F) {
	for seed := range uint64(4) {
		samples := randomHistograms(rand.New(rand.NewPCG(seed, 1)), 0)
		encoded := checkHistograms(f, 0, samples)
		f.Add(encoded[:len(encoded)-checksumBytes])
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		sum := checksum(histogramRow, histogramQualifier, src)
		src = append(src, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		samples, err := new(HistogramDecoder).Decode(histogramRow, histogramQualifier, src, 0, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		checkHistograms(t, 0, samples)
	})
}
