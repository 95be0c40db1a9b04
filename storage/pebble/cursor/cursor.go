package cursor

import (
	"bytes"
	"cmp"

	"github.com/cockroachdb/pebble/v2"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Cursor walks the cells of one partition that lie in the ranges of a read, in the direction of the read.
type Cursor struct {
	Iter    *pebble.Iterator
	Rule    int // index of the family's rule in the read
	Header  cellkey.Header
	Layout  cellkey.Layout
	Reverse bool
	Ranges  []cellkey.Range
	Picked  []int32 // indexes of the ranges to read; nil means all
	at      int     // the range that contains the cursor or follows it

	Valid bool
	Row   []byte // encoded row of the cell
	Key   []byte // key of the iterator; valid until it moves
	split int
	seek  []byte // scratch
	bound []byte // scratch
	// dayChunks is nil in a partition without day chunks.
	dayChunks *dayChunkCursor
	pool      *Pool
}

// WithDayChunks makes the cursor merge the day chunks of its partition.
func (c *Cursor) WithDayChunks(p *Pool) { c.pool, c.dayChunks = p, p.get() }

// InDayChunk reports whether the cursor is at a cell of a day chunk.
func (c *Cursor) InDayChunk() bool { return c.dayChunks != nil && c.dayChunks.current }

// Close closes the iterator and returns pooled memory.
func (c *Cursor) Close() error {
	var err error
	if c.Iter != nil {
		err = c.Iter.Close()
	}
	if c.dayChunks != nil {
		err = cmp.Or(err, c.pool.put(c.dayChunks))
	}
	c.Iter, c.dayChunks = nil, nil
	return err
}

// count returns the number of ranges to read.
func (c *Cursor) count() int {
	if c.Picked != nil {
		return len(c.Picked)
	}
	return len(c.Ranges)
}

// rangeAt returns the i-th range to read.
func (c *Cursor) rangeAt(i int) *cellkey.Range {
	if c.Picked != nil {
		i = int(c.Picked[i])
	}
	return &c.Ranges[i]
}

// Open restricts the iterator to the part of the partition that the ranges cover, and moves to the first cell.
func (c *Cursor) Open() error {
	first, last := c.rangeAt(0), c.rangeAt(c.count()-1)
	c.seek, c.bound = c.seekStart(c.seek[:0], first), last.SeekEnd(c.bound[:0], c.Header)
	c.Iter.SetBounds(c.seek, c.bound)
	if c.Reverse {
		c.at = c.count() - 1
		return c.settle(c.Iter.Last())
	}
	c.at = 0
	return c.settle(c.Iter.First())
}

// seekStart appends the key from which to read a range.
func (c *Cursor) seekStart(dst []byte, r *cellkey.Range) []byte {
	if c.dayChunks != nil {
		return r.SeekPrefix(dst, c.Header)
	}
	return r.SeekStart(dst, c.Header)
}

// Next moves by one cell.
func (c *Cursor) Next() error {
	if c.dayChunks != nil {
		return c.dayChunks.next(c)
	}
	return c.settle(c.step())
}

// step moves the iterator.
func (c *Cursor) step() bool {
	if c.Reverse {
		return c.Iter.Prev()
	}
	return c.Iter.Next()
}

// settle takes the cell under the iterator, or seeks to the next range that has a cell.
func (c *Cursor) settle(ok bool) error {
	if c.dayChunks != nil {
		return c.dayChunks.settle(c, ok)
	}
	for ok {
		if err := c.parse(); err != nil {
			return err
		}
		in, seek := c.locate()
		if in {
			c.Valid = true
			return nil
		}
		if !seek {
			break
		}
		r := c.rangeAt(c.at)
		if c.Reverse {
			c.seek = r.SeekEnd(c.seek[:0], c.Header)
			ok = c.Iter.SeekLT(c.seek)
		} else {
			c.seek = r.SeekStart(c.seek[:0], c.Header)
			ok = c.Iter.SeekGE(c.seek)
		}
	}
	c.Valid = false
	return c.Iter.Error()
}

// parse splits the iterator's key.
func (c *Cursor) parse() error {
	c.Key = c.Iter.Key()
	c.split = cellkey.Split(c.Key)
	end := c.split
	if c.Layout.HourKeys {
		end += cellkey.HourBytes
	}
	if end < cellkey.HeaderBytes || end >= len(c.Key) {
		return cellkey.Damaged(c.Key)
	}
	c.Row = c.Key[cellkey.HeaderBytes:end]
	return nil
}

// Address returns qualifier and time of the cell. ok is false if its key is damaged. The results are valid until the cursor
// moves.
func (c *Cursor) Address() (qualifier []byte, tsMs int64, ok bool) {
	if b := c.dayChunks; b != nil && b.current {
		return b.open.Qualifier(b.i), cellkey.HourEndMs(cellkey.HourOf(c.Row[len(c.Row)-cellkey.HourBytes:])), true
	}
	k, ok := c.Layout.Parse(c.Key)
	return k.Qualifier, k.TsMs, ok
}

// AppendValue appends the value of the cell.
func (c *Cursor) AppendValue(dst []byte, kind storage.FamilyKind) ([]byte, error) {
	if b := c.dayChunks; b != nil && b.current {
		return b.open.AppendValue(dst, b.i)
	}
	value, err := c.Iter.ValueAndErr()
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

// locate moves at to the range that contains the row (in) or that starts after it (seek). If both are false, no range is
// left.
func (c *Cursor) locate() (in, seek bool) {
	if c.Reverse {
		for ; c.at >= 0; c.at-- {
			r := c.rangeAt(c.at)
			if r.PastEnd(c.Row) {
				return false, true
			}
			if !r.BeforeStart(c.Row) {
				return true, false
			}
		}
		return false, false
	}
	for ; c.at < c.count(); c.at++ {
		r := c.rangeAt(c.at)
		if !r.PastEnd(c.Row) {
			if r.BeforeStart(c.Row) {
				return false, true
			}
			return true, false
		}
	}
	return false, false
}

// less orders valid cursors by their row, in the direction of the read.
func (c *Cursor) less(o *Cursor) bool {
	order := bytes.Compare(c.Row, o.Row)
	if c.Reverse {
		order = -order
	}
	return order < 0
}

// Heap is a min-heap of cursors by their next row.
type Heap []*Cursor

func (h Heap) Init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// down restores the heap after the cursor at i moved.
func (h Heap) down(i int) {
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

// Fix restores the heap after the top cursor has moved. It drops the cursor if it has no more cells.
func (h *Heap) Fix() {
	old := *h
	if !old[0].Valid {
		n := len(old) - 1
		old[0] = old[n]
		*h = old[:n]
	}
	h.down(0)
}
