package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// queryResponseBytesMax bounds the response to a query.
const queryResponseBytesMax = 1 << 30

// errResponseTooLarge means that a response exceeds queryResponseBytesMax. The caller can retry with a shorter time range.
var errResponseTooLarge = errors.New("response too large")

// StatusError is a response with a status other than 2xx. Text is the error of the query API, or else the whole body.
type StatusError struct {
	Code int
	Text string
}

func newStatusError(code int, body []byte) *StatusError {
	var e envelope
	if err := json.Unmarshal(body, &e); err == nil && e.Error != "" {
		return &StatusError{code, e.Error}
	}
	return &StatusError{code, string(bytes.TrimSpace(body))}
}

func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %.300s", e.Code, e.Text) }

// Querier queries one target.
type Querier struct {
	base    string
	params  url.Values
	client  *http.Client
	timeout time.Duration
}

// NewQuerier returns a querier for a target that keeps up to conns idle connections. timeout bounds each request.
func NewQuerier(t *Target, conns int, timeout time.Duration) *Querier {
	return &Querier{base: t.QueryURL, params: t.Params, client: newHTTPClient(t, conns), timeout: timeout}
}

// Get returns the body of a 2xx response. Any other status is a StatusError.
func (c *Querier) Get(ctx context.Context, path string, params url.Values) ([]byte, error) {
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

func (c *Querier) do(req *http.Request) ([]byte, error) {
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, queryResponseBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(body) > queryResponseBytesMax {
		return nil, errResponseTooLarge
	}
	if resp.StatusCode/100 != 2 {
		return nil, newStatusError(resp.StatusCode, body)
	}
	return body, nil
}

// envelope is the outer JSON object of all responses of the query API.
type envelope struct {
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Data   json.RawMessage `json:"data"`
}

// OpenEnvelope returns the data of a successful response. It fails if the response reports an error.
func OpenEnvelope(body []byte) (json.RawMessage, error) {
	var e envelope
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("query response: %w", err)
	}
	if e.Status != "success" {
		return nil, fmt.Errorf("query failed: %.300s", e.Error)
	}
	return e.Data, nil
}

// Data returns the data of a response, without its envelope.
func (c *Querier) Data(ctx context.Context, path string, params url.Values) (json.RawMessage, error) {
	body, err := c.Get(ctx, path, params)
	if err != nil {
		return nil, err
	}
	return OpenEnvelope(body)
}
