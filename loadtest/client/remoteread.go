package client

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// snappyRatioMax is larger than any compression ratio of snappy, which encodes at most 64 bytes in three.
const snappyRatioMax = 22

// RemoteRead returns the samples of the series with the given labels from fromMs to toMs, both included.
func (c *Querier) RemoteRead(ctx context.Context, labels []prompb.Label, fromMs, toMs int64) (*prompb.QueryResult, error) {
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
	response, err := c.do(req)
	if err != nil {
		return nil, err
	}
	return parseRead(response)
}

// parseRead decodes the response to a remote read of one query.
func parseRead(response []byte) (*prompb.QueryResult, error) {
	n, err := snappy.DecodedLen(response)
	if err != nil {
		return nil, fmt.Errorf("remote read response: %w", err)
	}
	// Check the claimed length before allocating: a response of this length cannot decompress to more.
	if n > queryResponseBytesMax || n > snappyRatioMax*len(response) {
		return nil, fmt.Errorf("remote read response claims %d bytes: %w", n, errResponseTooLarge)
	}
	message, err := snappy.Decode(nil, response)
	if err != nil {
		return nil, fmt.Errorf("remote read response: %w", err)
	}
	var resp prompb.ReadResponse
	if err := resp.Unmarshal(message); err != nil {
		return nil, fmt.Errorf("remote read response: %w", err)
	}
	if len(resp.Results) != 1 || resp.Results[0] == nil {
		return nil, fmt.Errorf("remote read response has %d results, expected 1", len(resp.Results))
	}
	return resp.Results[0], nil
}
