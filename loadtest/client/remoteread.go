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
	answer, err := c.do(req)
	if err != nil {
		return nil, err
	}
	return parseRead(answer)
}

// parseRead decodes the answer to a remote read of one query.
func parseRead(answer []byte) (*prompb.QueryResult, error) {
	n, err := snappy.DecodedLen(answer)
	if err != nil {
		return nil, fmt.Errorf("remote read answer: %w", err)
	}
	// Check the claimed length before allocating: an answer of this length cannot decompress to more.
	if n > queryAnswerBytesMax || n > snappyRatioMax*len(answer) {
		return nil, fmt.Errorf("remote read answer claims %d bytes: %w", n, errAnswerTooLarge)
	}
	message, err := snappy.Decode(nil, answer)
	if err != nil {
		return nil, fmt.Errorf("remote read answer: %w", err)
	}
	var resp prompb.ReadResponse
	if err := resp.Unmarshal(message); err != nil {
		return nil, fmt.Errorf("remote read answer: %w", err)
	}
	if len(resp.Results) != 1 || resp.Results[0] == nil {
		return nil, fmt.Errorf("remote read answer has %d results, expected 1", len(resp.Results))
	}
	return resp.Results[0], nil
}
