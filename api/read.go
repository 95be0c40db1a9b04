package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	promstorage "github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/encoding/protowire"

	readers "halite/query/promql"
)

// Prometheus' own handler for remote read is not used: the package it is in brings service discovery and cloud clients
// along, 18 MB of program, and it cannot break off a stream when the store fails in the middle of it.

// readError is an error of remote read with its status; answers are plain text, as senders log them.
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
	place := &place{reads: s.reads}
	if err := place.enter(ctx); err != nil {
		return readError(http.StatusServiceUnavailable, errors.New("too many remote reads are waiting; try again later"))
	}
	defer place.leave()

	req, aerr := s.decodeRead(w, r)
	if aerr != nil {
		return aerr
	}
	typ, err := responseType(req.AcceptedResponseTypes)
	if err != nil {
		return readError(http.StatusBadRequest, err)
	}
	// All before the first is answered: a stream that has begun cannot tell what is wrong any more.
	if most := s.opts.Limits.SelectorsMax; len(req.Queries) > most {
		return readError(http.StatusBadRequest, fmt.Errorf("the request has %d queries, more than the limit of %d "+
			"(query.max-selectors)", len(req.Queries), most))
	}
	queries, err := selections(req.Queries)
	if err != nil {
		return readError(http.StatusBadRequest, err)
	}
	if typ == prompb.ReadRequest_STREAMED_XOR_CHUNKS {
		return s.readChunks(w, r, queries, place)
	}
	held := s.hold()
	defer held.end()
	message, aerr := s.readSamples(ctx, queries, held)
	if aerr != nil {
		return aerr
	}
	place.leave() // a slow client does not keep others waiting
	held.sending(answerOf(r.Context()))
	w.Header().Set("Content-Type", protobufType)
	w.Header().Set("Content-Encoding", "snappy")
	// A failed write means that the client is gone; nobody is left to tell.
	_, _ = w.Write(message)
	return nil
}

// place is the place of a read among those that run.
type place struct {
	reads *semaphore.Weighted
	taken bool
}

func (p *place) enter(ctx context.Context) error {
	err := p.reads.Acquire(ctx, 1)
	p.taken = err == nil
	return err
}

func (p *place) leave() {
	if p.taken {
		p.reads.Release(1)
		p.taken = false
	}
}

// decodeRead reads the body: a snappy-compressed prometheus.ReadRequest.
func (s *Server) decodeRead(w http.ResponseWriter, r *http.Request) (*prompb.ReadRequest, *apiError) {
	bytesMax := s.opts.Limits.ReadBytesMax
	tooLarge := readError(http.StatusRequestEntityTooLarge, fmt.Errorf("request exceeds the %d bytes limit", bytesMax))
	if r.ContentLength > bytesMax {
		return nil, tooLarge
	}
	buf := s.buffers.get()
	defer s.buffers.put(buf)
	body := http.MaxBytesReader(w, r.Body, bytesMax)
	if err := readUnknown(body, buf, bytesMax, func(int64) bool { return true }); err != nil {
		if over := new(http.MaxBytesError); errors.As(err, &over) || errors.Is(err, errBodyTooLarge) {
			return nil, tooLarge
		}
		return nil, readError(http.StatusBadRequest, fmt.Errorf("reading the request body: %w", err))
	}
	// The stated size is compared before anything is allocated for it.
	size, err := snappy.DecodedLen(*buf)
	if err != nil {
		return nil, readError(http.StatusBadRequest, err)
	}
	if int64(size) > bytesMax {
		return nil, readError(http.StatusBadRequest,
			fmt.Errorf("snappy: decoded length %d exceeds limit %d", size, bytesMax))
	}
	decoded, err := snappy.Decode(nil, *buf)
	if err != nil {
		return nil, readError(http.StatusBadRequest, err)
	}
	var req prompb.ReadRequest
	if err := req.Unmarshal(decoded); err != nil {
		return nil, readError(http.StatusBadRequest, err)
	}
	return &req, nil
}

// responseType is the first of the accepted types that the server knows; none accepted means whole samples.
func responseType(accepted []prompb.ReadRequest_ResponseType) (prompb.ReadRequest_ResponseType, error) {
	known := []prompb.ReadRequest_ResponseType{prompb.ReadRequest_SAMPLES, prompb.ReadRequest_STREAMED_XOR_CHUNKS}
	if len(accepted) == 0 {
		return prompb.ReadRequest_SAMPLES, nil
	}
	for _, typ := range accepted {
		if slices.Contains(known, typ) {
			return typ, nil
		}
	}
	return 0, fmt.Errorf("server does not support any of the requested response types: %v; supported: %v", accepted, known)
}

// selection is one query of a read request. Without matchers it finds nothing, as in Prometheus, rather than everything.
type selection struct {
	mintMs, maxtMs int64
	hints          *promstorage.SelectHints
	matchers       []*labels.Matcher
}

func selections(list []*prompb.Query) ([]selection, error) {
	types := map[prompb.LabelMatcher_Type]labels.MatchType{
		prompb.LabelMatcher_EQ: labels.MatchEqual, prompb.LabelMatcher_NEQ: labels.MatchNotEqual,
		prompb.LabelMatcher_RE: labels.MatchRegexp, prompb.LabelMatcher_NRE: labels.MatchNotRegexp,
	}
	queries := make([]selection, 0, len(list))
	for _, q := range list {
		sel := selection{mintMs: q.StartTimestampMs, maxtMs: q.EndTimestampMs}
		for _, m := range q.Matchers {
			typ, ok := types[m.Type]
			if !ok {
				return nil, errors.New("invalid matcher type")
			}
			matcher, err := labels.NewMatcher(typ, m.Name, m.Value)
			if err != nil {
				return nil, err
			}
			sel.matchers = append(sel.matchers, matcher)
		}
		if h := q.Hints; h != nil {
			sel.hints = &promstorage.SelectHints{
				Start: h.StartMs, End: h.EndMs, Step: h.StepMs, Func: h.Func, Grouping: h.Grouping, Range: h.RangeMs, By: h.By,
			}
		}
		queries = append(queries, sel)
	}
	return queries, nil
}

// readSamples encodes all samples in one message, which is all that is held afterwards.
func (s *Server) readSamples(ctx context.Context, queries []selection, held held) ([]byte, *apiError) {
	left := s.opts.Limits.ReadSamplesMax
	resp := prompb.ReadResponse{Results: make([]*prompb.QueryResult, 0, len(queries))}
	for _, q := range queries {
		result, aerr := s.querySamples(ctx, q, held, &left)
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
	if err := held.settle(len(message)); err != nil {
		return nil, readFailure(err)
	}
	return message, nil
}

// readSampleBytes is about what a sample takes in a message that is being made: as it is, while its list grows, encoded,
// and compressed.
const readSampleBytes = 64

// readStep is the number of samples that are counted at a time.
const readStep = 1024

// querySamples collects the samples of one query and subtracts their number from left.
func (s *Server) querySamples(ctx context.Context, q selection, held held, left *int) (*prompb.QueryResult, *apiError) {
	result := &prompb.QueryResult{}
	if len(q.matchers) == 0 {
		return result, nil
	}
	querier, err := s.readUnder(held).Querier(q.mintMs, q.maxtMs)
	if err != nil {
		return nil, readFailure(err)
	}
	defer s.closeQuerier(querier)
	var it chunkenc.Iterator
	set := querier.Select(ctx, false, q.hints, q.matchers...)
	for set.Next() {
		series := set.At()
		it = series.Iterator(it)
		ts := &prompb.TimeSeries{Labels: prompb.FromLabels(series.Labels(), nil)}
		counted := 0
		for typ := it.Next(); typ != chunkenc.ValNone; typ = it.Next() {
			if *left--; *left < 0 {
				return nil, readError(http.StatusBadRequest,
					fmt.Errorf("exceeded sample limit (%d)", s.opts.Limits.ReadSamplesMax))
			}
			if err := appendReadSample(ts, it, typ); err != nil {
				return nil, readFailure(err)
			}
			if len(ts.Samples)-counted == readStep {
				if err := held.take(readStep * readSampleBytes); err != nil {
					return nil, readFailure(err)
				}
				counted += readStep
			}
		}
		if err := held.take((len(ts.Samples)-counted)*readSampleBytes + 4*int(series.Labels().ByteSize())); err != nil {
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

func appendReadSample(ts *prompb.TimeSeries, it chunkenc.Iterator, typ chunkenc.ValueType) error {
	switch typ {
	case chunkenc.ValFloat:
		t, v := it.At()
		ts.Samples = append(ts.Samples, readSample(t, v))
	case chunkenc.ValHistogram:
		t, h := it.AtHistogram(nil)
		ts.Histograms = append(ts.Histograms, prompb.FromIntHistogram(t, h))
	case chunkenc.ValFloatHistogram:
		t, h := it.AtFloatHistogram(nil)
		ts.Histograms = append(ts.Histograms, prompb.FromFloatHistogram(t, h))
	default:
		return fmt.Errorf("unknown kind of sample %v", typ)
	}
	return nil
}

// readSample returns a sample that keeps the sign of zero. The generated encoder leaves out a value that equals 0, and -0
// does. So the field is added in encoded form; decoders read it like any other value.
func readSample(tsMs int64, v float64) prompb.Sample {
	s := prompb.Sample{Timestamp: tsMs, Value: v}
	if v == 0 && math.Signbit(v) {
		s.XXX_unrecognized = protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
	}
	return s
}

// readFailure gives an error of the store its status. A read that ran out of time may work later; one that is too large is
// refused as one of too many samples is.
func readFailure(err error) *apiError {
	aerr := evalError(err)
	switch limit := new(readers.LimitError); {
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
