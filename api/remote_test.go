package api_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"halite/api/internal/comparison"
)

const frameBytesMax = 4096

// inBothPlaces runs check with the samples in the head, and again with them in the tables.
func inBothPlaces(t *testing.T, check func(t *testing.T, s *stack)) {
	s := newStack(t)
	s.load(t)
	t.Run("head", func(t *testing.T) { check(t, s) })
	require.NoError(t, s.ingester.Flush(context.Background()))
	t.Run("tables", func(t *testing.T) { check(t, s) })
}

func everything() []*prompb.LabelMatcher {
	return []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}
}

// TestReadLikePrometheus has our handler and Prometheus' own read from the same database. The responses are the same
// bytes, except for the sign of zero.
func TestReadLikePrometheus(t *testing.T) {
	const start, end = comparison.Start * 1000, comparison.End * 1000
	up := &prompb.LabelMatcher{Name: "__name__", Value: "up"}
	inBothPlaces(t, func(t *testing.T, s *stack) {
		theirs := remote.NewReadHandler(promslog.NewNopLogger(), nil, s.queryable,
			func() config.Config { return config.Config{} }, 1_000_000, 1, frameBytesMax)
		for _, queries := range [][]*prompb.Query{
			nil,
			{{StartTimestampMs: start, EndTimestampMs: end, Matchers: everything()}},
			{{StartTimestampMs: start + 1, EndTimestampMs: start + 600_000, Matchers: []*prompb.LabelMatcher{up}}},
			{
				{StartTimestampMs: start, EndTimestampMs: start, Matchers: []*prompb.LabelMatcher{up}},
				{StartTimestampMs: end, EndTimestampMs: end + 5, Matchers: []*prompb.LabelMatcher{up}, Hints: &prompb.ReadHints{
					StartMs: end, EndMs: end + 5, StepMs: 1, Func: "rate", RangeMs: 1,
				}},
				{StartTimestampMs: 0, EndTimestampMs: 1, Matchers: everything()},
			},
			{{StartTimestampMs: start, EndTimestampMs: end, Matchers: []*prompb.LabelMatcher{{Type: 7}}}},
			{{StartTimestampMs: start, EndTimestampMs: end, Matchers: []*prompb.LabelMatcher{
				{Type: prompb.LabelMatcher_RE, Name: "a", Value: "("},
			}}},
		} {
			for _, types := range [][]prompb.ReadRequest_ResponseType{
				nil, {prompb.ReadRequest_SAMPLES}, {prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES}, {9},
			} {
				compareReads(t, s.Handler(), theirs, &prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: types})
			}
		}
	})
}

func compareReads(t *testing.T, ours, theirs http.Handler, req *prompb.ReadRequest) {
	t.Helper()
	message, err := req.Marshal()
	require.NoError(t, err)
	send := func(h http.Handler) *httptest.ResponseRecorder {
		body := bytes.NewReader(snappy.Encode(nil, message))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/read", body))
		return w
	}
	got, want := send(ours), send(theirs)
	if want.Code == http.StatusInternalServerError {
		// Prometheus answers 500 to a matcher that cannot be parsed.
		require.Equal(t, http.StatusBadRequest, got.Code, "%v", req)
		require.Equal(t, want.Body.String(), got.Body.String())
		return
	}
	require.Equal(t, want.Code, got.Code, "%v", req)
	require.Equal(t, want.Header().Get("Content-Type"), got.Header().Get("Content-Type"))
	if want.Code != http.StatusOK {
		require.Equal(t, strings.Fields(want.Body.String())[:8], strings.Fields(got.Body.String())[:8])
		return
	}
	require.Equal(t, want.Header().Get("Content-Encoding"), got.Header().Get("Content-Encoding"))
	if want.Header().Get("Content-Encoding") == "snappy" {
		// Prometheus leaves out -0 with its sign. Its encoder does the same to our message.
		var response prompb.ReadResponse
		require.NoError(t, response.Unmarshal(unsnap(t, got.Body.Bytes())))
		encoded, err := response.Marshal()
		require.NoError(t, err)
		require.Equal(t, string(unsnap(t, want.Body.Bytes())), string(encoded), "%v", req)
	} else {
		require.Equal(t, want.Body.Bytes(), got.Body.Bytes(), "%v", req)
	}
}

func unsnap(t *testing.T, b []byte) []byte {
	t.Helper()
	out, err := snappy.Decode(nil, b)
	require.NoError(t, err)
	return out
}

func clientConfig(t *testing.T, base, path string) *remote.ClientConfig {
	t.Helper()
	u, err := url.Parse(base + path)
	require.NoError(t, err)
	return &remote.ClientConfig{
		URL: &commonconfig.URL{URL: u}, Timeout: model.Duration(10 * time.Second), ChunkedReadLimit: 1 << 20,
		WriteProtoMsg: remoteapi.WriteV1MessageType,
	}
}

// TestPrometheusReadsThrough reads all samples with the client that a Prometheus has for remote_read.
func TestPrometheusReadsThrough(t *testing.T) {
	want := map[string][]float64{}
	for _, sample := range comparison.Samples() {
		key := sample.Labels.String()
		want[key] = append(want[key], float64(sample.TsMs), sample.Value)
	}
	inBothPlaces(t, func(t *testing.T, s *stack) {
		server := httptest.NewServer(s.Handler())
		defer server.Close()
		for _, typ := range []prompb.ReadRequest_ResponseType{
			prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS,
		} {
			conf := clientConfig(t, server.URL, "/api/v1/read")
			conf.AcceptedResponseTypes = []prompb.ReadRequest_ResponseType{typ}
			client, err := remote.NewReadClient("test", conf)
			require.NoError(t, err)
			set, err := client.Read(t.Context(), &prompb.Query{
				StartTimestampMs: comparison.Start * 1000, EndTimestampMs: comparison.End * 1000, Matchers: everything(),
			}, true)
			require.NoError(t, err)
			got := collect(t, set)
			require.Len(t, got, len(want))
			for key, samples := range want {
				require.Len(t, got[key], len(samples), key)
				for i := range samples {
					require.Equal(t, math.Float64bits(samples[i]), math.Float64bits(got[key][i]), key)
				}
			}
		}
	})
}

func collect(t *testing.T, set promstorage.SeriesSet) map[string][]float64 {
	t.Helper()
	got := map[string][]float64{}
	for set.Next() {
		key := set.At().Labels().String()
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			ts, v := it.At()
			got[key] = append(got[key], float64(ts), v)
		}
		require.NoError(t, it.Err())
	}
	require.NoError(t, set.Err())
	return got
}

// writeRequest is a remote-write body of one sample for each of the given series.
func writeRequest(tsMs int64, series ...labels.Labels) []byte {
	req := &prompb.WriteRequest{}
	for i, ls := range series {
		req.Timeseries = append(req.Timeseries, prompb.TimeSeries{
			Labels: prompb.FromLabels(ls, nil), Samples: []prompb.Sample{{Timestamp: tsMs, Value: float64(i)}},
		})
	}
	b, err := req.Marshal()
	if err != nil {
		panic(err)
	}
	return snappy.Encode(nil, b)
}

// TestPrometheusWrites writes with Prometheus's client of remote_write. Stored samples can be read. The client does not
// retry permanent errors, and retries temporary ones.
func TestPrometheusWrites(t *testing.T) {
	s := newStack(t)
	response := s.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { response.ServeHTTP(w, r) }))
	defer server.Close()
	client, err := remote.NewWriteClient("test", clientConfig(t, server.URL, "/api/v1/write"))
	require.NoError(t, err)
	const ts = comparison.End * 1000
	a, b := labels.FromStrings("__name__", "m", "x", "a"), labels.FromStrings("__name__", "m", "x", "b")
	stats, err := client.Store(t.Context(), writeRequest(ts, a, b), 0)
	require.NoError(t, err)
	require.False(t, stats.Confirmed, "only 2.0 has the headers")
	w := comparison.Request{Method: http.MethodGet, Path: "query", Query: "query=sum(m)"}.Send(response)
	require.Contains(t, w.Body.String(), `"value":[1700003700,"1"]`)

	retried := new(remote.RecoverableError)
	stats, err = client.Store(t.Context(), writeRequest(ts, a, labels.FromStrings("x", "nameless"), b), 0)
	require.Error(t, err)
	require.False(t, errors.As(err, retried), "%v", err)
	require.ErrorContains(t, err, "1 of 3 samples rejected")
	require.ErrorContains(t, err, "nameless")
	require.False(t, stats.Confirmed)

	config := clientConfig(t, server.URL, "/api/v1/write")
	config.WriteProtoMsg = remoteapi.WriteV2MessageType
	v2, err := remote.NewWriteClient("test", config)
	require.NoError(t, err)
	partial := v2Case{items: []v2Item{point(pairs{"__name__": "v2"}, 1), point(pairs{"a": "b"}, 1)}}
	stats, err = v2.Store(t.Context(), partial.request(), 0)
	require.ErrorContains(t, err, "1 of 2 samples rejected")
	require.False(t, errors.As(err, retried), "%v", err)
	require.Equal(t, remote.WriteResponseStats{Samples: 1, Confirmed: true}, stats)
	_, err = client.Store(t.Context(), []byte("garbage"), 0)
	require.Error(t, err)
	require.False(t, errors.As(err, retried), "%v", err)

	require.NoError(t, s.ingester.Close(context.Background()))
	_, err = client.Store(t.Context(), writeRequest(ts, a), 0)
	require.True(t, errors.As(err, retried), "a closing server is tried again: %v", err)
}

// TestWriteStatusLikePrometheus compares the status of write requests, right and wrong, with Prometheus' own handler.
func TestWriteStatusLikePrometheus(t *testing.T) {
	theirs := remote.NewWriteHandler(promslog.NewNopLogger(), nil, teststorage.New(t),
		remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}, false, false, false)
	ours := newStack(t).Handler()
	good := writeRequest(comparison.End*1000, labels.FromStrings("__name__", "m"))
	const v1, v2 = "application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	goodV2 := v2Case{items: []v2Item{point(pairs{"__name__": "m2"}, 1)}}.request()
	nameless := v2Case{items: []v2Item{point(pairs{"a": "b"}, 1), point(pairs{"__name__": "m2"}, 1)}}.request()
	nothing := v2Case{items: []v2Item{{labels: pairs{"__name__": "m"}}}}.request()
	for _, c := range []struct {
		ctype, encoding string
		body            []byte
	}{
		{"", "", good}, {v1, "snappy", good}, {v1, "", good}, {"", "snappy", good},
		{v1 + ";proto=prometheus.WriteRequest", "snappy", good}, {v2, "snappy", good}, {v1, "snappy", goodV2},
		{v2, "snappy", goodV2}, {v2, "", goodV2}, {v2, "gzip", goodV2}, {v2, "snappy", goodV2[:len(goodV2)-1]},
		{v2, "snappy", nameless}, {v2, "snappy", nothing}, {v2, "snappy", nil}, {v2, "snappy", snappy.Encode(nil, nil)},
		{v1 + ";proto=other", "snappy", good}, {v1 + ";proto", "snappy", good}, {"application/json", "snappy", good},
		{"text/plain", "snappy", good}, {v1, "gzip", good}, {v1, "zstd", good}, {v1, "identity", good},
		{v1, "snappy", nil}, {v1, "snappy", []byte("garbage")}, {v1, "snappy", good[:len(good)-1]},
		{v1, "snappy", snappy.Encode(nil, []byte("garbage"))},
		{v1, "snappy", snappy.Encode(nil, nil)}, {v1, "snappy", make([]byte, 32<<20+1)},
	} {
		send := func(h http.Handler) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(c.body))
			r.Header.Set("Content-Type", c.ctype)
			r.Header.Set("Content-Encoding", c.encoding)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		got, want := send(ours), send(theirs)
		require.Equal(t, want.Code, got.Code, "%q %q %.20q: %s / %s", c.ctype, c.encoding, c.body, got.Body, want.Body)
		for _, kind := range []string{"Samples", "Histograms", "Exemplars"} {
			name := "X-Prometheus-Remote-Write-" + kind + "-Written"
			if want.Code != http.StatusUnsupportedMediaType && (c.ctype != v2 || want.Header().Get(name) != "") {
				require.Equal(t, want.Header().Get(name), got.Header().Get(name), "%q %.20q", c.ctype, c.body)
			}
		}
	}
}

// TestWriteBomb: a small body that claims to decompress to 4 GiB is refused before anything is allocated for it.
// Prometheus answers 400 here; both make the sender drop the request.
func TestWriteBomb(t *testing.T) {
	body := []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	w := httptest.NewRecorder()
	newStack(t).Handler().ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, w.Body.String(), "4294967295 bytes")
}

// FuzzWrite sends arbitrary bodies, raw and compressed, to the whole database. Each error is a client error, and the
// server stores the next good request.
func FuzzWrite(f *testing.F) {
	s := newStack(f)
	good := writeRequest(comparison.End*1000, labels.FromStrings("__name__", "good"))
	plain, err := snappy.Decode(nil, good)
	require.NoError(f, err)
	f.Add(good, "")
	f.Add(plain, "application/x-protobuf")
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, "application/x-protobuf;proto=prometheus.WriteRequest")
	f.Add([]byte{0x0a, 0x7f, 0x12, 0xff}, "text/plain;;=")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		for _, sent := range [][]byte{body, snappy.Encode(nil, body), good} {
			r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(sent))
			r.Header["Content-Type"] = []string{contentType}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			require.Contains(t, []int{204, 400, 413, 415}, w.Code, w.Body)
		}
		r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(good))
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		require.Equal(t, http.StatusNoContent, w.Code, w.Body)
	})
}
