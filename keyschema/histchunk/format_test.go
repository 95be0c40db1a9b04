package histchunk

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/stretchr/testify/require"

	"halite/keyschema/chunktest"
)

// TestFormat pins the bytes of records and chunks and checks that FORMAT.md shows each example exactly.
func TestFormat(t *testing.T) {
	chunktest.CheckFormat(t, "FORMAT.md", func(t *testing.T, d *datadriven.TestData) string {
		var samples []Sample
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			samples = append(samples, scanSample(t, line))
		}
		var encoded []byte
		if d.Cmd == "record" {
			encoded = AppendRecord(nil, samples[0])
			s, rest, err := DecodeRecord(encoded)
			require.NoError(t, err)
			require.Empty(t, rest)
			require.Equal(t, textOf(samples[0]), textOf(s))
		} else {
			encoded = checkChunk(t, new(Encoder), new(Decoder), 0, samples)
		}
		return hex.Dump(encoded)
	})
}

// scanSample reads a sample: its kind, its time and fields name=value. Counts are absolute.
func scanSample(t *testing.T, line string) Sample {
	fields := strings.Fields(line)
	tsMs, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(t, err)
	h := &histogram.FloatHistogram{ZeroThreshold: usualThreshold}
	for _, field := range fields[2:] {
		name, text, _ := strings.Cut(field, "=")
		switch name {
		case "stale":
			h.ZeroThreshold, h.Sum = 0, math.Float64frombits(value.StaleNaN)
		case "schema":
			h.Schema = int32(scanFloats(t, text)[0])
		case "hint":
			h.CounterResetHint = histogram.CounterResetHint(scanFloats(t, text)[0])
		case "threshold":
			h.ZeroThreshold = scanFloats(t, text)[0]
		case "sum":
			h.Sum = scanFloats(t, text)[0]
		case "count":
			h.Count = scanFloats(t, text)[0]
		case "zero":
			h.ZeroCount = scanFloats(t, text)[0]
		case "custom":
			h.CustomValues = scanFloats(t, text)
		case "positive", "negative":
			spans, counts, _ := strings.Cut(text, "/")
			if name == "positive" {
				h.PositiveSpans, h.PositiveBuckets = scanSpans(t, spans), scanFloats(t, counts)
			} else {
				h.NegativeSpans, h.NegativeBuckets = scanSpans(t, spans), scanFloats(t, counts)
			}
		default:
			t.Fatalf("%s: unknown field", field)
		}
	}
	if fields[0] == "float" {
		return Sample{TsMs: tsMs, FH: h}
	}
	return Sample{TsMs: tsMs, H: toInteger(h)}
}

// toInteger is the inverse of Histogram.ToFloat.
func toInteger(h *histogram.FloatHistogram) *histogram.Histogram {
	deltas := func(counts []float64) (out []int64) {
		before := int64(0)
		for _, c := range counts {
			out = append(out, int64(c)-before)
			before = int64(c)
		}
		return out
	}
	return &histogram.Histogram{CounterResetHint: h.CounterResetHint, Schema: h.Schema, ZeroThreshold: h.ZeroThreshold,
		ZeroCount: uint64(h.ZeroCount), Count: uint64(h.Count), Sum: h.Sum, CustomValues: h.CustomValues,
		PositiveSpans: h.PositiveSpans, NegativeSpans: h.NegativeSpans,
		PositiveBuckets: deltas(h.PositiveBuckets), NegativeBuckets: deltas(h.NegativeBuckets)}
}

func scanFloats(t *testing.T, text string) (out []float64) {
	for _, field := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(field, 64)
		require.NoError(t, err)
		out = append(out, v)
	}
	return out
}

// scanSpans reads offset:length, ….
func scanSpans(t *testing.T, text string) (out []histogram.Span) {
	for _, field := range strings.Split(text, ",") {
		var s histogram.Span
		_, err := fmt.Sscanf(field, "%d:%d", &s.Offset, &s.Length)
		require.NoError(t, err)
		out = append(out, s)
	}
	return out
}
