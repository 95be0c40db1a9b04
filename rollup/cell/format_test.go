package cell

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
	"halite/keyschema/histchunk"
	"halite/rollup"
	"halite/rollup/rolluptest"
)

// TestFormat pins the bytes of cells, and checks that FORMAT.md shows each example. Each line of an example is an hour: its
// first time and interval in milliseconds, then values; or "none".
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "../FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "histograms" {
			return histogramsText(t, d.Input)
		}
		var states []rollup.State
		for h, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			states = append(states, scanHour(t, int64(h)*rolluptest.HourMs, line))
		}
		var e Encoder
		cell, err := e.Append(nil, []byte("up#03##99351"), []byte("\x07s"), 0, rolluptest.HourMs, rollup.FieldsAll, states)
		require.NoError(t, err)
		var c rollup.Columns
		c.Reset(0, rolluptest.HourMs, len(states), rollup.FieldsAll)
		var dec Decoder
		_, err = dec.Decode(&c, []byte("up#03##99351"), []byte("\x07s"), cell, 0, len(states))
		require.NoError(t, err)
		for h := range states {
			require.Equal(t, rolluptest.Bits(states[h]), rolluptest.Bits(c.State(h)))
		}
		return fmt.Sprintf("%d bytes\n", len(cell)) + hex.Dump(cell)
	})
}

// scanHour reads "7 every 15000: 1 2 3".
func scanHour(t *testing.T, startMs int64, line string) rollup.State {
	if line == "none" {
		return rollup.State{}
	}
	times, rest, _ := strings.Cut(line, ":")
	words := strings.Fields(times)
	first, err := strconv.ParseInt(words[0], 10, 64)
	require.NoError(t, err)
	interval, err := strconv.ParseInt(words[2], 10, 64)
	require.NoError(t, err)
	var tsMs []int64
	var values []float64
	for i, word := range strings.Fields(rest) {
		v, err := strconv.ParseFloat(word, 64)
		require.NoError(t, err)
		tsMs, values = append(tsMs, startMs+first+int64(i)*interval), append(values, v)
	}
	return rollup.Compute(tsMs, values)
}

// histogramsText returns the cell of histograms. Each is a line with its time in the day in milliseconds, its sum, and the
// counts of buckets from the first one above 1 on.
func histogramsText(t *testing.T, input string) string {
	var samples []histchunk.Sample
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		words := strings.Fields(line)
		tsMs, err := strconv.ParseInt(words[0], 10, 64)
		require.NoError(t, err)
		sum, err := strconv.ParseFloat(words[1], 64)
		require.NoError(t, err)
		h := &histogram.Histogram{Schema: 1, ZeroThreshold: 1e-9, Sum: sum,
			PositiveSpans: []histogram.Span{{Offset: 1, Length: uint32(len(words) - 2)}}}
		before := int64(0)
		for _, word := range words[2:] {
			n, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err)
			h.PositiveBuckets = append(h.PositiveBuckets, n-before)
			h.Count, before = h.Count+uint64(n), n
		}
		samples = append(samples, histchunk.Sample{TsMs: tsMs, H: h})
	}
	return hex.Dump(checkHistograms(t, 0, samples))
}
