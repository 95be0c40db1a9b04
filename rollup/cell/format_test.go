package cell

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
	"halite/rollup"
	"halite/rollup/rolluptest"
)

// TestFormat pins the bytes of cells, and checks that FORMAT.md shows each example. Each line of an example is an hour: its
// first time and interval in milliseconds, then values; or "none".
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "../FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
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
