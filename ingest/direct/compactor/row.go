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
	// rowSinglesMax bounds the single samples that one pass packs into a chunk, because one mutation deletes all of them.
	rowSinglesMax = 50_000
	// chunkSamplesMax bounds a chunk.
	chunkSamplesMax = 1 << 18
)

// row is one row and the changes that packing makes to it.
type row struct {
	key    []byte
	hour   int64
	tsMs   []int64
	values []float64
	// remove deletes the chunks and single samples whose samples are in tsMs and values. It also deletes chunks that have no
	// samples left.
	remove  []storage.Entry
	bytes   int // size of their values
	deleted bool
	recent  bool // a recent deletion removed samples, and running queries may not know the deletion
	chunks  bool
	lastSeq uint32 // highest number of a chunk, if there is one
	after   uint32 // number of the last deletion before a single sample
	singles int
	more    bool // the row has more than rowSinglesMax single samples
	unmark  []storage.Entry
}

// read takes the cells of a row. stored has all cells, and left has the cells that remain after deletions.
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
	var merged chunk.Row
	merged.Reset(keyschema.HourStartMs(r.hour))
	removed := r.remove
	for _, c := range left.Cells {
		for len(removed) > 0 && bytes.Compare(removed[0].Qualifier, c.Qualifier) < 0 {
			removed = removed[1:]
		}
		if len(removed) == 0 || !bytes.Equal(removed[0].Qualifier, c.Qualifier) {
			continue // a mark, or a sample beyond rowSinglesMax
		}
		if err := merged.Add(c.Qualifier, c.Value); err != nil {
			return fmt.Errorf("%w: row %q: %w", storage.ErrCorrupt, r.key, err)
		}
	}
	r.tsMs, r.values = merged.Columns()
	return nil
}

// replace writes the samples of a row as chunks and deletes their former cells. It does nothing if another process has
// written to the row.
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

// fence removes the marks of a row, so that the next pass can pack it. Another compactor may have read the row before the
// marked samples came. It must not find the row without marks. So fence also writes a chunk with the samples of the row. The
// chunk does no harm: single samples win over it while they exist, and only a later chunk replaces them.
//
// A row without samples gets no chunk. No other compactor can write one, because a compactor that does not know the deletion
// has given up by now.
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

// chunks returns the cells of new chunks with the samples of a row.
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

// unless changes a row if the row has no cell between the chunks read and end. done is true if the change took effect. If
// the reply is lost, done is false.
func (p *Compactor) unless(ctx context.Context, r *row, end []byte, entries []storage.Entry) (done bool, err error) {
	since := filter(r.hour, keyschema.AppendChunkQualifier(nil, 0))
	if r.chunks {
		since.QualifierStart = keyschema.AppendChunkQualifier(nil, r.lastSeq+1)
	}
	since.QualifierEnd = end
	changed, err := p.opts.Data.CheckAndApply(ctx, r.key, since, storage.RowMutation{}, storage.RowMutation{Entries: entries})
	switch {
	case errors.Is(err, storage.ErrUnavailable): // the next run finds out whether the change took effect
		return false, nil
	case changed:
		p.beat.Inc()
	}
	return err == nil && !changed, err
}
