package transfer

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/stretchr/testify/require"

	"halite/ingest"
	"halite/ingest/remotewrite"
)

func TestState(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state.json")
	begun := State{Version: stateVersion, From: "a", To: "b"}
	state, found, err := readState(file, begun)
	require.NoError(t, err)
	require.False(t, found)
	state.Position, state.Counts = Position{DayMs: dayMs, Series: 3}, Counts{Read: 5, Stored: 4, Rejected: map[string]int64{"x": 1}}
	require.NoError(t, writeState(file, &state))
	again, found, err := readState(file, begun)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, state, again)
	_, _, err = readState(file, State{From: "a", To: "c"})
	require.ErrorContains(t, err, "belongs to an import from a to b")
	require.NoError(t, writeState(file, &begun)) // an import that failed before its first sample blocks no other one
	_, found, err = readState(file, State{From: "a", To: "c"})
	require.NoError(t, err)
	require.False(t, found)
}

// TestRejections reads what ingest.Result.Summary writes.
func TestRejections(t *testing.T) {
	t.Parallel()
	result := ingest.Result{Accepted: 5, Rejected: 4,
		Reasons: map[string]int{ingest.ReasonBeforeRetention: 3, ingest.ReasonNoMetricName: 1},
		First:   "series x{a=\"(b), c: 3\"}: before_retention"}
	reasons, first := rejections(result.Summary(), 4)
	require.Equal(t, result.Reasons, reasons)
	require.Equal(t, result.First, first)
	reasons, first = rejections("something else", 2)
	require.Equal(t, map[string]int{"unknown": 2}, reasons)
	require.Equal(t, "something else", first)
}

// FuzzState: a state that is accepted can be written and read again.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"from":"a","to":"b","position":{"day_ms":86400000,"series":7},"imported":false,` +
		`"counts":{"read":1,"stored":1}}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := parseState(src)
		if err != nil {
			return
		}
		again, err := json.Marshal(&s)
		require.NoError(t, err)
		_, err = parseState(again)
		require.NoError(t, err)
	})
}

// TestNegativeZero: a request keeps the sign of zero.
func TestNegativeZero(t *testing.T) {
	t.Parallel()
	negative := math.Copysign(0, -1)
	p := newPart()
	require.NoError(t, p.Begin(remotewrite.AppendFields(nil, labels.FromStrings("__name__", "a"))))
	p.Sample(remotewrite.Sample{TsMs: 1, Value: negative})
	p.Sample(remotewrite.Sample{TsMs: 2})
	p.Histogram(remotewrite.Histogram{TsMs: 3, H: &histogram.Histogram{Sum: negative}})
	p.Histogram(remotewrite.Histogram{TsMs: 4, FH: &histogram.FloatHistogram{Sum: negative}})
	body, err := encodePart(p)
	require.NoError(t, err)
	message, err := snappy.Decode(nil, body)
	require.NoError(t, err)
	var req writev2.Request
	require.NoError(t, req.Unmarshal(message))
	s := req.Timeseries[0]
	for n, v := range []float64{s.Samples[0].Value, s.Histograms[0].Sum, s.Histograms[1].Sum} {
		require.True(t, math.Signbit(v), n)
	}
	require.False(t, math.Signbit(s.Samples[1].Value))
}
