package jsonl

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
)

// nativeHistogram is a native histogram in JSON, with the fields of Prometheus's remote write. A histogram of integers has Count,
// ZeroCount, and buckets as deltas. A histogram of floats has CountFloat, ZeroCountFloat, and buckets as counts.
type nativeHistogram struct {
	ResetHint      uint8    `json:"reset_hint"`
	Schema         int32    `json:"schema"`
	ZeroThreshold  number   `json:"zero_threshold"`
	Sum            number   `json:"sum"`
	Count          *uint64  `json:"count,omitempty"`
	ZeroCount      uint64   `json:"zero_count,omitempty"`
	CountFloat     number   `json:"count_float,omitempty"`
	ZeroCountFloat number   `json:"zero_count_float,omitempty"`
	PositiveSpans  []span   `json:"positive_spans,omitempty"`
	NegativeSpans  []span   `json:"negative_spans,omitempty"`
	PositiveDeltas []int64  `json:"positive_deltas,omitempty"`
	NegativeDeltas []int64  `json:"negative_deltas,omitempty"`
	PositiveCounts []number `json:"positive_counts,omitempty"`
	NegativeCounts []number `json:"negative_counts,omitempty"`
	CustomValues   []number `json:"custom_values,omitempty"`
}

// span is [offset, length].
type span [2]int64

// number is a float64. Numbers that JSON lacks are strings, and null is a staleness marker.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) { return appendValue(nil, float64(n)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = number(math.Float64frombits(value.StaleNaN))
		return nil
	}
	if text[0] != '"' {
		return json.Unmarshal(text, (*float64)(n))
	}
	var word string
	if err := json.Unmarshal(text, &word); err != nil {
		return err
	}
	v, ok := special(word)
	if !ok {
		return errors.New("a value is neither a number nor Infinity, -Infinity or NaN")
	}
	*n = number(v)
	return nil
}

// model returns the histogram in Prometheus's form: one of integers or one of floats.
func (n *nativeHistogram) model() (*histogram.Histogram, *histogram.FloatHistogram) {
	hint := histogram.CounterResetHint(n.ResetHint)
	if n.Count != nil {
		return &histogram.Histogram{
			CounterResetHint: hint, Schema: n.Schema, ZeroThreshold: float64(n.ZeroThreshold), Sum: float64(n.Sum),
			Count: *n.Count, ZeroCount: n.ZeroCount, PositiveSpans: spans(n.PositiveSpans), NegativeSpans: spans(n.NegativeSpans),
			PositiveBuckets: n.PositiveDeltas, NegativeBuckets: n.NegativeDeltas, CustomValues: floats(n.CustomValues),
		}, nil
	}
	return nil, &histogram.FloatHistogram{
		CounterResetHint: hint, Schema: n.Schema, ZeroThreshold: float64(n.ZeroThreshold), Sum: float64(n.Sum),
		Count: float64(n.CountFloat), ZeroCount: float64(n.ZeroCountFloat),
		PositiveSpans: spans(n.PositiveSpans), NegativeSpans: spans(n.NegativeSpans),
		PositiveBuckets: floats(n.PositiveCounts), NegativeBuckets: floats(n.NegativeCounts), CustomValues: floats(n.CustomValues),
	}
}

func ofIntegers(h *histogram.Histogram) *nativeHistogram {
	return &nativeHistogram{
		ResetHint: uint8(h.CounterResetHint), Schema: h.Schema, ZeroThreshold: number(h.ZeroThreshold), Sum: number(h.Sum),
		Count: &h.Count, ZeroCount: h.ZeroCount, PositiveSpans: ofSpans(h.PositiveSpans), NegativeSpans: ofSpans(h.NegativeSpans),
		PositiveDeltas: h.PositiveBuckets, NegativeDeltas: h.NegativeBuckets, CustomValues: numbers(h.CustomValues),
	}
}

func ofFloats(h *histogram.FloatHistogram) *nativeHistogram {
	return &nativeHistogram{
		ResetHint: uint8(h.CounterResetHint), Schema: h.Schema, ZeroThreshold: number(h.ZeroThreshold), Sum: number(h.Sum),
		CountFloat: number(h.Count), ZeroCountFloat: number(h.ZeroCount),
		PositiveSpans: ofSpans(h.PositiveSpans), NegativeSpans: ofSpans(h.NegativeSpans),
		PositiveCounts: numbers(h.PositiveBuckets), NegativeCounts: numbers(h.NegativeBuckets), CustomValues: numbers(h.CustomValues),
	}
}

// spans converts spans from JSON into Prometheus's. A span that does not fit becomes an invalid span, which the writer refuses.
func spans(list []span) (out []histogram.Span) {
	for _, s := range list {
		if s[0] != int64(int32(s[0])) || s[1] != int64(uint32(s[1])) {
			s = span{math.MinInt32, math.MaxUint32}
		}
		out = append(out, histogram.Span{Offset: int32(s[0]), Length: uint32(s[1])})
	}
	return out
}

func ofSpans(list []histogram.Span) (out []span) {
	for _, s := range list {
		out = append(out, span{int64(s.Offset), int64(s.Length)})
	}
	return out
}

func floats(list []number) (out []float64) {
	for _, n := range list {
		out = append(out, float64(n))
	}
	return out
}

func numbers(list []float64) (out []number) {
	for _, v := range list {
		out = append(out, number(v))
	}
	return out
}
