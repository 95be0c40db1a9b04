package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"halite/api/remote"
	"halite/cmd/tsdb/internal/client"
)

// frameBytesMax bounds a frame of a streamed remote read, and a response that is not streamed.
const frameBytesMax = 256 << 20

// RemoteRead reads from a server by remote read.
type RemoteRead struct {
	server *client.Server
	// path is the path of remote read below the URL; "" is Prometheus's.
	path string
	// retryFor is the time for which a request is retried.
	retryFor time.Duration
}

// NewRemoteRead returns a reader of a server.
func NewRemoteRead(server *client.Server) *RemoteRead { return &RemoteRead{server: server} }

// Read implements Reader.
func (r *RemoteRead) Read(ctx context.Context, fromMs, toMs int64, matchers []*labels.Matcher,
	visit func(ls labels.Labels, it chunkenc.Iterator) error,
) error {
	message, err := readRequest(fromMs, toMs, matchers)
	if err != nil {
		return err
	}
	var resp *http.Response
	err = client.Retry(ctx, r.retryFor, func() (err error) {
		resp, err = r.open(ctx, message)
		return err
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-streamed-protobuf") {
		return readFrames(resp.Body, fromMs, toMs, visit)
	}
	return readWhole(resp.Body, visit)
}

// open sends a request of remote read once. The caller closes the body of the response. The error wraps a
// *client.RetryableError if the request may succeed later.
func (r *RemoteRead) open(ctx context.Context, message []byte) (*http.Response, error) {
	path := r.path
	if path == "" {
		path = "/api/v1/read"
	}
	req, err := r.server.Request(ctx, http.MethodPost, path, bytes.NewReader(snappy.Encode(nil, message)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", remote.ProtobufType)
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("X-Prometheus-Remote-Read-Version", "0.1.0")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, responseBytesMax))
	err = fmt.Errorf("remote read: %s answered %s: %s", r.server, resp.Status, strings.TrimSpace(string(text)))
	return nil, client.ErrorOf(resp, err)
}

func readRequest(fromMs, toMs int64, matchers []*labels.Matcher) ([]byte, error) {
	q := &prompb.Query{StartTimestampMs: fromMs, EndTimestampMs: toMs,
		Hints: &prompb.ReadHints{StartMs: fromMs, EndMs: toMs}}
	kinds := map[labels.MatchType]prompb.LabelMatcher_Type{
		labels.MatchEqual: prompb.LabelMatcher_EQ, labels.MatchNotEqual: prompb.LabelMatcher_NEQ,
		labels.MatchRegexp: prompb.LabelMatcher_RE, labels.MatchNotRegexp: prompb.LabelMatcher_NRE,
	}
	for _, m := range matchers {
		q.Matchers = append(q.Matchers, &prompb.LabelMatcher{Type: kinds[m.Type], Name: m.Name, Value: m.Value})
	}
	req := prompb.ReadRequest{Queries: []*prompb.Query{q}, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{
		prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES,
	}}
	return req.Marshal()
}

// readFrames reads a streamed response.
func readFrames(body io.Reader, fromMs, toMs int64, visit func(ls labels.Labels, it chunkenc.Iterator) error) error {
	frames := remote.NewFrameDecoder(body, frameBytesMax)
	builder := labels.NewScratchBuilder(16)
	for {
		var m prompb.ChunkedReadResponse
		err := frames.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, s := range m.ChunkedSeries {
			ls := (&prompb.TimeSeries{Labels: s.Labels}).ToLabels(&builder, nil)
			if err := visit(ls, &chunkRun{chunks: s.Chunks, fromMs: fromMs, toMs: toMs, Iterator: chunkenc.NewNopIterator()}); err != nil {
				return err
			}
		}
	}
}

// chunkRun iterates over the samples of chunks within [fromMs, toMs].
type chunkRun struct {
	chunkenc.Iterator
	chunks       []prompb.Chunk
	fromMs, toMs int64
	err          error
}

// Next implements chunkenc.Iterator.
func (r *chunkRun) Next() chunkenc.ValueType {
	for r.err == nil {
		if kind := r.Iterator.Next(); kind != chunkenc.ValNone {
			if at := r.AtT(); at >= r.fromMs && at <= r.toMs {
				return kind
			}
			continue
		}
		if r.err = r.Iterator.Err(); r.err != nil || len(r.chunks) == 0 {
			break
		}
		c, err := chunkenc.FromData(chunkenc.Encoding(r.chunks[0].Type), r.chunks[0].Data)
		if err == nil && len(r.chunks[0].Data) < 2 {
			err = errors.New("a chunk without a header")
		}
		if r.err = err; err == nil {
			r.Iterator = c.Iterator(nil)
		}
		r.chunks = r.chunks[1:]
	}
	return chunkenc.ValNone
}

// Err implements chunkenc.Iterator.
func (r *chunkRun) Err() error { return r.err }

// readWhole reads a response that is not streamed.
func readWhole(body io.Reader, visit func(ls labels.Labels, it chunkenc.Iterator) error) error {
	compressed, err := io.ReadAll(io.LimitReader(body, frameBytesMax+1))
	if err != nil {
		return err
	}
	size, err := snappy.DecodedLen(compressed)
	if err != nil {
		return fmt.Errorf("the response to a remote read is not snappy: %w", err)
	}
	if max(size, len(compressed)) > frameBytesMax {
		return fmt.Errorf("the response to a remote read is larger than %d bytes: read a shorter time", frameBytesMax)
	}
	message, err := snappy.Decode(nil, compressed)
	if err != nil {
		return fmt.Errorf("the response to a remote read is not snappy: %w", err)
	}
	var resp prompb.ReadResponse
	if err := resp.Unmarshal(message); err != nil {
		return fmt.Errorf("the response to a remote read: %w", err)
	}
	builder := labels.NewScratchBuilder(16)
	for _, result := range resp.Results {
		for _, ts := range result.Timeseries {
			if err := visit(ts.ToLabels(&builder, nil), promstorage.NewListSeriesIterator(samplesOf(ts))); err != nil {
				return err
			}
		}
	}
	return nil
}

// wireSample is a sample of a response that is not streamed.
type wireSample struct {
	tsMs  int64
	value float64
	h     *histogram.Histogram
	fh    *histogram.FloatHistogram
}

func (s wireSample) T() int64                      { return s.tsMs }
func (s wireSample) ST() int64                     { return 0 }
func (s wireSample) F() float64                    { return s.value }
func (s wireSample) H() *histogram.Histogram       { return s.h }
func (s wireSample) FH() *histogram.FloatHistogram { return s.fh }
func (s wireSample) Copy() chunks.Sample           { return s }

func (s wireSample) Type() chunkenc.ValueType {
	switch {
	case s.h != nil:
		return chunkenc.ValHistogram
	case s.fh != nil:
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

// samplesOf merges floats and histograms by time.
func samplesOf(ts *prompb.TimeSeries) (out chunks.SampleSlice) {
	floats, histograms := ts.Samples, ts.Histograms
	for len(floats)+len(histograms) > 0 {
		if len(histograms) == 0 || len(floats) > 0 && floats[0].Timestamp <= histograms[0].Timestamp {
			out = append(out, wireSample{tsMs: floats[0].Timestamp, value: floats[0].Value})
			floats = floats[1:]
			continue
		}
		h := histograms[0]
		histograms = histograms[1:]
		if h.IsFloatHistogram() {
			out = append(out, wireSample{tsMs: h.Timestamp, fh: h.ToFloatHistogram()})
		} else {
			out = append(out, wireSample{tsMs: h.Timestamp, h: h.ToIntHistogram()})
		}
	}
	return out
}

// RemoteSource imports from a server by remote read, window by window.
type RemoteSource struct {
	reader *RemoteRead
	bounds Range
	window time.Duration

	partSamples int
}

// settledAfter is the age at which a running source has usually received all samples of a time. The verification would miss
// samples that arrive later.
const settledAfter = time.Minute

// OpenRemoteRead returns the samples of a server as a source. Without a last time, they end a minute before now. The URL of
// the server may end in the path of remote read. partSamples is as for OpenBlocks.
func OpenRemoteRead(server *client.Server, r Range, window time.Duration, partSamples int) (*RemoteSource, error) {
	if err := checkPart(partSamples); err != nil {
		return nil, err
	}
	if window < time.Minute {
		return nil, fmt.Errorf("--window is %s, it must be 1m or more", window)
	}
	reader := &RemoteRead{server: server}
	if base, ok := strings.CutSuffix(server.URL, "/read"); ok {
		server.URL, reader.path = base, "/read"
	}
	now := time.Now()
	if r.ToMs == math.MaxInt64 {
		r.ToMs = now.Add(-settledAfter).UnixMilli()
	}
	r.ToMs = min(r.ToMs, now.UnixMilli())
	if r.FromMs <= 0 || r.FromMs > r.ToMs {
		return nil, errors.New("--from is required and must be before --to; without --to, it must be at least a minute before now")
	}
	return &RemoteSource{reader: reader, bounds: r, window: window, partSamples: partSamples}, nil
}

// Name implements Source.
func (s *RemoteSource) Name() string { return "remote-read " + s.reader.server.String() }

// Size implements Source.
func (s *RemoteSource) Size(context.Context) (Size, error) {
	return Size{Total: (s.bounds.ToMs-s.bounds.FromMs)/1000 + 1, Unit: "s", OldestMs: s.bounds.FromMs}, nil
}

// Parts implements Source.
func (s *RemoteSource) Parts(ctx context.Context, from Position, visit func(*Part) error) error {
	windowMs := s.window.Milliseconds()
	first := s.bounds.FromMs - s.bounds.FromMs%windowMs
	at := max(first, from.DayMs)
	w := partWriter{partSamples: s.partSamples, visit: visit, done: func() int64 { return max(0, at-s.bounds.FromMs) / 1000 }}
	for ; at <= s.bounds.ToMs; at += windowMs {
		fromMs, toMs := max(at, s.bounds.FromMs), min(at+windowMs-1, s.bounds.ToMs)
		err := s.reader.Read(ctx, fromMs, toMs, s.bounds.Matchers, func(ls labels.Labels, it chunkenc.Iterator) error {
			if err := w.part().addSeries(ls, it, fromMs, toMs); err != nil {
				return err
			}
			return w.after(ctx, Position{DayMs: at}) // an interrupted window is read again from its beginning
		})
		if err != nil {
			return fmt.Errorf("window from %s: %w", time.UnixMilli(fromMs).UTC().Format(time.RFC3339), err)
		}
		if err := w.after(ctx, Position{DayMs: at + windowMs}); err != nil {
			return err
		}
	}
	return w.end()
}

// Close implements Source.
func (s *RemoteSource) Close() error { return nil }
