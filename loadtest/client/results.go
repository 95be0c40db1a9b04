package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
)

// Point is a sample of a query response.
type Point struct {
	TsMs  int64
	Value float64
}

// errPoint means that a value does not have the form in which the query API writes a sample.
var errPoint = errors.New("not a sample")

// UnmarshalJSON reads [seconds, "value"]. It is hand-written for speed, because responses consist mostly of samples.
func (p *Point) UnmarshalJSON(src []byte) error {
	text, open := strings.CutPrefix(string(src), "[")
	text, closed := strings.CutSuffix(text, "]")
	at, value, pair := strings.Cut(text, ",")
	value, quoted := strings.CutPrefix(strings.TrimSpace(value), `"`)
	value, unquoted := strings.CutSuffix(value, `"`)
	if !open || !closed || !pair || !quoted || !unquoted {
		return fmt.Errorf("%w: %.100q", errPoint, src)
	}
	secs, err := strconv.ParseFloat(strings.TrimSpace(at), 64)
	if err != nil || !(math.Abs(secs) < secondsMax) {
		return fmt.Errorf("%w: %.100q: %w", errPoint, src, err)
	}
	p.TsMs = int64(math.Round(secs * 1000))
	if p.Value, err = strconv.ParseFloat(value, 64); err != nil {
		return fmt.Errorf("%w: %.100q: %w", errPoint, src, err)
	}
	return nil
}

// secondsMax bounds the timestamps of responses, so that their milliseconds fit an int64.
const secondsMax = 1e15

// HistogramPoint is a native histogram of a query response.
type HistogramPoint struct {
	TsMs       int64
	Count, Sum float64
	Buckets    []HistogramBucket
}

// HistogramBucket is a bucket that is not empty. Bounds says which of its bounds belong to it, as in Prometheus's API.
type HistogramBucket struct {
	Bounds            int
	From, Upto, Count float64
}

// UnmarshalJSON reads [seconds, {"count": "1", "sum": "2", "buckets": [[bounds, "from", "upto", "count"], …]}].
func (p *HistogramPoint) UnmarshalJSON(src []byte) error {
	var secs float64
	var h struct {
		Count   json.RawMessage   `json:"count"`
		Sum     json.RawMessage   `json:"sum"`
		Buckets []HistogramBucket `json:"buckets"`
	}
	if err := json.Unmarshal(src, &[]any{&secs, &h}); err != nil {
		return fmt.Errorf("not a histogram: %.100q: %w", src, err)
	}
	if !(math.Abs(secs) < secondsMax) {
		return fmt.Errorf("not a histogram: %.100q", src)
	}
	count, err := parseFloat(h.Count)
	if err != nil {
		return fmt.Errorf("not a histogram: count: %w", err)
	}
	sum, err := parseFloat(h.Sum)
	if err != nil {
		return fmt.Errorf("not a histogram: sum: %w", err)
	}
	*p = HistogramPoint{TsMs: int64(math.Round(secs * 1000)), Count: count, Sum: sum, Buckets: h.Buckets}
	return nil
}

// UnmarshalJSON reads [bounds, "from", "upto", "count"].
func (b *HistogramBucket) UnmarshalJSON(src []byte) error {
	var numbers [3]json.RawMessage
	if err := json.Unmarshal(src, &[]any{&b.Bounds, &numbers[0], &numbers[1], &numbers[2]}); err != nil {
		return err
	}
	for n, value := range []*float64{&b.From, &b.Upto, &b.Count} {
		var err error
		if *value, err = parseFloat(numbers[n]); err != nil {
			return fmt.Errorf("bucket: %w", err)
		}
	}
	return nil
}

// parseFloat reads a number between quotes. Such a number may be NaN or infinite.
func parseFloat(src json.RawMessage) (float64, error) {
	var text string
	if err := json.Unmarshal(src, &text); err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

// Result is one series of a response. An instant vector fills Value or Histogram, a matrix fills Values and Histograms.
type Result struct {
	Metric     map[string]string `json:"metric"`
	Value      *Point            `json:"value"`
	Values     []Point           `json:"values"`
	Histogram  *HistogramPoint   `json:"histogram"`
	Histograms []HistogramPoint  `json:"histograms"`
}

// ParseResults reads the data of an instant or range query. It accepts vectors and matrices. A scalar is a series without
// labels.
func ParseResults(data json.RawMessage) ([]Result, error) {
	var d struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("query response: %w", err)
	}
	var list []Result
	switch d.ResultType {
	case "vector", "matrix":
	case "scalar":
		value := &Point{}
		if err := json.Unmarshal(d.Result, value); err != nil {
			return nil, fmt.Errorf("query response: %w", err)
		}
		return []Result{{Value: value}}, nil
	default:
		return nil, fmt.Errorf("query response: result type %q", d.ResultType)
	}
	if err := json.Unmarshal(d.Result, &list); err != nil {
		return nil, fmt.Errorf("query response: %w", err)
	}
	return list, nil
}

// Seconds formats a time for the query API.
func Seconds(tsMs int64) string { return strconv.FormatFloat(float64(tsMs)/1000, 'f', 3, 64) }

// RawSamples returns the raw samples of a selector from fromMs to toMs, both included. It evaluates a range selector in an
// instant query.
func (c *Querier) RawSamples(ctx context.Context, selector string, fromMs, toMs int64) ([]Result, error) {
	data, err := c.Data(ctx, "/api/v1/query", url.Values{
		"query": {fmt.Sprintf("%s[%dms]", selector, toMs-fromMs+1)}, "time": {Seconds(toMs)},
	})
	if err != nil {
		return nil, err
	}
	return ParseResults(data)
}

// QuoteLabel formats a label value as a PromQL string literal. For label values, JSON string literals are valid PromQL.
func QuoteLabel(s string) string {
	text, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return `""`
	}
	return string(text)
}
