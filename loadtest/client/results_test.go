package client

import (
	"math"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"
)

func TestParsePoints(t *testing.T) {
	list, err := ParseResults([]byte(`{"resultType":"matrix","result":[{"metric":{"a":"b"},` +
		`"values":[[1763683200.123, "1.5e-07"],[2,"NaN"]]}]}`))
	require.NoError(t, err)
	require.Equal(t, Point{1763683200123, 1.5e-07}, list[0].Values[0])
	require.True(t, math.IsNaN(list[0].Values[1].Value))
	for _, bad := range []string{`[1,2]`, `[1]`, `["1","2"]`, `{}`, `[1e300,"1"]`, `[NaN,"1"]`, `[1,"x"]`, `[1,"1","2"]`} {
		require.Error(t, new(Point).UnmarshalJSON([]byte(bad)), bad)
	}
}

func FuzzParseRead(f *testing.F) {
	resp := prompb.ReadResponse{Results: []*prompb.QueryResult{{Timeseries: []*prompb.TimeSeries{{
		Labels: []prompb.Label{{Name: "a", Value: "b"}}, Samples: []prompb.Sample{{Timestamp: 1, Value: 2}},
	}}}}}
	message, err := resp.Marshal()
	require.NoError(f, err)
	f.Add(snappy.Encode(nil, message))
	f.Add([]byte("\xff\xff\xff\xff\x03short"))
	f.Fuzz(func(t *testing.T, response []byte) {
		result, err := parseRead(response)
		if err == nil && result == nil {
			t.Error("neither result nor error")
		}
	})
}

// TestShortClaim checks that a response with a false length is refused before anything is allocated.
func TestShortClaim(t *testing.T) {
	_, err := parseRead([]byte("\xff\xff\xff\xff\x03short"))
	require.ErrorIs(t, err, errResponseTooLarge)
	long := snappy.Encode(nil, make([]byte, 10<<20))
	n, err := snappy.DecodedLen(long)
	require.NoError(t, err)
	require.LessOrEqual(t, n, snappyRatioMax*len(long), "the real ratio of zeros must be allowed")
}
