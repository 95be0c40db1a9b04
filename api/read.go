package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"golang.org/x/sync/semaphore"

	"halite/api/netlimit"
	"halite/api/remote"
	"halite/query/budget"
)

// errReadsBusy means that a read waited for a slot for too long.
var errReadsBusy = errors.New(
	"too many remote reads, exports and federation requests are waiting (query.max-reads); try again later")

// readSamplesHint follows the message of Prometheus for a read with too many samples.
const readSamplesHint = ": select fewer series or a shorter range, or raise query.max-read-samples"

// readError is an error of remote read with its status. Responses are plain text, because senders log them.
func readError(code int, err error) *apiError { return &apiError{status: code, err: err} }

// remoteRead answers /api/v1/read: raw samples of selected series, whole or as a stream of chunks.
func (s *Server) remoteRead(w http.ResponseWriter, r *http.Request) {
	if aerr := s.read(w, r); aerr != nil {
		if aerr.status == http.StatusServiceUnavailable {
			s.setRetryAfter(w, 0)
		}
		http.Error(w, aerr.err.Error(), aerr.status)
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) *apiError {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.Limits.ReadTimeout)
	defer cancel()
	s.metrics.readQueries.Inc()
	defer s.metrics.readQueries.Dec()
	slot := &readSlot{reads: s.reads}
	defer slot.release()
	req, aerr := s.decodeRead(ctx, w, r, slot)
	if aerr != nil {
		return aerr
	}
	typ, err := remote.ResponseType(req.AcceptedResponseTypes)
	if err != nil {
		return readError(http.StatusBadRequest, err)
	}
	// Check all queries before the first response, because a stream that has begun cannot report an error.
	if most := s.opts.Limits.SelectorsMax; len(req.Queries) > most {
		return readError(http.StatusBadRequest, fmt.Errorf("the request has %d queries, more than the limit of %d "+
			"(query.max-selectors)", len(req.Queries), most))
	}
	queries, err := remote.Queries(req.Queries)
	if err != nil {
		return readError(http.StatusBadRequest, err)
	}
	if typ == prompb.ReadRequest_STREAMED_XOR_CHUNKS {
		return s.readChunks(w, r, queries, slot)
	}
	budget := s.newBudget(r.Context())
	defer budget.end()
	message, aerr := s.readSamples(ctx, queries, budget)
	if aerr != nil {
		return aerr
	}
	slot.release() // a slow client does not block other reads
	budget.sending(netlimit.ResponseOf(r.Context()))
	w.Header().Set("Content-Type", remote.ProtobufType)
	w.Header().Set("Content-Encoding", "snappy")
	// A failed write means that the client is gone, so there is nobody to notify.
	_, _ = w.Write(message)
	return nil
}

// readSlot is one of the slots for concurrent remote reads.
type readSlot struct {
	reads *semaphore.Weighted
	taken bool
}

func (p *readSlot) acquire(ctx context.Context) error {
	err := p.reads.Acquire(ctx, 1)
	p.taken = err == nil
	return err
}

func (p *readSlot) release() {
	if p.taken {
		p.reads.Release(1)
		p.taken = false
	}
}

// decodeRead reads the body: a snappy-compressed prometheus.ReadRequest. It acquires the slot after the body, because a slow
// client must not hold one.
func (s *Server) decodeRead(
	ctx context.Context, w http.ResponseWriter, r *http.Request, slot *readSlot,
) (*prompb.ReadRequest, *apiError) {
	bytesMax := s.opts.Limits.ReadBytesMax
	tooLarge := readError(http.StatusRequestEntityTooLarge,
		fmt.Errorf("request exceeds the %d bytes limit (web.max-read-bytes)", bytesMax))
	if r.ContentLength > bytesMax {
		return nil, tooLarge
	}
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	body := http.MaxBytesReader(w, r.Body, bytesMax)
	if err := remote.ReadBody(body, buf, -1, bytesMax, nil); err != nil {
		if over := new(http.MaxBytesError); errors.As(err, &over) || errors.Is(err, remote.ErrBodyTooLarge) {
			return nil, tooLarge
		}
		failure := bodyFailure(err, bytesMax)
		return nil, readError(failure.status, failure.err)
	}
	if err := slot.acquire(ctx); err != nil {
		return nil, readError(http.StatusServiceUnavailable, errReadsBusy)
	}
	req, err := remote.DecodeRead(*buf, bytesMax)
	if err != nil {
		return nil, readError(http.StatusBadRequest, err)
	}
	return req, nil
}

// readSamples encodes all samples in one message. Afterwards only this message is in memory.
func (s *Server) readSamples(ctx context.Context, queries []remote.Query, budget responseBudget) ([]byte, *apiError) {
	left := s.opts.Limits.ReadSamplesMax
	resp := prompb.ReadResponse{Results: make([]*prompb.QueryResult, 0, len(queries))}
	for _, q := range queries {
		result, aerr := s.querySamples(ctx, q, budget, &left)
		if aerr != nil {
			return nil, aerr
		}
		resp.Results = append(resp.Results, result)
	}
	message, err := resp.Marshal()
	if err != nil {
		return nil, readError(http.StatusInternalServerError, err)
	}
	message = snappy.Encode(nil, message)
	if err := budget.settle(len(message)); err != nil {
		return nil, readFailure(err)
	}
	return message, nil
}

// readSampleBytes estimates the memory of a sample while a message is made: the sample, the growth of its list, its encoded
// and its compressed form.
const readSampleBytes = 64

// readStep is the number of samples that querySamples counts in one step.
const readStep = 1024

// querySamples collects the samples of one query and subtracts their number from left.
func (s *Server) querySamples(
	ctx context.Context, q remote.Query, budget responseBudget, left *int,
) (*prompb.QueryResult, *apiError) {
	result := &prompb.QueryResult{}
	if len(q.Matchers) == 0 {
		return result, nil
	}
	querier, err := s.readUnder(budget).Querier(q.MintMs, q.MaxtMs)
	if err != nil {
		return nil, readFailure(err)
	}
	defer s.closeQuerier(querier)
	var it chunkenc.Iterator
	set := querier.Select(ctx, false, q.Hints, q.Matchers...)
	for set.Next() {
		series := set.At()
		it = series.Iterator(it)
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(series.Labels(), nil)}
		counted := 0
		for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
			if *left--; *left < 0 {
				return nil, readError(http.StatusBadRequest,
					fmt.Errorf("exceeded sample limit (%d)%s", s.opts.Limits.ReadSamplesMax, readSamplesHint))
			}
			if err := remote.AppendSample(ts, it, typ); err != nil {
				return nil, readFailure(err)
			}
			if typ != chunkenc.ValFloat {
				// The histogram, its encoded and its compressed form.
				if err := budget.reserve(3 * ts.Histograms[len(ts.Histograms)-1].Size()); err != nil {
					return nil, readFailure(err)
				}
			}
			if len(ts.Samples)-counted == readStep {
				if err := budget.reserve(readStep * readSampleBytes); err != nil {
					return nil, readFailure(err)
				}
				counted += readStep
			}
		}
		if err := budget.reserve((len(ts.Samples)-counted)*readSampleBytes + 4*int(series.Labels().ByteSize())); err != nil {
			return nil, readFailure(err)
		}
		if err := it.Err(); err != nil {
			return nil, readFailure(err)
		}
		result.Timeseries = append(result.Timeseries, ts)
	}
	if err := set.Err(); err != nil {
		return nil, readFailure(err)
	}
	return result, nil
}

// readFailure gives an error of the store its status. A read that ran out of time may succeed later. A read that exceeds the
// memory limit gets the same status as a read with too many samples.
func readFailure(err error) *apiError {
	aerr := evalError(err)
	if aerr.typ == errTimeout {
		err = fmt.Errorf("%w (query.read-timeout): select fewer series or a shorter range", err)
	}
	switch limit := new(budget.LimitError); {
	case aerr.typ != errExec:
	case errors.As(err, &limit):
		aerr.typ = errBadData
	default:
		aerr.typ = errInternal
	}
	return readError(aerr.code(), err)
}

func (s *Server) closeQuerier(q interface{ Close() error }) {
	if err := q.Close(); err != nil {
		s.opts.Logger.Warn("closing a querier after a remote read", "err", err)
	}
}

// readChunks answers with a stream of frames in the order of series; each frame has chunks of one series.
func (s *Server) readChunks(w http.ResponseWriter, r *http.Request, queries []remote.Query, slot *readSlot) *apiError {
	w.Header().Set("Content-Type", remote.StreamType)
	return s.stream(w, r, slot, func(ctx context.Context, out *stream, budget responseBudget) *apiError {
		frames := &frameWriter{stream: out, encoder: remote.NewFrameEncoder()}
		for i, q := range queries {
			if aerr := s.streamQuery(ctx, frames, int64(i), q, budget); aerr != nil {
				return aerr
			}
		}
		return nil
	})
}

// stream runs send, which writes a response part by part. It returns a failure before the first part. After a later failure
// it breaks the connection, so the client does not take a part for the whole.
func (s *Server) stream(
	w http.ResponseWriter, r *http.Request, slot *readSlot,
	send func(ctx context.Context, out *stream, budget responseBudget) *apiError,
) *apiError {
	budget := s.newBudget(r.Context())
	defer budget.end()
	budget.sending(netlimit.ResponseOf(r.Context()))
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	timeout := s.opts.Limits.ReadTimeout
	timer := time.AfterFunc(timeout, cancel)
	defer timer.Stop()
	out := &stream{w: w, slot: slot, timer: timer, timeout: timeout}
	aerr := send(ctx, out, budget)
	if aerr != nil && out.begun {
		s.opts.Logger.Warn("aborted a streamed response", "path", r.URL.Path, "err", aerr.err)
		panic(http.ErrAbortHandler)
	}
	return aerr
}

func (s *Server) streamQuery(
	ctx context.Context, frames *frameWriter, index int64, q remote.Query, budget responseBudget,
) *apiError {
	if len(q.Matchers) == 0 {
		return nil
	}
	querier, err := s.readUnder(budget).ChunkQuerier(q.MintMs, q.MaxtMs)
	if err != nil {
		return readFailure(err)
	}
	defer s.closeQuerier(querier)
	var it chunks.Iterator
	set := querier.Select(ctx, true, q.Hints, q.Matchers...)
	for set.Next() {
		series := set.At()
		it = series.Iterator(it)
		if err := s.streamSeries(ctx, frames, index, series.Labels(), it); err != nil {
			return readFailure(err)
		}
	}
	if err := set.Err(); err != nil {
		return readFailure(err)
	}
	return nil
}

// streamSeries sends the chunks of one series. It begins a new frame when one exceeds ReadFrameBytesMax; only the last chunk
// of a frame exceeds that limit.
func (s *Server) streamSeries(
	ctx context.Context, frames *frameWriter, index int64, ls labels.Labels, it chunks.Iterator,
) error {
	pbLabels := prompb.FromLabels(ls, nil)
	room := int(s.opts.Limits.ReadFrameBytesMax)
	for i := range pbLabels {
		room -= pbLabels[i].Size()
	}
	var batch []prompb.Chunk
	left := room
	for more := it.Next(); more; {
		c := it.At()
		if c.Chunk == nil {
			return fmt.Errorf("chunk of series %s without samples", ls)
		}
		batch = append(batch, prompb.Chunk{
			MinTimeMs: c.MinTime, MaxTimeMs: c.MaxTime,
			Type: prompb.Chunk_Encoding(c.Chunk.Encoding()), Data: c.Chunk.Bytes(),
		})
		left -= batch[len(batch)-1].Size()
		if more = it.Next(); more && left > 0 {
			continue
		}
		err := frames.send(ctx, &prompb.ChunkedReadResponse{
			ChunkedSeries: []*prompb.ChunkedSeries{{Labels: pbLabels, Chunks: batch}}, QueryIndex: index,
		})
		if err != nil {
			return err
		}
		batch, left = batch[:0], room
	}
	return it.Err()
}

// stream sends a response part by part.
type stream struct {
	w    http.ResponseWriter
	slot *readSlot
	// timer ends the read unless it sends another part in time. The time that the client takes does not count.
	timer   *time.Timer
	timeout time.Duration
	begun   bool // a part was sent, so the status can no longer change
}

// write sends a part. Meanwhile the read gives up its slot, so slow clients do not block other reads.
func (o *stream) write(ctx context.Context, part []byte) error {
	o.begun = true
	o.slot.release()
	o.timer.Stop()
	if _, err := o.w.Write(part); err != nil {
		return fmt.Errorf("send a part of the response: %w", err)
	}
	o.timer.Reset(o.timeout)
	return o.slot.acquire(ctx)
}

// frameWriter sends the frames of a streamed read.
type frameWriter struct {
	*stream
	encoder *remote.FrameEncoder
}

func (f *frameWriter) send(ctx context.Context, m *prompb.ChunkedReadResponse) error {
	frame, err := f.encoder.Encode(m)
	if err != nil {
		return err
	}
	return f.write(ctx, frame)
}
