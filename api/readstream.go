package api

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

const streamType = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"

// frameWriter writes the frames of a streamed read: length as uvarint, CRC-32C of the message (4 bytes, big-endian),
// and the message.
type frameWriter struct {
	w     http.ResponseWriter
	place *place
	// timer ends the read unless it sends another frame in time. The time that the client takes does not count.
	timer   *time.Timer
	timeout time.Duration
	crc     *crc32.Table
	buf     []byte
	begun   bool // a frame was sent, so the status cannot change any more
}

// send writes a frame. While the client takes it, the read gives up its place, so that slow clients do not keep others
// waiting.
func (f *frameWriter) send(ctx context.Context, m *prompb.ChunkedReadResponse) error {
	size := m.Size()
	f.buf = binary.AppendUvarint(f.buf[:0], uint64(size))
	head := len(f.buf) + crc32.Size
	if cap(f.buf) < head+size {
		f.buf = append(make([]byte, 0, head+size), f.buf...)
	}
	message := f.buf[head : head+size]
	if _, err := m.MarshalToSizedBuffer(message); err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	f.buf = binary.BigEndian.AppendUint32(f.buf, crc32.Checksum(message, f.crc))
	f.begun = true
	f.place.leave()
	f.timer.Stop()
	if _, err := f.w.Write(f.buf[:head+size]); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	f.timer.Reset(f.timeout)
	return f.place.enter(ctx)
}

// readChunks answers with a stream of frames, each with chunks of one series; series come sorted. If the store fails
// after the first frame the connection is broken, so that the client cannot take what it has for all there is.
func (s *Server) readChunks(w http.ResponseWriter, r *http.Request, queries []selection, place *place) *apiError {
	held := s.hold()
	defer held.end()
	held.sending(answerOf(r.Context()))
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	timeout := s.opts.Limits.ReadTimeout
	timer := time.AfterFunc(timeout, cancel)
	defer timer.Stop()
	w.Header().Set("Content-Type", streamType)
	frames := &frameWriter{w: w, place: place, timer: timer, timeout: timeout, crc: crc32.MakeTable(crc32.Castagnoli)}
	for i, q := range queries {
		aerr := s.streamQuery(ctx, frames, int64(i), q, held)
		if aerr == nil {
			continue
		}
		if frames.begun {
			s.opts.Logger.Warn("remote read broken off", "err", aerr.err)
			panic(http.ErrAbortHandler)
		}
		return aerr
	}
	return nil
}

func (s *Server) streamQuery(ctx context.Context, frames *frameWriter, index int64, q selection, held held) *apiError {
	if len(q.matchers) == 0 {
		return nil
	}
	querier, err := s.readUnder(held).ChunkQuerier(q.mintMs, q.maxtMs)
	if err != nil {
		return readFailure(err)
	}
	defer s.closeQuerier(querier)
	var it chunks.Iterator
	set := querier.Select(ctx, true, q.hints, q.matchers...)
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

// streamSeries sends the chunks of one series, in as many frames as the limit of a frame makes necessary. A frame may
// exceed it by its last chunk.
func (s *Server) streamSeries(
	ctx context.Context, frames *frameWriter, index int64, ls labels.Labels, it chunks.Iterator,
) error {
	pbLabels := prompb.FromLabels(ls, nil)
	room := s.opts.Limits.ReadFrameBytesMax
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
