package promql

import (
	"context"
	"math"

	"halite/keyschema"
	"halite/storage/index"
)

// Stream reads the series of a batch piece by piece: spans of whole hours, of whole days if possible, ascending and
// without gaps, so that a long range is never in memory at once. It belongs to one goroutine.
type Stream struct {
	rd *batchReader
	// next to last are the hours yet to be read, about so many at a time.
	next, last, hours int64
	started, closed   bool
}

// Open begins to read batch i with its head. Close the Stream when done; batches it has given stay valid until they are
// released.
func (s *Selection) Open(ctx context.Context, i int) (*Stream, error) {
	cut := s.cuts[i]
	st, err := s.open(ctx, i)
	if err != nil {
		return nil, err
	}
	if cut.streamed {
		st.hours = pieceHours(s.reader.opts.BatchRowsMax, max(1, cut.dayRows))
	}
	return st, nil
}

// open begins to read batch i as one piece.
func (s *Selection) open(ctx context.Context, i int) (*Stream, error) {
	first, end := s.cuts[i].first, len(s.series)
	if i+1 < len(s.cuts) {
		end = s.cuts[i+1].first
	}
	rd := &batchReader{reader: s.reader, window: s.window, first: first, series: s.series[first:end],
		cache: s.cache, merges: s.merges, epoch: s.epoch, condition: s.condition}
	if err := rd.readHead(ctx); err != nil {
		rd.close()
		return nil, err
	}
	st := &Stream{rd: rd, next: math.MaxInt64, last: math.MinInt64, hours: keyschema.HourMax + 1}
	for i := range rd.series {
		if spans := rd.series[i].Hours; len(spans) > 0 {
			st.next, st.last = min(st.next, spans[0].First), max(st.last, spans[len(spans)-1].Last)
		}
	}
	return st, nil
}

// pieceHours is the number of hours of a piece: whole days, or less than one.
func pieceHours(rows, dayRows int) int64 {
	if days := rows / dayRows; days > 0 {
		return int64(days) * keyschema.DayHours
	}
	return max(1, int64(rows)*keyschema.DayHours/int64(dayRows))
}

// end is the last hour of the next piece. Days are not cut where that can be helped: each is a read of its own.
func (st *Stream) end() int64 {
	from := st.next
	if st.hours >= keyschema.DayHours {
		from -= from % keyschema.DayHours
	}
	return min(from+st.hours-1, st.last)
}

// More reports whether Next has another piece. There is at least one.
func (st *Stream) More() bool { return !st.started || st.next <= st.last }

// Next reads the next piece: the samples of all series of the batch within its span, those without any included. Release
// it when done.
func (st *Stream) Next(ctx context.Context) (*Batch, error) {
	if st.closed {
		return nil, errClosed
	}
	p := &piece{batchReader: st.rd, window: st.rd.window}
	first, last := st.next, st.end()
	if st.started {
		p.window.mintMs = max(p.window.mintMs, keyschema.HourStartMs(first))
	}
	if last < st.last {
		p.window.maxtMs = min(p.window.maxtMs, keyschema.HourStartMs(last+1)-1)
	}
	if st.started || last < st.last {
		p.narrow(first, last)
	}
	st.started, st.next = true, last+1
	defer p.close()
	if err := p.readTable(ctx); err != nil {
		return nil, err
	}
	return p.join()
}

// Close gives back what the Stream holds.
func (st *Stream) Close() {
	if !st.closed {
		st.closed = true
		st.rd.close()
	}
}

// narrow leaves the hours from first to last to each series.
func (p *piece) narrow(first, last int64) {
	p.hours = make([][]index.HourSpan, len(p.series))
	arena := make([]index.HourSpan, 0, len(p.series))
	for i := range p.series {
		start := len(arena)
		spans := p.series[i].Hours
		for _, s := range spans[searchSpan(spans, first):] {
			if s.First > last {
				break
			}
			arena = append(arena, index.HourSpan{First: max(s.First, first), Last: min(s.Last, last)})
		}
		p.hours[i] = arena[start:len(arena):len(arena)]
	}
}
