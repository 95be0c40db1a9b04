package flush

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/histchunk"
)

// TestLargeHistogramsAreSplit encodes histograms that together decode to more than a chunk may hold.
func TestLargeHistogramsAreSplit(t *testing.T) {
	const buckets, hour = histchunk.BucketsMax, int64(470_000)
	h := &histogram.Histogram{
		Schema: 0, PositiveSpans: []histogram.Span{{Length: buckets}}, PositiveBuckets: make([]int64, buckets),
	}
	var e chunkEncoder
	count := histchunk.NumbersMax/buckets + 5
	for n := range count {
		e.unpacked = append(e.unpacked, histchunk.Sample{TsMs: keyschema.HourStartMs(hour) + int64(n), H: h})
	}
	chunks, decoded := 0, []histchunk.Sample(nil)
	for more := true; more; chunks++ {
		value := e.append(nil, keyschema.Histograms, keyschema.HourStartMs(hour))
		var err error
		more, err = e.rest()
		require.NoError(t, err)
		samples, err := new(histchunk.Decoder).Decode(value, keyschema.HourStartMs(hour), nil)
		require.NoError(t, err)
		for _, s := range samples {
			decoded = append(decoded, histchunk.Sample{TsMs: s.TsMs})
			require.Len(t, s.H.PositiveBuckets, buckets)
		}
	}
	require.Greater(t, chunks, 1)
	require.Len(t, decoded, count)
	for n, s := range decoded {
		require.Equal(t, keyschema.HourStartMs(hour)+int64(n), s.TsMs)
	}
}
