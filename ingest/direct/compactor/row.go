package compactor

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"halite/keyschema"
	"halite/keyschema/chunk"
	"halite/storage"
)

const (
	// rowSinglesMax is the number of single samples that go into a chunk at a time: their deletions are one mutation.
	rowSinglesMax = 50_000
	// chunkSamplesMax bounds a chunk.
	chunkSamplesMax = 1 << 18
)

// row is what is to be done with a row.
type row struct {
	key    []byte
	hour   int64
	tsMs   []int64
	values []float64
	// remove are the chunks and single samples that tsMs and values hold, and those of which all was deleted.
	remove  []storage.Entry
	bytes   int // of their values
	deleted bool
	recent  bool // by a deletion that queries under way may not know
	chunks  bool
	lastSeq uint32 // of the chunks, if there are any
	after   uint32 // the last deletion that a single sample was written after
	singles int
	more    bool // single samples were left out
	unmark  []storage.Entry
}

// read takes the cells of a row as they are stored, and as they are left by deletions.
func (r *row) read(stored, left storage.Row) error {
	for _, c := range stored.Cells {
		q, err := keyschema.ParseQualifier(c.Qualifier)
		if err != nil {
			return fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, r.key, err)
		}
		remove := storage.Entry{
			Kind: storage.DeleteCells, Family: storage.FamilySamples, Qualifier: bytes.Clone(c.Qualifier),
		}
		switch q.Kind {
		case keyschema.KindMark:
			r.unmark = append(r.unmark, remove)
			continue
		case keyschema.KindChunk:
			r.chunks, r.lastSeq = true, max(r.lastSeq, q.Seq)
		case keyschema.KindSample:
			r.after = max(r.after, q.Seq)
			if r.singles == rowSinglesMax {
				r.more = true
				continue
			}
			r.singles++
		}
		r.remove, r.bytes = append(r.remove, remove), r.bytes+len(c.Value)
	}
	var fold chunk.Row
	fold.Reset(keyschema.HourStartMs(r.hour))
	removed := r.remove
	for _, c := range left.Cells {
		for len(removed) > 0 && bytes.Compare(removed[0].Qualifier, c.Qualifier) < 0 {
			removed = removed[1:]
		}
		if len(removed) == 0 || !bytes.Equal(removed[0].Qualifier, c.Qualifier) {
			continue // a mark, or one too many
		}
		if err := fold.Add(c.Qualifier, c.Value); err != nil {
			return fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, r.key, err)
		}
	}
	r.tsMs, r.values = fold.Columns() // fold is not used again
	return nil
}

// replace writes a row's samples as chunks and removes the cells that they were in, unless something came since.
func (s *pass) replace(ctx context.Context, r *row) error {
	chunks, size, err := s.chunks(r)
	if err != nil {
		return err
	}
	end := []byte{byte(keyschema.KindSample)} // chunks and marks
	done, err := s.p.unless(ctx, r, end, append(chunks, r.remove...))
	if err != nil || !done {
		s.leave(r)
		return err
	}
	s.done.Add(1)
	s.freed.Add(int64(r.bytes - size))
	if len(chunks) == 0 && !r.more {
		s.gone.Add(1)
	}
	s.p.rows.Inc()
	s.p.samples.Add(float64(r.singles))
	s.p.bytes.Add(float64(size))
	return nil
}

// fence takes the marks off a row, so that it can be read again and packed. Another compactor may have read the row before the
// samples came that the marks are of, and must not find it without marks: so a chunk is written as well, which says the same as
// the row does. It does no harm, for single samples win over it as long as they are there, and go only with a later chunk. Of a
// row without samples nobody else can write any either: who does not know yet what was deleted has given up by now.
func (s *pass) fence(ctx context.Context, r *row) error {
	chunks, _, err := s.chunks(r)
	if err != nil {
		return err
	}
	end := keyschema.AppendMarkQualifier(nil, 0) // chunks only
	done, err := s.p.unless(ctx, r, end, append(chunks, r.unmark...))
	if done {
		s.p.marksTaken.Add(float64(len(r.unmark)))
	}
	return err
}

// chunks are the cells of new chunks with a row's samples.
func (s *pass) chunks(r *row) (cells []storage.Entry, sizeBytes int, err error) {
	for from := 0; from < len(r.tsMs); from += chunkSamplesMax {
		to := min(from+chunkSamplesMax, len(r.tsMs))
		value, err := chunk.Append(nil, keyschema.HourStartMs(r.hour), r.tsMs[from:to], r.values[from:to])
		if err != nil {
			return nil, 0, fmt.Errorf("row %q: %w", r.key, err)
		}
		sizeBytes += len(value)
		cells = append(cells, storage.Entry{
			Kind: storage.SetCell, Family: storage.FamilySamples, TsMs: keyschema.HourCellMs(r.hour), Value: value,
			Qualifier: keyschema.AppendChunkQualifier(nil, s.seq+uint32(len(cells))),
		})
	}
	return cells, sizeBytes, nil
}

// unless changes a row if it has no cell between the chunks that were read and end; it reports whether it did for sure.
func (p *Compactor) unless(ctx context.Context, r *row, end []byte, entries []storage.Entry) (done bool, err error) {
	since := filter(r.hour, keyschema.AppendChunkQualifier(nil, 0))
	if r.chunks {
		since.QualifierStart = keyschema.AppendChunkQualifier(nil, r.lastSeq+1)
	}
	since.QualifierEnd = end
	changed, err := p.opts.Data.CheckAndApply(ctx, r.key, since, storage.RowMutation{}, storage.RowMutation{Entries: entries})
	switch {
	case errors.Is(err, storage.ErrUnavailable): // done or not, the next time will show
		return false, nil
	case changed:
		p.beat.Inc()
	}
	return err == nil && !changed, err
}
