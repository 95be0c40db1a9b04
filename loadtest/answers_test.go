package loadtest

import (
	"halite/loadtest/client"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1.5,"NaN"]]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":["a","b"]}`), true)
	f.Add([]byte(`{"status":"error","error":"x"}`), false)
	f.Fuzz(func(t *testing.T, body []byte, lookup bool) {
		answer, err := parseAnswer(body, lookup)
		if err != nil {
			return
		}
		if text := describeDifference(answer, answer, 0); text != "" {
			t.Errorf("an answer differs from itself: %s", text)
		}
	})
}

// points makes points from pairs of a timestamp and a value.
func points(pairs ...float64) (list []client.Point) {
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, client.Point{TsMs: int64(pairs[i]), Value: pairs[i+1]})
	}
	return list
}

func TestDescribeDifference(t *testing.T) {
	a := matrix{"x": points(1, 1, 2, 2), "y": points(1, math.NaN())}
	require.Empty(t, describeDifference(a, matrix{"x": points(1, 1, 2, 2+1e-12), "y": points(1, math.NaN())}, 1e-9))
	require.Equal(t, "series −1 +1, 1 points unmatched, 1 points off by up to 0.5",
		describeDifference(a, matrix{"x": points(1, 2), "z": points(1, 1)}, 1e-9))
	require.Equal(t, "1 points off by up to 1",
		describeDifference(a, matrix{"x": points(1, 1, 2, math.NaN()), "y": points(1, math.NaN())}, 1e-9))
	require.Equal(t, "no answer", describeDifference(a, nil, 1e-9))
	require.NotEmpty(t, describeDifference(nil, a, 1e-9))
	require.NotEmpty(t, describeDifference([]string{"a"}, []string{"b"}, 1e-9))
	require.Empty(t, describeDifference([]string{"a"}, []string{"a"}, 1e-9))
}
