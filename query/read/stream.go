package read

import (
	"context"
	"errors"
	"math"

	"halite/keyschema"
	"halite/query/hours"
	"halite/storage/index"
)

// ErrClosed is the error of a read after Close.
var ErrClosed = errors.New("read was closed")

// Stream reads the series of a batch slice by slice: spans of whole hours, of whole days if possible, ascending and without
// gaps. So memory never holds a whole long range. A Stream belongs to one goroutine.
type Stream struct {
	batch *BatchReader
	// next and last bound the hours that are not read yet. A slice has about hours of them.
	next, last, hours int64
	started, closed   bool
}

// Open begins to read batch i with its head. Close the Stream when done. Its batches stay valid until they are released.
func (s *Selection) Open(ctx context.Context, i int) (*Stream, error) {
	first, end := s.bounds[i].first, len(s.series)
	if i+1 < len(s.bounds) {
		end = s.bounds[i+1].first
	}
	b, err := s.readHead(ctx, first, end, !s.bounds[i].streamed)
	if err != nil {
		return nil, err
	}
	st := &Stream{batch: b, next: math.MaxInt64, last: math.MinInt64, hours: keyschema.HourMax + 1}
	if bound := s.bounds[i]; bound.streamed {
		st.hours = sliceHours(s.kinds.batchRows(s.session.reader.opts.BatchRowsMax), max(1, bound.dayRows))
	}
	for i := range b.series {
		if spans := b.series[i].Hours; len(spans) > 0 {
			st.next, st.last = min(st.next, spans[0].First), max(st.last, spans[len(spans)-1].Last)
		}
	}
	return st, nil
}

// Read reads batch i as a whole: the head, then the table. It has a column for each series of the batch, in order, even if the
// series has no samples. Release the batch when done.
func (s *Selection) Read(ctx context.Context, i int) (*Batch, error) {
	st, err := s.Open(ctx, i)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	st.hours = keyschema.HourMax + 1
	return st.Next(ctx)
}

// ReadSlices reads batch i slice by slice, and calls visit with each slice, which is valid until visit returns. After an error of
// visit it ends with that error.
func (s *Selection) ReadSlices(ctx context.Context, i int, visit func(slice *Batch) error) error {
	st, err := s.Open(ctx, i)
	if err != nil {
		return err
	}
	defer st.Close()
	for st.More() {
		slice, err := st.Next(ctx)
		if err != nil {
			return err
		}
		err = visit(slice)
		slice.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// ReadRows reads the rows of the hours in series, instead of the hours of the batch's series, and joins them with the head.
// It hides samples that are older than the retention at this moment.
func (b *BatchReader) ReadRows(ctx context.Context, series []index.Series) (*Batch, error) {
	sel := *b.sel
	sel.retainNow()
	sel.window.MinMs, sel.window.MaxMs = max(b.sel.window.MinMs, sel.window.MinMs), b.sel.window.MaxMs
	rows := *b
	rows.sel, rows.series, rows.prefixes = &sel, series, nil
	t := timeSlice{batch: &rows, window: sel.window}
	return t.read(ctx)
}

// retainNow hides samples that are older than their retention at this moment.
func (s *Selection) retainNow() {
	s.nowMs, s.unretained = s.session.reader.opts.Now().UnixMilli(), false
	s.window, s.oldestMs = s.session.reader.clip(s.window, s.session.ages)
}

// Only returns the selection of series i alone. It reads the rows of all hours of the window unless sparse is set.
func (s *Selection) Only(i int, sparse bool) (*Selection, error) {
	one := &Selection{request: s.request, session: s.session, version: s.version}
	one.retainNow()
	if !sparse {
		one.hours = nil
	}
	if one.window.Empty() {
		return one, nil
	}
	series := s.series[i]
	first, last := keyschema.HourOf(one.window.MinMs), keyschema.HourOf(one.window.MaxMs)
	series.Hours = hours.Intersect(series.Hours, []index.HourSpan{{First: first, Last: last}})
	return one, one.setSeries([]index.Series{series})
}

// sliceHours is the number of hours of a slice: whole days, or less than one.
func sliceHours(rows, dayRows int) int64 {
	if days := rows / dayRows; days > 0 {
		return int64(days) * keyschema.DayHours
	}
	return max(1, int64(rows)*keyschema.DayHours/int64(dayRows))
}

// end returns the last hour of the next slice. A slice does not divide a day if possible, because each day is one read.
func (st *Stream) end() int64 {
	from := st.next
	if st.hours >= keyschema.DayHours {
		from -= from % keyschema.DayHours
	}
	return min(from+st.hours-1, st.last)
}

// More reports whether Next has another slice. There is at least one.
func (st *Stream) More() bool { return !st.started || st.next <= st.last }

// Next reads the next slice: the samples of all series of the batch within its span, including series without samples.
// Release it when done.
func (st *Stream) Next(ctx context.Context) (*Batch, error) {
	if st.closed {
		return nil, ErrClosed
	}
	t := timeSlice{batch: st.batch, window: st.batch.sel.window}
	first, last := st.next, st.end()
	if st.started {
		t.window.MinMs = max(t.window.MinMs, keyschema.HourStartMs(first))
	}
	if last < st.last {
		t.window.MaxMs = min(t.window.MaxMs, keyschema.HourStartMs(last+1)-1)
	}
	if t.whole = !st.started && last >= st.last; !t.whole {
		t.narrow(first, last)
	}
	st.started, st.next = true, last+1
	return t.read(ctx)
}

// Close releases the memory of the Stream.
func (st *Stream) Close() {
	if !st.closed {
		st.closed = true
		st.batch.Close()
	}
}
