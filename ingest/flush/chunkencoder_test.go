package flush

import (
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema"
	"halite/keyschema/histchunk"
)

// TestLargeHistogramsAreSplit encodes histograms that together decode to more than a chunk may hold, or exceed a cell.
func TestLargeHistogramsAreSplit(t *testing.T) {
	for name, c := range map[string]struct{ buckets, count, bytesMax int }{
		"numbers": {histchunk.BucketsMax, histchunk.NumbersMax/histchunk.BucketsMax + 5, 1 << 20},
		"bytes":   {100, 200, 500},
		"one":     {100, 1, 1},
	} {
		t.Run(name, func(t *testing.T) { testSplit(t, c.buckets, c.count, c.bytesMax) })
	}
}

func testSplit(t *testing.T, buckets, count, bytesMax int) {
	const hour = int64(470_000)
	e := chunkEncoder{histogramBytesMax: bytesMax}
	for n := range count {
		h := &histogram.Histogram{
			PositiveSpans: []histogram.Span{{Length: uint32(buckets)}}, PositiveBuckets: make([]int64, buckets),
		}
		h.PositiveBuckets[n%buckets] = int64(n)
		e.unpacked = append(e.unpacked, histchunk.Sample{TsMs: keyschema.HourStartMs(hour) + int64(n), H: h})
	}
	want := e.unpacked
	chunks, decoded := 0, []histchunk.Sample(nil)
	for more := true; more; more = e.more() {
		value, err := e.append(nil, keyschema.Histograms, keyschema.HourStartMs(hour))
		chunks++
		require.NoError(t, err)
		before := len(decoded)
		decoded, err = new(histchunk.Decoder).Decode(value, keyschema.HourStartMs(hour), decoded)
		require.NoError(t, err)
		require.True(t, len(value) <= bytesMax || len(decoded) == before+1)
	}
	require.Equal(t, count > 1, chunks > 1)
	require.Len(t, decoded, count)
	for n := range decoded {
		require.Equal(t, want[n].TsMs, decoded[n].TsMs)
		require.True(t, want[n].H.Equals(decoded[n].H))
	}
}
