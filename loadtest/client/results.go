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

// Point is a sample of a query answer.
type Point struct {
	TsMs  int64
	Value float64
}

// errPoint means that a value does not have the form in which the query API writes a sample.
var errPoint = errors.New("not a sample")

// UnmarshalJSON reads [seconds, "value"]. It is hand-written for speed, because answers consist mostly of samples.
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

// secondsMax bounds the timestamps of answers, so that their milliseconds fit an int64.
const secondsMax = 1e15

// Result is one series of an answer. An instant vector fills Value, a matrix fills Values.
type Result struct {
	Metric map[string]string `json:"metric"`
	Value  *Point            `json:"value"`
	Values []Point           `json:"values"`
}

// ParseResults reads the data of an instant or range query. It accepts vectors and matrices.
func ParseResults(data json.RawMessage) ([]Result, error) {
	var d struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("query answer: %w", err)
	}
	if d.ResultType != "vector" && d.ResultType != "matrix" {
		return nil, fmt.Errorf("query answer: result type %q", d.ResultType)
	}
	var list []Result
	if err := json.Unmarshal(d.Result, &list); err != nil {
		return nil, fmt.Errorf("query answer: %w", err)
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
