package pebble

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/catalog"
	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/daycells"
	"halite/storage/pebble/partition"
)

// removeFromDayChunk removes the matching cells of a row from the day chunk of the row's series. r is the range of that row.
// The caller holds the row's lock, which covers the whole series.
func (w *rowWriter) removeFromDayChunk(
	it *pebble.Iterator, h cellkey.Header, r cellkey.Range, match func(*cellkey.Key) bool,
) error {
	prefix := r.Start.Prefix()
	w.scratch = cellkey.AppendDayChunk(w.scratch[:0], h, prefix)
	it.SetBounds(w.scratch, nil)
	if !it.First() || !bytes.Equal(it.Key(), w.scratch) {
		return it.Error()
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	b := daycells.Reader{Codec: w.t.store.opts.DayChunks}
	if err := b.Open(value); err != nil {
		return err
	}
	c := cellkey.Key{Header: h, Row: prefix[:len(prefix)-1]}
	newest := daycells.NewestHour(h.Day())
	first, end := cellkey.HourOf(r.Start.Row[len(prefix):]), cellkey.HourOf(r.End.Row[len(prefix):])
	left, changed, err := b.Without(func(hour uint8, qualifier []byte) bool {
		c.Hour = newest + uint32(hour)
		c.Qualifier, c.TsMs = qualifier, cellkey.HourEndMs(c.Hour)
		return c.Hour >= first && c.Hour < end && (match == nil || match(&c))
	})
	if err != nil || !changed {
		return err
	}
	return putDayChunk(w.batch, w.scratch, left)
}

// putDayChunk writes the remaining day chunk, or deletes it if nothing remains.
func putDayChunk(b *pebble.Batch, key, left []byte) error {
	if len(left) == 0 {
		return b.Delete(key, nil)
	}
	return b.Set(key, left, nil)
}

// removeCell deletes one cell of a day that may have day chunks.
func (w *rowWriter) removeCell(f *partition.Family, key []byte, cell *storage.Cell) error {
	return w.remove(key, f.Name, func(c *cellkey.Key) bool {
		return c.TsMs == cell.TsMs && bytes.Equal(c.Qualifier, cell.Qualifier)
	}, cell.TsMs, cell.TsMs+1)
}

// dropFromDayChunks completes the deletion of a row range that starts or ends between two hours of a series. The batch
// already has the range deletion. dropFromDayChunks rewrites the day chunks at both ends without the cells inside the range.
// The caller holds all locks.
func (t *Table) dropFromDayChunks(b *pebble.Batch, h cellkey.Header, r cellkey.Range) error {
	var before []byte
	for _, bound := range []cellkey.Bound{r.Start, r.End} {
		if !bound.EndsInHour || bytes.Equal(bound.Prefix(), before) {
			continue
		}
		before = bound.Prefix()
		key := cellkey.AppendDayChunk(nil, h, before)
		value, closer, err := t.store.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		left, err := t.dayChunkOutside(value, h, before, r)
		if err = errors.Join(err, closer.Close()); err != nil {
			return err
		}
		if err := putDayChunk(b, key, left); err != nil {
			return err
		}
	}
	return nil
}

// dayChunkOutside returns the day chunk of a prefix without the cells inside a range.
func (t *Table) dayChunkOutside(value []byte, h cellkey.Header, prefix []byte, r cellkey.Range) ([]byte, error) {
	o := daycells.Reader{Codec: t.store.opts.DayChunks}
	if err := o.Open(value); err != nil {
		return nil, err
	}
	place := append(append([]byte(nil), prefix...), 0, 0, 0)
	newest := daycells.NewestHour(h.Day())
	left, changed, err := o.Without(func(hour uint8, _ []byte) bool {
		v := newest + uint32(hour)
		at := place[len(prefix):]
		at[0], at[1], at[2] = byte(v>>16), byte(v>>8), byte(v)
		return !r.BeforeStart(place) && !r.PastEnd(place)
	})
	if err != nil || changed {
		return left, err
	}
	return bytes.Clone(value), nil
}

// checkCodec fails if a table has day chunks of another codec.
func (s *Store) checkCodec(rec *catalog.Table) error {
	switch {
	case rec.DayChunkCodec == "":
		return nil
	case s.opts.DayChunks == nil:
		return fmt.Errorf("%w: table %s has day chunks of codec %q, but the options have no codec",
			storage.ErrSchemaMismatch, rec.Name, rec.DayChunkCodec)
	case s.opts.DayChunks.Name != rec.DayChunkCodec:
		return fmt.Errorf("%w: table %s has day chunks of codec %q, but the options have codec %q", storage.ErrSchemaMismatch,
			rec.Name,
			rec.DayChunkCodec, s.opts.DayChunks.Name)
	}
	return nil
}
