package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

// remoteRead sends queries to the whole database.
func (s *stack) remoteRead(t *testing.T, req *prompb.ReadRequest) *httptest.ResponseRecorder {
	t.Helper()
	message, err := req.Marshal()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, message))))
	return w
}

// TestReadSelections checks that a query without matchers finds nothing, and that the server reports a bad query before
// it answers the first one.
func TestReadSelections(t *testing.T) {
	s := newStack(t)
	s.load(t)
	const startMs, endMs = comparison.Start * 1000, comparison.End * 1000
	named := func(name string) *prompb.LabelMatcher { return &prompb.LabelMatcher{Name: "__name__", Value: name} }
	w := s.remoteRead(t, &prompb.ReadRequest{Queries: []*prompb.Query{
		{StartTimestampMs: startMs, EndTimestampMs: endMs},
		{StartTimestampMs: startMs, EndTimestampMs: endMs, Matchers: []*prompb.LabelMatcher{named("up")}},
	}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	message, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, resp.Unmarshal(message))
	require.Len(t, resp.Results, 2)
	require.Empty(t, resp.Results[0].Timeseries)
	require.Len(t, resp.Results[1].Timeseries, 3)

	stream := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	w = s.remoteRead(t, &prompb.ReadRequest{AcceptedResponseTypes: stream, Queries: []*prompb.Query{
		{StartTimestampMs: startMs, EndTimestampMs: endMs},
	}})
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, w.Body.Bytes())
	w = s.remoteRead(t, &prompb.ReadRequest{AcceptedResponseTypes: stream, Queries: []*prompb.Query{
		{StartTimestampMs: startMs, EndTimestampMs: endMs, Matchers: []*prompb.LabelMatcher{named("up")}},
		{EndTimestampMs: endMs, Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "job", Value: "("}}},
	}})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "missing closing )")
}
