package cursor

import (
	"bytes"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/daycells"
)

// dayChunkCursor is the part of a Cursor for a partition with day chunks. It merges the cells in the day chunk of a prefix
// with the cells outside it. If two cells have the same address, the one outside the day chunk is later and wins.
type dayChunkCursor struct {
	open  daycells.Reader
	value []byte // value of the open day chunk; a copy, because the iterator moves on
	place []byte // encoded row of the next cell in the day chunk
	first uint32 // value of the day's newest hour
	i     int    // index of the next cell in the day chunk
	left  bool   // the day chunk has a next cell
	probe bool   // reverse: the day chunk for the prefix of place was looked up
	ok    bool   // the iterator stands at a key
	// beyond means that the iterator has left the prefix of the open day chunk. The cursor does not compare the iterator's
	// key while the day chunk has cells left.
	beyond bool
	// current means that the cursor is at a cell of the day chunk, not at the iterator's cell.
	current bool
	side    *pebble.Iterator // reverse: finds the day chunk of a prefix, which sorts before the cells; created when needed
}

// Pool keeps idle cursors of day chunks for reuse.
type Pool struct {
	Codec *daycells.Codec
	idle  sync.Pool // of *dayChunkCursor
}

// valueBytesKept bounds the value buffer of an idle cursor.
const valueBytesKept = 1 << 20

// get returns an idle cursor.
func (p *Pool) get() *dayChunkCursor {
	if b, ok := p.idle.Get().(*dayChunkCursor); ok {
		return b
	}
	return &dayChunkCursor{open: daycells.Reader{Codec: p.Codec}}
}

// put takes a cursor back.
func (p *Pool) put(b *dayChunkCursor) error {
	var err error
	if b.side != nil {
		err = b.side.Close()
	}
	if cap(b.value) <= valueBytesKept {
		b.place, b.side, b.left, b.probe, b.ok, b.current, b.beyond = b.place[:0], nil, false, false, false, false, false
		p.idle.Put(b)
	}
	return err
}

// prefix returns the prefix of the open day chunk, or of the last look-up.
func (b *dayChunkCursor) prefix() []byte { return b.place[:len(b.place)-cellkey.HourBytes] }

// next moves by one cell.
func (b *dayChunkCursor) next(c *Cursor) error {
	if b.current {
		b.advance(c)
		return b.settle(c, b.ok)
	}
	return b.settle(c, c.step())
}

// advance goes to the next cell of the day chunk.
func (b *dayChunkCursor) advance(c *Cursor) {
	if c.Reverse {
		b.i--
		b.left = b.i >= 0
	} else {
		b.i++
		b.left = b.i < b.open.Count()
	}
	b.setHour()
}

func (b *dayChunkCursor) setHour() {
	if !b.left {
		return
	}
	hour := b.first + uint32(b.open.Hours[b.i])
	at := b.place[len(b.place)-cellkey.HourBytes:]
	at[0], at[1], at[2] = byte(hour>>16), byte(hour>>8), byte(hour)
}

// settle chooses the next cell of both sources, or seeks to the next range that has a cell. ok reports whether the iterator
// is at a key.
func (b *dayChunkCursor) settle(c *Cursor, ok bool) error {
	b.ok = ok
	for {
		plain, err := false, error(nil)
		if !b.left || !b.beyond {
			if plain, err = b.openHere(c); err != nil {
				return err
			}
		}
		// A later seek clears the error of the iterator, so check it first.
		if !b.ok {
			if err := c.Iter.Error(); err != nil {
				return err
			}
		}
		if !plain && !b.left {
			break
		}
		b.choose(c, plain)
		in, seek := c.locate()
		if in {
			c.Valid = true
			return nil
		}
		if !seek {
			break
		}
		b.skip(c)
	}
	c.Valid = false
	return c.Iter.Error()
}

// openHere opens the day chunk under the iterator. It reports whether the iterator is at a cell that may be next. While the
// open day chunk has cells left, cells of other prefixes cannot be next.
func (b *dayChunkCursor) openHere(c *Cursor) (plain bool, err error) {
	b.beyond = false
	for b.ok {
		c.Key = c.Iter.Key()
		c.split = cellkey.Split(c.Key)
		if c.split < cellkey.HeaderBytes {
			return false, cellkey.Damaged(c.Key)
		}
		prefix := c.Key[cellkey.HeaderBytes:c.split]
		known := len(b.place) > 0 && bytes.Equal(prefix, b.prefix())
		if b.left && !known {
			b.beyond = true
			return false, nil
		}
		if cellkey.IsDayChunk(c.Key, c.split) {
			// In reverse, the cells after the day chunk have already opened it.
			if !known || !c.Reverse || !b.probe {
				if err := b.load(c, c.Iter); err != nil {
					return false, err
				}
			}
			b.ok = c.step()
			continue
		}
		if c.Reverse && (!known || !b.probe) {
			if err := b.openByPrefix(c); err != nil {
				return false, err
			}
		}
		if c.split+cellkey.HourBytes >= len(c.Key) {
			return false, cellkey.Damaged(c.Key)
		}
		return true, nil
	}
	b.beyond = true
	return false, nil
}

// load opens the day chunk under the iterator. The key of the day chunk is c.Key.
func (b *dayChunkCursor) load(c *Cursor, it *pebble.Iterator) error {
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	b.value = append(b.value[:0], value...)
	if err := b.open.Open(b.value); err != nil {
		return err
	}
	b.setPrefix(c)
	b.i, b.left = 0, true
	if c.Reverse {
		b.i = b.open.Count() - 1
	}
	b.setHour()
	return nil
}

// setPrefix sets the prefix to the prefix of c.Key.
func (b *dayChunkCursor) setPrefix(c *Cursor) {
	b.first = daycells.NewestHour(c.Header.Day())
	b.place = append(append(b.place[:0], c.Key[cellkey.HeaderBytes:c.split]...), 0, 0, 0)
	b.probe = true
}

// openByPrefix opens the day chunk of c.Key's prefix, if there is one.
func (b *dayChunkCursor) openByPrefix(c *Cursor) error {
	if b.side == nil {
		side, err := c.Iter.Clone(pebble.CloneOptions{})
		if err != nil {
			return err
		}
		b.side = side
	}
	c.seek = append(append(c.seek[:0], c.Key[:c.split]...), cellkey.DayChunkSuffix)
	if b.side.SeekGE(c.seek) && bytes.Equal(b.side.Key(), c.seek) {
		return b.load(c, b.side)
	}
	b.setPrefix(c)
	b.left = false
	return b.side.Error()
}

// choose moves the cursor to the first of the two next cells.
func (b *dayChunkCursor) choose(c *Cursor, plain bool) {
	b.current = b.left
	if plain {
		c.Row = c.Key[cellkey.HeaderBytes : c.split+cellkey.HourBytes]
		if !b.left {
			return
		}
		switch order := b.compare(c); {
		case order == 0:
			b.advance(c)
			b.current = false
		case c.Reverse:
			b.current = order > 0
		default:
			b.current = order < 0
		}
	}
	if b.current {
		c.Row = b.place
	}
}

// compare compares the next cell of the day chunk with the iterator's cell. Both have one prefix.
func (b *dayChunkCursor) compare(c *Cursor) int {
	if order := bytes.Compare(b.place, c.Row); order != 0 {
		return order
	}
	var buf [64]byte
	suffix := append(append(buf[:0], b.place[len(b.place)-cellkey.HourBytes:]...), b.open.Qualifier(b.i)...)
	return cellkey.CompareSuffixes(cellkey.AppendTrailer(suffix, 0, cellkey.KindHourEnd), c.Key[c.split:])
}

// skip seeks to the range that locate found. Within one prefix, the day chunk stays open and the iterator does not return to
// it.
func (b *dayChunkCursor) skip(c *Cursor) {
	r := c.rangeAt(c.at)
	bound := r.Start
	if c.Reverse {
		bound = r.End
	}
	within := bound.EndsInHour && bytes.Equal(bound.Prefix(), c.Row[:len(c.Row)-cellkey.HourBytes])
	if !within {
		b.left, b.probe, b.beyond, b.place = false, false, false, b.place[:0]
		if c.Reverse {
			c.seek = r.SeekEnd(c.seek[:0], c.Header)
			b.ok = c.Iter.SeekLT(c.seek)
		} else {
			c.seek = r.SeekPrefix(c.seek[:0], c.Header)
			b.ok = c.Iter.SeekGE(c.seek)
		}
		return
	}
	c.seek = bound.AppendSeek(c.seek[:0], c.Header)
	for b.left && (c.Reverse && r.PastEnd(b.place) || !c.Reverse && r.BeforeStart(b.place)) {
		b.advance(c)
	}
	switch {
	case !b.ok:
	case c.Reverse && cellkey.Compare(c.Iter.Key(), c.seek) >= 0:
		b.ok = c.Iter.SeekLT(c.seek)
	case !c.Reverse && cellkey.Compare(c.Iter.Key(), c.seek) < 0:
		b.ok = c.Iter.SeekGE(c.seek)
	}
}
