package pebble

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// cursor walks the cells of one partition that lie in the ranges of a read, in the read's direction.
type cursor struct {
	it       *pebble.Iterator
	rule     int // of the read, for the partition's family
	h        cellkey.Header
	hourKeys bool
	reverse  bool
	ranges   []cellkey.Range
	picked   []int32 // which of the ranges to read; nil is all
	at       int     // the range in or before which the cursor stands

	valid bool
	place []byte // of the cell's row
	key   []byte // physical key under the iterator; valid until it moves
	split int
	seek  []byte // scratch
	bound []byte // scratch
	// day chunks is nil in partitions that have none.
	dayChunks *dayChunkCursor
}

// count returns the number of ranges to read.
func (c *cursor) count() int {
	if c.picked != nil {
		return len(c.picked)
	}
	return len(c.ranges)
}

// rangeAt returns the i-th range to read.
func (c *cursor) rangeAt(i int) *cellkey.Range {
	if c.picked != nil {
		i = int(c.picked[i])
	}
	return &c.ranges[i]
}

// open restricts the iterator to the partition's part that the ranges span, and moves to the first cell.
func (c *cursor) open() error {
	first, last := c.rangeAt(0), c.rangeAt(c.count()-1)
	c.seek, c.bound = c.seekStart(c.seek[:0], first), last.SeekEnd(c.bound[:0], c.h)
	c.it.SetBounds(c.seek, c.bound)
	if c.reverse {
		c.at = c.count() - 1
		return c.settle(c.it.Last())
	}
	c.at = 0
	return c.settle(c.it.First())
}

// SeekStart appends the key from which to read a range.
func (c *cursor) seekStart(dst []byte, r *cellkey.Range) []byte {
	if c.dayChunks != nil {
		return r.SeekPrefix(dst, c.h)
	}
	return r.SeekStart(dst, c.h)
}

// next moves by one cell.
func (c *cursor) next() error {
	if c.dayChunks != nil {
		return c.dayChunks.next(c)
	}
	return c.settle(c.step())
}

// step moves the iterator.
func (c *cursor) step() bool {
	if c.reverse {
		return c.it.Prev()
	}
	return c.it.Next()
}

// settle takes the cell under the iterator, or seeks to the next range that has one.
func (c *cursor) settle(ok bool) error {
	if c.dayChunks != nil {
		return c.dayChunks.settle(c, ok)
	}
	for ok {
		if err := c.take(); err != nil {
			return err
		}
		in, seek := c.locate()
		if in {
			c.valid = true
			return nil
		}
		if !seek {
			break
		}
		r := c.rangeAt(c.at)
		if c.reverse {
			c.seek = r.SeekEnd(c.seek[:0], c.h)
			ok = c.it.SeekLT(c.seek)
		} else {
			c.seek = r.SeekStart(c.seek[:0], c.h)
			ok = c.it.SeekGE(c.seek)
		}
	}
	c.valid = false
	return c.it.Error()
}

// take reads the iterator's key.
func (c *cursor) take() error {
	c.key = c.it.Key()
	c.split = cellkey.Split(c.key)
	end := c.split
	if c.hourKeys {
		end += cellkey.HourBytes
	}
	if end < cellkey.HeaderBytes || end >= len(c.key) {
		return cellkey.Damaged(c.key)
	}
	c.place = c.key[cellkey.HeaderBytes:end]
	return nil
}

// address returns qualifier and time of the cell; ok is false if its key is damaged. They are valid until the cursor
// moves.
func (c *cursor) address() (qualifier []byte, tsMs int64, ok bool) {
	if b := c.dayChunks; b != nil && b.current {
		return b.open.qualifier(b.i), cellkey.HourEndMs(cellkey.HourOf(c.place[len(c.place)-cellkey.HourBytes:])), true
	}
	k, ok := cellkey.Parse(c.key, c.hourKeys)
	return k.Qualifier, k.TsMs, ok
}

// appendValue appends the value of the cell.
func (c *cursor) appendValue(dst []byte, kind storage.FamilyKind) ([]byte, error) {
	if b := c.dayChunks; b != nil && b.current {
		return b.open.appendValue(dst, b.i)
	}
	value, err := c.it.ValueAndErr()
	if err != nil {
		return dst, err
	}
	if kind != storage.Plain {
		if _, _, err := cellkey.ParseOperand(value); err != nil {
			return dst, err
		}
		value = value[1:]
	}
	return append(dst, value...), nil
}

// locate moves at to the range that the key is in or must be sought in; neither means that no range is left.
func (c *cursor) locate() (in, seek bool) {
	if c.reverse {
		for ; c.at >= 0; c.at-- {
			r := c.rangeAt(c.at)
			if r.PastEnd(c.place) {
				return false, true
			}
			if !r.BeforeStart(c.place) {
				return true, false
			}
		}
		return false, false
	}
	for ; c.at < c.count(); c.at++ {
		r := c.rangeAt(c.at)
		if !r.PastEnd(c.place) {
			if r.BeforeStart(c.place) {
				return false, true
			}
			return true, false
		}
	}
	return false, false
}

// less orders valid cursors by the row they stand at, in the read's direction, then by family and day.
func (c *cursor) less(o *cursor) bool {
	order := bytes.Compare(c.place, o.place)
	if c.reverse {
		order = -order
	}
	return order < 0
}

// cursorHeap has the cursor with the next row on top.
type cursorHeap []*cursor

func (h cursorHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down restores the heap after the cursor at i has moved.
func (h cursorHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].less(h[child]) {
			child++
		}
		if !h[child].less(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// fix restores the heap after the top has moved, and drops it if it is exhausted.
func (h *cursorHeap) fix() {
	old := *h
	if !old[0].valid {
		n := len(old) - 1
		old[0] = old[n]
		*h = old[:n]
	}
	h.down(0)
}
