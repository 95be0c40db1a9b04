package api

import (
	"math"
	"net/http"
	"net/url"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestSelectorsMax sends one selector more than the limit to every endpoint that takes match[].
func TestSelectorsMax(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.AdminAPI, o.Limits.SelectorsMax = true, 2 })
	within := url.Values{"match[]": {"up", "up"}}.Encode()
	over := url.Values{"match[]": {"up", "up", "requests_total"}}.Encode()
	for _, path := range []string{
		"/api/v1/series", "/api/v1/labels", "/api/v1/label/job/values", "/federate", "/api/v1/rules",
	} {
		w := f.get(path + "?" + over)
		require.Equal(t, http.StatusBadRequest, w.Code, path)
		require.Contains(t, body(t, w), "the request has 3 selectors, more than the limit of 2 (query.max-selectors)", path)
		require.Equal(t, http.StatusOK, f.get(path+"?"+within).Code, path)
	}
	w := f.post("/api/v1/admin/tsdb/delete_series", over)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "(query.max-selectors)")

	all := readQuery(0, 600_000, matcher(prompb.LabelMatcher_EQ, "job", "node"))
	w = f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{all, all, all}})
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, body(t, w), "the request has 3 queries, more than the limit of 2 (query.max-selectors)")
	require.Equal(t, http.StatusOK, f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{all, all}}).Code)
}

// TestReadNegativeZero reads -0 back bit for bit in both kinds of responses.
func TestReadNegativeZero(t *testing.T) {
	store := promqltest.LoadedStorage(t, "load 1m\n\tzeros{job=\"x\"} 0 1 -0 2 0\n")
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	f := newFixture(t, func(o *Options) { o.Queryable = store })
	query := []*prompb.Query{readQuery(0, 600_000, matcher(prompb.LabelMatcher_EQ, "__name__", "zeros"))}
	negativeZero := math.Float64bits(math.Copysign(0, -1))
	want := []uint64{0, math.Float64bits(1), negativeZero, math.Float64bits(2), 0}

	w := f.read(t, &prompb.ReadRequest{Queries: query})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	message, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, resp.Unmarshal(message))
	var whole []uint64
	for _, s := range resp.Results[0].Timeseries[0].Samples {
		whole = append(whole, math.Float64bits(s.Value))
	}
	require.Equal(t, want, whole)

	w = f.read(t, &prompb.ReadRequest{Queries: query, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{
		prompb.ReadRequest_STREAMED_XOR_CHUNKS,
	}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var streamed []uint64
	for _, frame := range readFrames(t, w.Body) {
		for _, c := range frame.ChunkedSeries[0].Chunks {
			chunk, err := chunkenc.FromData(chunkenc.EncXOR, c.Data)
			require.NoError(t, err)
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				_, v := it.At()
				streamed = append(streamed, math.Float64bits(v))
			}
		}
	}
	require.Equal(t, want, streamed)
}
