package cursor

import (
	"bytes"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage/pebble/cellkey"
	"halite/storage/pebble/daychunk"
)

// dayChunkCursor is what a cursor needs more in a partition with day chunks: it merges the cells of a prefix's day chunk with
// those that lie beside it. Of two at one address the one beside the day chunk is the later and wins.
type dayChunkCursor struct {
	open  daychunk.Reader
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

// Pool keeps idle day chunk cursors of a store.
type Pool struct {
	Codec *daychunk.Codec
	idle  sync.Pool // of *dayChunkCursor
}

// valueBytesKept is how large the buffers of an idle cursor may be.
const valueBytesKept = 1 << 20

// get returns an idle cursor.
func (p *Pool) get() *dayChunkCursor {
	if b, ok := p.idle.Get().(*dayChunkCursor); ok {
		return b
	}
	return &dayChunkCursor{open: daychunk.Reader{Codec: p.Codec}}
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

// prefix is that of the open day chunk, or of the one that was looked for.
func (b *dayChunkCursor) prefix() []byte { return b.place[:len(b.place)-cellkey.HourBytes] }

// next moves by one cell.
func (b *dayChunkCursor) next(c *Cursor) error {
	if b.current {
		b.turn(c)
		return b.settle(c, b.ok)
	}
	return b.settle(c, c.step())
}

// turn goes on to the day chunk's next cell.
func (b *dayChunkCursor) turn(c *Cursor) {
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

// settle chooses the next cell of both sources, or seeks to the next range that has one; ok tells whether the iterator
// stands at a key.
func (b *dayChunkCursor) settle(c *Cursor, ok bool) error {
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

// arrive opens the day chunk that the iterator has come to, and tells whether the iterator stands at a cell that may be
// next. While an open day chunk has cells left, cells of other prefixes may not.
func (b *dayChunkCursor) arrive(c *Cursor) (plain bool, err error) {
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
			// In reverse the cells behind the day chunk have it open already.
			if !known || !c.Reverse || !b.probe {
				if err := b.take(c, c.Iter); err != nil {
					return false, err
				}
			}
			b.ok = c.step()
			continue
		}
		if c.Reverse && (!known || !b.probe) {
			if err := b.look(c); err != nil {
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

// take opens the day chunk under an iterator, whose key is in c.key.
func (b *dayChunkCursor) take(c *Cursor, it *pebble.Iterator) error {
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

// setPrefix makes the prefix of c.key that of the day chunk cursor.
func (b *dayChunkCursor) setPrefix(c *Cursor) {
	b.first = daychunk.NewestHour(c.Header.Day())
	b.place = append(append(b.place[:0], c.Key[cellkey.HeaderBytes:c.split]...), 0, 0, 0)
	b.probe = true
}

// look opens the day chunk of the prefix of c.key, if there is one.
func (b *dayChunkCursor) look(c *Cursor) error {
	if b.side == nil {
		side, err := c.Iter.Clone(pebble.CloneOptions{})
		if err != nil {
			return err
		}
		b.side = side
	}
	c.seek = append(append(c.seek[:0], c.Key[:c.split]...), cellkey.DayChunkSuffix)
	if b.side.SeekGE(c.seek) && bytes.Equal(b.side.Key(), c.seek) {
		return b.take(c, b.side)
	}
	b.setPrefix(c)
	b.left = false
	return b.side.Error()
}

// choose makes the first of the two cells in turn the cursor's.
func (b *dayChunkCursor) choose(c *Cursor, plain bool) {
	b.current = b.left
	if plain {
		c.Row = c.Key[cellkey.HeaderBytes : c.split+cellkey.HourBytes]
		if !b.left {
			return
		}
		switch order := b.compare(c); {
		case order == 0:
			b.turn(c)
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

// compare tells the order of the day chunk's cell in turn and the iterator's, both of one prefix.
func (b *dayChunkCursor) compare(c *Cursor) int {
	if order := bytes.Compare(b.place, c.Row); order != 0 {
		return order
	}
	var buf [64]byte
	suffix := append(append(buf[:0], b.place[len(b.place)-cellkey.HourBytes:]...), b.open.Qualifier(b.i)...)
	return cellkey.CompareSuffixes(cellkey.AppendTrailer(suffix, 0, cellkey.KindHourEnd), c.Key[c.split:])
}

// skip goes to the range that locate found. Within one prefix the day chunk stays open and the iterator need not come to
// it again.
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
		b.turn(c)
	}
	switch {
	case !b.ok:
	case c.Reverse && cellkey.Compare(c.Iter.Key(), c.seek) >= 0:
		b.ok = c.Iter.SeekLT(c.seek)
	case !c.Reverse && cellkey.Compare(c.Iter.Key(), c.seek) < 0:
		b.ok = c.Iter.SeekGE(c.seek)
	}
}
