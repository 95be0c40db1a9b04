package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// queryAnswerBytesMax bounds what is read of an answer to a query.
const queryAnswerBytesMax = 1 << 30

// snappyRatioMax is more than snappy can compress: three bytes stand for 64 at most.
const snappyRatioMax = 22

// errAnswerTooLarge: the answer exceeds queryAnswerBytesMax; ask for less.
var errAnswerTooLarge = errors.New("answer too large")

// statusError is an answer other than 2xx.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.code, e.text) }

// reader asks one target.
type reader struct {
	base    string
	params  url.Values
	client  *http.Client
	timeout time.Duration
}

func newReader(t *Target, o *Options) *reader {
	return &reader{base: t.QueryURL, params: t.Params, client: newHTTPClient(queryLoopsMax + o.Senders), timeout: o.RequestTimeout}
}

// get returns the body of a 2xx answer.
func (c *reader) get(ctx context.Context, path string, params url.Values) ([]byte, error) {
	all := url.Values{}
	for _, set := range []url.Values{c.params, params} {
		for k, v := range set {
			all[k] = v
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path+"?"+all.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return c.do(req)
}

func (c *reader) do(req *http.Request) ([]byte, error) {
	req.Header.Set("User-Agent", "halite-loadtest")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, queryAnswerBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(body) > queryAnswerBytesMax {
		return nil, errAnswerTooLarge
	}
	if resp.StatusCode/100 != 2 {
		return nil, &statusError{resp.StatusCode, string(bytes.TrimSpace(body))}
	}
	return body, nil
}

// envelope is the outer form of all answers of the query API.
type envelope struct {
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Data   json.RawMessage `json:"data"`
}

func openEnvelope(body []byte) (json.RawMessage, error) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("answer of a query: %w", err)
	}
	if e.Status != "success" {
		return nil, fmt.Errorf("query failed: %.300s", e.Error)
	}
	return e.Data, nil
}

// data asks for what is in the envelope of an answer.
func (c *reader) data(ctx context.Context, path string, params url.Values) (json.RawMessage, error) {
	body, err := c.get(ctx, path, params)
	if err != nil {
		return nil, err
	}
	return openEnvelope(body)
}

// point is a sample as an answer has it.
type point struct {
	tsMs  int64
	value float64
}

// errPoint: not the form in which the query API writes a sample.
var errPoint = errors.New("not a sample")

// UnmarshalJSON reads [seconds, "value"]. It does so by hand, as most of an answer consists of them.
func (p *point) UnmarshalJSON(src []byte) error {
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
	p.tsMs = int64(math.Round(secs * 1000))
	if p.value, err = strconv.ParseFloat(value, 64); err != nil {
		return fmt.Errorf("%w: %.100q: %w", errPoint, src, err)
	}
	return nil
}

// secondsMax bounds times in answers, so that milliseconds fit an int64.
const secondsMax = 1e15

// result is a series of an answer: an instant vector fills Value, a matrix Values.
type result struct {
	Metric map[string]string `json:"metric"`
	Value  *point            `json:"value"`
	Values []point           `json:"values"`
}

// parseResults reads the data of an instant or range query that is a vector or a matrix.
func parseResults(data json.RawMessage) ([]result, error) {
	var d struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("answer of a query: %w", err)
	}
	if d.ResultType != "vector" && d.ResultType != "matrix" {
		return nil, fmt.Errorf("answer of a query: result type %q", d.ResultType)
	}
	var list []result
	if err := json.Unmarshal(d.Result, &list); err != nil {
		return nil, fmt.Errorf("answer of a query: %w", err)
	}
	return list, nil
}

// seconds writes a time as the query API takes it.
func seconds(tsMs int64) string { return strconv.FormatFloat(float64(tsMs)/1000, 'f', 3, 64) }

// rawSamples returns the raw samples of a selector from fromMs to toMs, both included, through a range selector.
func (c *reader) rawSamples(ctx context.Context, selector string, fromMs, toMs int64) ([]result, error) {
	data, err := c.data(ctx, "/api/v1/query", url.Values{
		"query": {fmt.Sprintf("%s[%dms]", selector, toMs-fromMs+1)}, "time": {seconds(toMs)},
	})
	if err != nil {
		return nil, err
	}
	return parseResults(data)
}

// remoteRead returns the samples of the series with the given labels from fromMs to toMs, both included.
func (c *reader) remoteRead(ctx context.Context, labels []prompb.Label, fromMs, toMs int64) (*prompb.QueryResult, error) {
	q := &prompb.Query{StartTimestampMs: fromMs, EndTimestampMs: toMs}
	for _, l := range labels {
		q.Matchers = append(q.Matchers, &prompb.LabelMatcher{Type: prompb.LabelMatcher_EQ, Name: l.Name, Value: l.Value})
	}
	message, err := (&prompb.ReadRequest{Queries: []*prompb.Query{q}}).Marshal()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	body := bytes.NewReader(snappy.Encode(nil, message))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/api/v1/read", body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	answer, err := c.do(req)
	if err != nil {
		return nil, err
	}
	return parseRead(answer)
}

// parseRead reads the answer to a remote read of one query.
func parseRead(answer []byte) (*prompb.QueryResult, error) {
	n, err := snappy.DecodedLen(answer)
	if err != nil {
		return nil, fmt.Errorf("answer of a remote read: %w", err)
	}
	// A claim that the answer is too short for must not make us allocate.
	if n > queryAnswerBytesMax || n > snappyRatioMax*len(answer) {
		return nil, fmt.Errorf("answer of a remote read that claims %d bytes: %w", n, errAnswerTooLarge)
	}
	message, err := snappy.Decode(nil, answer)
	if err != nil {
		return nil, fmt.Errorf("answer of a remote read: %w", err)
	}
	var resp prompb.ReadResponse
	if err := resp.Unmarshal(message); err != nil {
		return nil, fmt.Errorf("answer of a remote read: %w", err)
	}
	if len(resp.Results) != 1 || resp.Results[0] == nil {
		return nil, fmt.Errorf("answer of a remote read has %d results, 1 was asked for", len(resp.Results))
	}
	return resp.Results[0], nil
}
