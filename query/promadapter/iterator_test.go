package promadapter

import (
	"testing"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/query/read/readtest"
)

func columnIterator(tsMs []int64) *iterator {
	values := make([]float64, len(tsMs))
	for i, ts := range tsMs {
		values[i] = float64(ts) / 2
	}
	it := new(iterator)
	it.reset(seriesSamples{tsMs: tsMs, values: values})
	return it
}

func TestIteratorEdges(t *testing.T) {
	it := columnIterator(nil)
	require.Equal(t, chunkenc.ValNone, it.Seek(0))
	require.Equal(t, chunkenc.ValNone, it.Next())

	it = columnIterator([]int64{10, 20, 30})
	require.Equal(t, chunkenc.ValFloat, it.Seek(-5), "before the first sample")
	require.Equal(t, int64(10), it.AtT())
	require.Equal(t, chunkenc.ValFloat, it.Seek(10), "the current sample will do")
	require.Equal(t, int64(10), it.AtT())
	require.Equal(t, chunkenc.ValFloat, it.Seek(11))
	ts, v := it.At()
	require.Equal(t, int64(20), ts)
	require.Equal(t, 10.0, v)
	require.Zero(t, it.AtST())
	require.Equal(t, chunkenc.ValFloat, it.Seek(5), "never backwards")
	require.Equal(t, int64(20), it.AtT())
	require.Equal(t, chunkenc.ValNone, it.Seek(31))
	require.Equal(t, chunkenc.ValNone, it.Seek(0), "exhausted for good")
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.NoError(t, it.Err())

	it = columnIterator([]int64{10})
	require.Equal(t, chunkenc.ValFloat, it.Next())
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.Equal(t, chunkenc.ValNone, it.Seek(10), "exhausted, though the last sample would do")
}

// TestIteratorAgainstScan compares random walks with a model that steps one by one.
func TestIteratorAgainstScan(t *testing.T) {
	rng := readtest.NewRand(t)
	for range 2000 {
		tsMs := make([]int64, rng.IntN(60))
		ts := int64(0)
		for i := range tsMs {
			ts += 1 + rng.Int64N(20)
			tsMs[i] = ts
		}
		it, at := columnIterator(tsMs), -1
		for range 30 {
			var got chunkenc.ValueType
			if rng.IntN(2) == 0 {
				got = it.Next()
				at = min(at+1, len(tsMs))
			} else {
				to := rng.Int64N(ts + 40)
				if at >= 0 && rng.IntN(2) == 0 && at < len(tsMs) {
					to = tsMs[at] + rng.Int64N(30)
				}
				got = it.Seek(to)
				at = max(at, 0)
				for at < len(tsMs) && tsMs[at] < to {
					at++
				}
			}
			if at == len(tsMs) {
				require.Equal(t, chunkenc.ValNone, got)
				continue
			}
			require.Equal(t, chunkenc.ValFloat, got)
			require.Equal(t, tsMs[at], it.AtT())
		}
	}
}
