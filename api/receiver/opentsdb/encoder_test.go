package opentsdb

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"
)

// TestEncoder writes lines, and counts what lines cannot hold.
func TestEncoder(t *testing.T) {
	e := NewEncoder(DefaultNames())
	e.Begin(labels.FromStrings("__name__", "sys.cpu-user", "host", "a", "cpu", "0"))
	e.Float(1356998400_000, 42)
	e.Float(1356998400_250, 2.5)
	e.Float(1356998401_000, math.Copysign(0, -1))
	e.Float(1356998402_000, math.Inf(1))
	e.Float(1356998403_000, math.Float64frombits(value.StaleNaN))
	e.Float(250, 1)
	require.NoError(t, e.Histogram(1, nil, nil))
	require.Equal(t, 3, e.Rows())
	for _, series := range []labels.Labels{
		labels.FromStrings("__name__", "bare"), labels.FromStrings("__name__", "m", "path", "a b"),
		labels.FromStrings("__name__", "a:b", "h", "1"),
	} {
		e.Begin(series)
		e.Float(1356998400_000, 1)
	}
	require.Equal(t, "sys.cpu-user 1356998400 42 cpu=0 host=a\nsys.cpu-user 1356998400250 2.5 cpu=0 host=a\n"+
		"sys.cpu-user 1356998401 -0.0 cpu=0 host=a\n", string(e.Append(nil)))
	require.Equal(t, Omitted{Untagged: 1, Named: 2, NotFinite: 1, Early: 1, Histograms: 1}, e.Omitted)
	require.EqualValues(t, 6, e.Omitted.Sum())
	require.Zero(t, e.Rows())
	require.Empty(t, e.Append(nil))
}

// TestEncodedValues: the parser of lines reads each value and time that the Encoder writes.
func TestEncodedValues(t *testing.T) {
	e := NewEncoder(DefaultNames())
	e.Begin(labels.FromStrings("__name__", "m", "h", "1"))
	var times []int64
	var values []float64
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		v := math.Float64frombits(random.Uint64())
		switch i % 4 {
		case 0:
			v = float64(random.Int64N(1<<54)) - 1<<53
		case 1:
			v = float64(random.IntN(1000)) / 8
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		times, values = append(times, secondsMax+1+random.Int64N(1e12)), append(values, v)
		e.Float(times[len(times)-1], v)
	}
	lines := strings.Split(strings.TrimSuffix(string(e.Append(nil)), "\n"), "\n")
	require.Len(t, lines, len(values))
	for i, line := range lines {
		words := strings.Split(line, " ")
		ts, err := parseTime([]byte(words[1]))
		require.NoError(t, err, line)
		require.Equal(t, times[i], ts, line)
		v, rounded, err := parseValue([]byte(words[2]), nil, 0)
		require.NoError(t, err, line)
		require.False(t, rounded, line)
		require.Equal(t, math.Float64bits(values[i]), math.Float64bits(v), line)
	}
}
