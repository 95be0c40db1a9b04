package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

func readQuery(startMs, endMs int64, matchers ...*prompb.LabelMatcher) *prompb.Query {
	return &prompb.Query{
		StartTimestampMs: startMs, EndTimestampMs: endMs, Matchers: matchers,
		Hints: &prompb.ReadHints{StartMs: startMs, EndMs: endMs},
	}
}

func matcher(typ prompb.LabelMatcher_Type, name, value string) *prompb.LabelMatcher {
	return &prompb.LabelMatcher{Type: typ, Name: name, Value: value}
}

func (f *fixture) read(t testing.TB, req *prompb.ReadRequest) *httptest.ResponseRecorder {
	t.Helper()
	message, err := req.Marshal()
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, message)))
	r.Header.Set("Content-Encoding", "snappy")
	r.Header.Set("Content-Type", "application/x-protobuf")
	return f.do(r)
}

// readFrames parses a streamed response as the protocol describes it.
func readFrames(t testing.TB, r io.Reader) (frames []prompb.ChunkedReadResponse) {
	t.Helper()
	br := bufio.NewReader(r)
	for {
		size, err := binary.ReadUvarint(br)
		if errors.Is(err, io.EOF) {
			return frames
		}
		require.NoError(t, err)
		var sum [4]byte
		_, err = io.ReadFull(br, sum[:])
		require.NoError(t, err)
		message := make([]byte, size)
		_, err = io.ReadFull(br, message)
		require.NoError(t, err)
		require.Equal(t, crc32.Checksum(message, crc32.MakeTable(crc32.Castagnoli)), binary.BigEndian.Uint32(sum[:]))
		frames = append(frames, prompb.ChunkedReadResponse{})
		require.NoError(t, frames[len(frames)-1].Unmarshal(message))
	}
}

// TestReadSamples reads whole samples of two queries, by all kinds of matchers.
func TestReadSamples(t *testing.T) {
	f := newFixture(t, nil)
	w := f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{
		readQuery(15_000, 45_000, matcher(prompb.LabelMatcher_EQ, "__name__", "requests_total"),
			matcher(prompb.LabelMatcher_NEQ, "code", "500")),
		readQuery(0, 0, matcher(prompb.LabelMatcher_RE, "instance", "a.*"),
			matcher(prompb.LabelMatcher_NRE, "job", "x.*")),
	}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/x-protobuf", w.Header().Get("Content-Type"))
	require.Equal(t, "snappy", w.Header().Get("Content-Encoding"))
	message, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, resp.Unmarshal(message))
	require.Equal(t, []*prompb.QueryResult{
		{Timeseries: []*prompb.TimeSeries{{
			Labels: []prompb.Label{
				{Name: "__name__", Value: "requests_total"}, {Name: "code", Value: "200"}, {Name: "job", Value: "web"},
			},
			Samples: []prompb.Sample{
				{Value: 10, Timestamp: 15_000}, {Value: 20, Timestamp: 30_000}, {Value: 30, Timestamp: 45_000},
			},
		}}},
		{Timeseries: []*prompb.TimeSeries{{
			Labels: []prompb.Label{
				{Name: "__name__", Value: "up"}, {Name: "instance", Value: "a:9100"}, {Name: "job", Value: "node"},
			},
			Samples: []prompb.Sample{{Value: 1, Timestamp: 0}},
		}}},
	}, resp.Results)
}

// TestReadStream reads chunks and decodes them; small frames split a series but lose nothing.
func TestReadStream(t *testing.T) {
	for _, frameBytesMax := range []int{1, DefaultReadFrameBytesMax} {
		f := newFixture(t, func(o *Options) { o.Limits.ReadFrameBytesMax = int64(frameBytesMax) })
		w := f.read(t, &prompb.ReadRequest{
			AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{
				prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES,
			},
			Queries: []*prompb.Query{
				readQuery(0, 600_000, matcher(prompb.LabelMatcher_EQ, "__name__", "nothing")),
				readQuery(0, 600_000, matcher(prompb.LabelMatcher_RE, "__name__", "up|requests_total")),
			},
		})
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		require.Equal(t, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse",
			w.Header().Get("Content-Type"))
		var names []string
		samples := 0
		for _, frame := range readFrames(t, w.Body) {
			require.Equal(t, int64(1), frame.QueryIndex)
			require.Len(t, frame.ChunkedSeries, 1)
			series := frame.ChunkedSeries[0]
			names = append(names, series.Labels[0].Value+series.Labels[1].Value)
			for _, c := range series.Chunks {
				require.Equal(t, prompb.Chunk_XOR, c.Type)
				chunk, err := chunkenc.FromData(chunkenc.EncXOR, c.Data)
				require.NoError(t, err)
				samples += chunk.NumSamples()
			}
		}
		require.Equal(t, []string{"requests_total200", "requests_total500", "upa:9100", "upb:9100"}, names)
		require.Equal(t, 4*41, samples)
	}
}

// TestReadBad: wrong requests are refused with their reason.
func TestReadBad(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Limits.ReadBytesMax, o.Limits.ReadSamplesMax = 1000, 50 })
	post := func(b []byte) *httptest.ResponseRecorder {
		return f.do(httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(b)))
	}
	all := matcher(prompb.LabelMatcher_EQ, "job", "node")
	for _, c := range []struct {
		name string
		w    *httptest.ResponseRecorder
		code int
		says string
	}{
		{"empty", post(nil), 400, "corrupt"},
		{"not snappy", post([]byte("\xff\xff\xff")), 400, "corrupt"},
		{"bomb", post([]byte{0x80, 0x80, 0x80, 0x80, 0x0f, 0}), 400, "exceeds limit"},
		{"not protobuf", post(snappy.Encode(nil, []byte{0xff, 1, 2})), 400, ""},
		{"too large", post(make([]byte, 1001)), 413, "1000 bytes limit (web.max-read-bytes)"},
		{
			"too large, in chunks", f.do(httptest.NewRequest(http.MethodPost, "/api/v1/read",
				onlyReader{bytes.NewReader(make([]byte, 5000))})), 413, "1000 bytes limit (web.max-read-bytes)",
		},
		{
			"unknown type", f.read(t, &prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{9}}),
			400, "does not support any of the requested response types",
		},
		{"matcher type", f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{
			readQuery(0, 1, matcher(99, "a", "b")),
		}}), 400, "invalid matcher type"},
		{"regexp", f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{
			readQuery(0, 1, matcher(prompb.LabelMatcher_RE, "a", "(")),
		}}), 400, "missing closing )"},
		{
			"samples", f.read(t, &prompb.ReadRequest{Queries: []*prompb.Query{readQuery(0, 600_000, all)}}), 400,
			"exceeded sample limit (50): select fewer series or a shorter range, or raise query.max-read-samples",
		},
	} {
		require.Equal(t, c.code, c.w.Code, c.name)
		require.Contains(t, body(t, c.w), c.says, c.name)
		require.True(t, strings.HasPrefix(c.w.Header().Get("Content-Type"), "text/plain"), c.name)
	}
	require.Equal(t, 0., f.metric(t, "tsdb_http_remote_reads", map[string]string{}))
}

// breaking is a queryable whose chunk queries fail after some series.
type breaking struct {
	promstorage.SampleAndChunkQueryable
	after int
}

func (b breaking) ChunkQuerier(mint, maxt int64) (promstorage.ChunkQuerier, error) {
	q, err := b.SampleAndChunkQueryable.ChunkQuerier(mint, maxt)
	return breakingQuerier{q, b.after}, err
}

type breakingQuerier struct {
	promstorage.ChunkQuerier
	after int
}

func (b breakingQuerier) Select(
	ctx context.Context, sorted bool, hints *promstorage.SelectHints, ms ...*labels.Matcher,
) promstorage.ChunkSeriesSet {
	return &breakingSet{ChunkSeriesSet: b.ChunkQuerier.Select(ctx, sorted, hints, ms...), left: b.after}
}

type breakingSet struct {
	promstorage.ChunkSeriesSet
	left int
}

func (b *breakingSet) Next() bool { b.left--; return b.left >= 0 && b.ChunkSeriesSet.Next() }
func (b *breakingSet) Err() error { return errors.New("disk on fire") }

// TestReadStreamBreaks: a failure before the first frame gives an error response. A later failure breaks the connection.
func TestReadStreamBreaks(t *testing.T) {
	req := &prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
		Queries:               []*prompb.Query{readQuery(0, 600_000, matcher(prompb.LabelMatcher_EQ, "__name__", "up"))},
	}
	for after := range 2 {
		f := newFixture(t, func(o *Options) { o.Queryable = breaking{o.Queryable, after} })
		server := httptest.NewServer(f.Handler())
		defer server.Close()
		message, err := req.Marshal()
		require.NoError(t, err)
		resp, err := server.Client().Post(server.URL+"/api/v1/read", "application/x-protobuf",
			bytes.NewReader(snappy.Encode(nil, message)))
		if after == 0 {
			require.NoError(t, err)
			require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "disk on fire\n", string(text))
		} else if err == nil {
			_, err = io.ReadAll(resp.Body)
			require.Error(t, err, "the client must see that the stream is not whole")
		}
	}
}

// FuzzRead sends arbitrary bodies, as they are and compressed.
func FuzzRead(f *testing.F) {
	fix := newFixture(f, nil)
	seed, err := (&prompb.ReadRequest{Queries: []*prompb.Query{
		readQuery(0, 60_000, matcher(prompb.LabelMatcher_RE, "job", "n.*")),
	}}).Marshal()
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte{0x80, 0x80, 0x80, 0x80, 0x0f, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, sent := range [][]byte{b, snappy.Encode(nil, b)} {
			w := fix.do(httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(sent)))
			require.Contains(t, []int{200, 400}, w.Code, w.Body)
		}
	})
}
