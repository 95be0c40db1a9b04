package query_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/keyschema"
)

// TestLabelsTooLongForAKey: queries read series whose row keys have only a hash of their labels.
func TestLabelsTooLongForAKey(t *testing.T) {
	s := newStack(t)
	defer func() { require.NoError(t, s.Close()) }()
	long := strings.Repeat("x", keyschema.KeyBytesMax/2)
	var series []labels.Labels
	for _, last := range []string{"1", "2"} {
		series = append(series, labels.FromStrings("__name__", "m", "a", long+last, "b", long, "c", last))
	}
	series = append(series, labels.FromStrings("__name__", "m", "c", "short"))
	for _, flushed := range []bool{true, false} {
		offset := int64(0)
		if !flushed {
			offset = 60_000
		}
		for i, ls := range series {
			s.write([]ingest.Sample{{Labels: ls, TsMs: dataFrom + offset, Value: float64(i)}})
		}
		if flushed {
			s.flush()
		}
	}
	q, err := s.Querier(dataFrom, dataTo)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchEqual, "__name__", "m"))
	for i, ls := range series {
		require.True(t, set.Next())
		require.Equal(t, ls, set.At().Labels())
		it := set.At().Iterator(nil)
		for _, want := range []int64{dataFrom, dataFrom + 60_000} {
			require.Equal(t, chunkenc.ValFloat, it.Next())
			ts, v := it.At()
			require.Equal(t, want, ts)
			require.Equal(t, float64(i), v)
		}
		require.Equal(t, chunkenc.ValNone, it.Next())
	}
	require.False(t, set.Next())
	require.NoError(t, set.Err())
}
