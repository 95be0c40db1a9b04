package loadtest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"halite/loadtest/client"
)

func FuzzParseResponse(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1.5,"NaN"]]}]}}`), false)
	f.Add([]byte(`{"status":"success","data":["a","b"]}`), true)
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`), false)
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,`+
		`{"count":"3","sum":"4","buckets":[[0,"1","2","1"]]}]}]}}`), false)
	f.Add([]byte(`{"status":"error","error":"x"}`), false)
	f.Fuzz(func(t *testing.T, body []byte, lookup bool) {
		response, err := parseResponse(body, lookup)
		if err != nil {
			return
		}
		if text := describeDifference(response, response, 0); text != "" {
			t.Errorf("a response differs from itself: %s", text)
		}
	})
}

// floats makes points from pairs of a timestamp and a value.
func floats(pairs ...float64) (p points) {
	for i := 0; i < len(pairs); i += 2 {
		p.floats = append(p.floats, client.Point{TsMs: int64(pairs[i]), Value: pairs[i+1]})
	}
	return p
}

func TestDescribeDifference(t *testing.T) {
	a := matrix{"x": floats(1, 1, 2, 2), "y": floats(1, math.NaN())}
	require.Empty(t, describeDifference(a, matrix{"x": floats(1, 1, 2, 2+1e-12), "y": floats(1, math.NaN())}, 1e-9))
	require.Equal(t, "series −1 +1, 1 points unmatched, 1 points off by up to 0.5",
		describeDifference(a, matrix{"x": floats(1, 2), "z": floats(1, 1)}, 1e-9))
	require.Equal(t, "1 points off by up to 1",
		describeDifference(a, matrix{"x": floats(1, 1, 2, math.NaN()), "y": floats(1, math.NaN())}, 1e-9))
	require.Equal(t, "no response", describeDifference(a, nil, 1e-9))
	require.NotEmpty(t, describeDifference(nil, a, 1e-9))
	require.NotEmpty(t, describeDifference([]string{"a"}, []string{"b"}, 1e-9))
	require.Empty(t, describeDifference([]string{"a"}, []string{"a"}, 1e-9))
}

// TestCompareResponses compares pairs of responses, with histograms and scalars among them.
func TestCompareResponses(t *testing.T) {
	histogram := func(sum, count string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"histogram":[1,` +
			`{"count":"3","sum":"` + sum + `","buckets":[[0,"1","2","` + count + `"],[1,"2","+Inf","2"]]}]}]}}`
	}
	// A label value that names histograms is not a histogram, and servers may list series in another order.
	series := [2]string{`{"metric":{"type":"histogram_samples"},"value":[1,"2"]}`, `{"metric":{"type":"samples"},"value":[1,"3"]}`}
	vector := func(first, second string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + first + `,` + second + `]}}`
	}
	scalar := func(value string) string {
		return `{"status":"success","data":{"resultType":"scalar","result":[1,"` + value + `"]}}`
	}
	for _, c := range []struct{ a, b, difference string }{
		{histogram("4", "1"), histogram("4.0", "1"), ""},
		{histogram("NaN", "1"), histogram("NaN", "1"), ""},
		{histogram("4", "1"), histogram("5", "1"), "1 points off by up to 0.2"},
		{histogram("4", "1"), histogram("4", "2"), "1 points off by up to 0.5"},
		{vector(series[0], series[1]), vector(series[1], series[0]), ""},
		{scalar("1"), scalar("1.0"), ""},
		{scalar("1"), scalar("2"), "1 points off by up to 0.5"},
	} {
		a, err := parseResponse([]byte(c.a), false)
		require.NoError(t, err, c.a)
		b, err := parseResponse([]byte(c.b), false)
		require.NoError(t, err, c.b)
		require.Equal(t, c.difference, describeDifference(a, b, 1e-9), "%s\n%s", c.a, c.b)
	}
}
