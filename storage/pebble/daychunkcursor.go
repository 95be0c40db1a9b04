package pebble

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/cellkey"
)

// dayChunkCursor is what a cursor needs more in a partition with day chunks: it merges the cells of a prefix's day chunk with
// those that lie beside it. Of two at one address the one beside the day chunk is the later and wins.
type dayChunkCursor struct {
	open  dayChunk
	value []byte // the open day chunk's; the iterator moves on
	place []byte // of the day chunk's cell in turn: the prefix, which stays, and the hour
	first uint32 // value of the day's newest hour
	i     int    // the cell in turn
	left  bool   // there is one
	probe bool   // reverse: place has a prefix whose day chunk has been looked for
	ok    bool   // the iterator stands at a key
	// beyond says that the iterator's key is none of the open day chunk's prefix: it need not be looked at while cells are
	// left.
	beyond bool
	// current says that the cursor stands at the day chunk's cell, not at the iterator's.
	current bool
	side    *pebble.Iterator // reverse: finds the day chunk before the cells that follow it; made when needed
}

// dayChunkCursor returns an idle one, or nil for a partition without day chunks.
func (s *Store) dayChunkCursor(state *dayState) *dayChunkCursor {
	if !state.hasDayChunks.Load() {
		return nil
	}
	if b, ok := s.idle.Get().(*dayChunkCursor); ok {
		return b
	}
	return &dayChunkCursor{open: dayChunk{codec: s.opts.DayChunks}}
}

// release gives a day chunk cursor back.
func (s *Store) release(b *dayChunkCursor) error {
	var err error
	if b.side != nil {
		err = b.side.Close()
	}
	if cap(b.value) <= arenaBytesKept {
		b.place, b.side, b.left, b.probe, b.ok, b.current, b.beyond = b.place[:0], nil, false, false, false, false, false
		s.idle.Put(b)
	}
	return err
}

// prefix is that of the open day chunk, or of the one that was looked for.
func (b *dayChunkCursor) prefix() []byte { return b.place[:len(b.place)-cellkey.HourBytes] }

// next moves by one cell.
func (b *dayChunkCursor) next(c *cursor) error {
	if b.current {
		b.turn(c)
		return b.settle(c, b.ok)
	}
	return b.settle(c, c.step())
}

// turn goes on to the day chunk's next cell.
func (b *dayChunkCursor) turn(c *cursor) {
	if c.reverse {
		b.i--
		b.left = b.i >= 0
	} else {
		b.i++
		b.left = b.i < b.open.count()
	}
	b.setHour()
}

func (b *dayChunkCursor) setHour() {
	if !b.left {
		return
	}
	hour := b.first + uint32(b.open.hours[b.i])
	at := b.place[len(b.place)-cellkey.HourBytes:]
	at[0], at[1], at[2] = byte(hour>>16), byte(hour>>8), byte(hour)
}

// settle chooses the next cell of both sources, or seeks to the next range that has one; ok tells whether the iterator
// stands at a key.
func (b *dayChunkCursor) settle(c *cursor, ok bool) error {
	b.ok = ok
	for {
		plain, err := false, error(nil)
		if !b.left || !b.beyond {
			if plain, err = b.arrive(c); err != nil {
				return err
			}
		}
		// A later seek forgets the error of the iterator, so look at it first.
		if !b.ok {
			if err := c.it.Error(); err != nil {
				return err
			}
		}
		if !plain && !b.left {
			break
		}
		b.choose(c, plain)
		in, seek := c.locate()
		if in {
			c.valid = true
			return nil
		}
		if !seek {
			break
		}
		b.skip(c)
	}
	c.valid = false
	return c.it.Error()
}

// arrive opens the day chunk that the iterator has come to, and tells whether the iterator stands at a cell that may be
// next. While an open day chunk has cells left, cells of other prefixes may not.
func (b *dayChunkCursor) arrive(c *cursor) (plain bool, err error) {
	b.beyond = false
	for b.ok {
		c.key = c.it.Key()
		c.split = cellkey.Split(c.key)
		if c.split < cellkey.HeaderBytes {
			return false, cellkey.Damaged(c.key)
		}
		prefix := c.key[cellkey.HeaderBytes:c.split]
		known := len(b.place) > 0 && bytes.Equal(prefix, b.prefix())
		if b.left && !known {
			b.beyond = true
			return false, nil
		}
		if cellkey.IsDayChunk(c.key, c.split) {
			// In reverse the cells behind the day chunk have it open already.
			if !known || !c.reverse || !b.probe {
				if err := b.take(c, c.it); err != nil {
					return false, err
				}
			}
			b.ok = c.step()
			continue
		}
		if c.reverse && (!known || !b.probe) {
			if err := b.look(c); err != nil {
				return false, err
			}
		}
		if c.split+cellkey.HourBytes >= len(c.key) {
			return false, cellkey.Damaged(c.key)
		}
		return true, nil
	}
	b.beyond = true
	return false, nil
}

// take opens the day chunk under an iterator, whose key is in c.key.
func (b *dayChunkCursor) take(c *cursor, it *pebble.Iterator) error {
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	b.value = append(b.value[:0], value...)
	if err := b.open.open(b.value); err != nil {
		return err
	}
	b.setPrefix(c)
	b.i, b.left = 0, true
	if c.reverse {
		b.i = b.open.count() - 1
	}
	b.setHour()
	return nil
}

// setPrefix makes the prefix of c.key that of the day chunk cursor.
func (b *dayChunkCursor) setPrefix(c *cursor) {
	b.first = newestHour(c.h.Day())
	b.place = append(append(b.place[:0], c.key[cellkey.HeaderBytes:c.split]...), 0, 0, 0)
	b.probe = true
}

// look opens the day chunk of the prefix of c.key, if there is one.
func (b *dayChunkCursor) look(c *cursor) error {
	if b.side == nil {
		side, err := c.it.Clone(pebble.CloneOptions{})
		if err != nil {
			return err
		}
		b.side = side
	}
	c.seek = append(append(c.seek[:0], c.key[:c.split]...), cellkey.DayChunkSuffix)
	if b.side.SeekGE(c.seek) && bytes.Equal(b.side.Key(), c.seek) {
		return b.take(c, b.side)
	}
	b.setPrefix(c)
	b.left = false
	return b.side.Error()
}

// choose makes the first of the two cells in turn the cursor's.
func (b *dayChunkCursor) choose(c *cursor, plain bool) {
	b.current = b.left
	if plain {
		c.place = c.key[cellkey.HeaderBytes : c.split+cellkey.HourBytes]
		if !b.left {
			return
		}
		switch order := b.compare(c); {
		case order == 0:
			b.turn(c)
			b.current = false
		case c.reverse:
			b.current = order > 0
		default:
			b.current = order < 0
		}
	}
	if b.current {
		c.place = b.place
	}
}

// compare tells the order of the day chunk's cell in turn and the iterator's, both of one prefix.
func (b *dayChunkCursor) compare(c *cursor) int {
	if order := bytes.Compare(b.place, c.place); order != 0 {
		return order
	}
	var buf [64]byte
	suffix := append(append(buf[:0], b.place[len(b.place)-cellkey.HourBytes:]...), b.open.qualifier(b.i)...)
	return cellkey.CompareSuffixes(cellkey.AppendTrailer(suffix, 0, cellkey.KindHourEnd), c.key[c.split:])
}

// skip goes to the range that locate found. Within one prefix the day chunk stays open and the iterator need not come to
// it again.
func (b *dayChunkCursor) skip(c *cursor) {
	r := c.rangeAt(c.at)
	bound := r.Start
	if c.reverse {
		bound = r.End
	}
	within := bound.EndsInHour && bytes.Equal(bound.Prefix(), c.place[:len(c.place)-cellkey.HourBytes])
	if !within {
		b.left, b.probe, b.beyond, b.place = false, false, false, b.place[:0]
		if c.reverse {
			c.seek = r.SeekEnd(c.seek[:0], c.h)
			b.ok = c.it.SeekLT(c.seek)
		} else {
			c.seek = r.SeekPrefix(c.seek[:0], c.h)
			b.ok = c.it.SeekGE(c.seek)
		}
		return
	}
	c.seek = bound.AppendSeek(c.seek[:0], c.h)
	for b.left && (c.reverse && r.PastEnd(b.place) || !c.reverse && r.BeforeStart(b.place)) {
		b.turn(c)
	}
	switch {
	case !b.ok:
	case c.reverse && cellkey.Compare(c.it.Key(), c.seek) >= 0:
		b.ok = c.it.SeekLT(c.seek)
	case !c.reverse && cellkey.Compare(c.it.Key(), c.seek) < 0:
		b.ok = c.it.SeekGE(c.seek)
	}
}
