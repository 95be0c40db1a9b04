package record

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// FuzzRecords parses arbitrary bytes as each kind of payload. What parses survives encoding and parsing again.
func FuzzRecords(f *testing.F) {
	f.Add(AppendSamples(nil, randomSamples(rand.New(rand.NewPCG(1, 1)), 5)))
	f.Add(AppendEncoded(nil, randomEncoded(rand.New(rand.NewPCG(1, 2)), 3)))
	f.Add(AppendSeries(AppendSeries(nil, 1, labels.FromStrings("a", "b", "c", "")), 9, labels.EmptyLabels()))
	f.Add(AppendMetadata(nil, Metadata{"m", "gauge", "help", "unit"}))
	f.Add([]byte{1, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		if samples, err := DecodeSamples(nil, data); err == nil {
			again, err := DecodeSamples(nil, AppendSamples(nil, samples))
			require.NoError(t, err)
			sameSamples(t, samples, again)
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
		if encoded, err := decodeEncoded(data); err == nil {
			again, err := decodeEncoded(AppendEncoded(nil, encoded))
			require.NoError(t, err)
			require.Equal(t, encoded, again)
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
		if series, err := parseAllSeries(data); err == nil {
			var b []byte
			for _, s := range series {
				b = AppendSeries(b, s.ref, s.ls)
			}
			again, err := parseAllSeries(b)
			require.NoError(t, err)
			require.Equal(t, series, again)
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
		var b []byte
		err := ParseMetadata(data, func(m Metadata) error { b = AppendMetadata(b, m); return nil })
		if err == nil {
			require.NoError(t, ParseMetadata(b, func(Metadata) error { return nil }))
		} else {
			require.ErrorIs(t, err, ErrMalformed)
		}
		for _, kind := range []byte{
			KindSeries, KindSamples, KindMetadata, KindHistograms, KindStartTimes, KindExemplars, KindDeletion, KindSeriesColumns,
		} {
			Describe(kind, data)
		}
	})
}
