package memory

import (
	"sync/atomic"

	"halite/storage/index/valueid"
)

// column holds one label of a metric's series: a value id for each ordinal, 0 where the label is absent. Writers append
// under the table's lock. Readers take no lock: they load the table's length first and the array afterwards. Entries below
// the length never change, even when a larger array replaces the array.
type column struct {
	Dict *Dictionary
	data atomic.Pointer[ColumnData]
}

// ColumnData is one array of a column, of the narrowest width that holds its ids. Without an array, every ordinal has the
// same id, as in most columns of most metrics.
type ColumnData struct {
	same uint32
	u8   []uint8
	u16  []uint16
	u32  []uint32
}

// newColumn starts a column. Earlier rows of the table lack the label.
func newColumn(d *Dictionary) *column {
	c := &column{Dict: d}
	c.data.Store(&ColumnData{})
	return c
}

func (d *ColumnData) At(row uint32) uint32 {
	switch {
	case d.u8 != nil:
		return uint32(d.u8[row])
	case d.u16 != nil:
		return uint32(d.u16[row])
	case d.u32 != nil:
		return d.u32[row]
	}
	return d.same
}

func (d *ColumnData) cap() int {
	switch {
	case d.u8 != nil:
		return cap(d.u8)
	case d.u16 != nil:
		return cap(d.u16)
	case d.u32 != nil:
		return cap(d.u32)
	}
	return 1<<32 - 1
}

func (d *ColumnData) idMax() uint32 {
	switch {
	case d.u8 != nil:
		return 1<<8 - 1
	case d.u16 != nil:
		return 1<<16 - 1
	}
	return 1<<32 - 1
}

func (d *ColumnData) SizeBytes() int64 {
	return int64(cap(d.u8)) + 2*int64(cap(d.u16)) + 4*int64(cap(d.u32)) + 88
}

// append stores the id of row n, the current length. The caller publishes the length afterwards.
func (c *column) append(n, id uint32) {
	d := c.data.Load()
	if d.u8 == nil && d.u16 == nil && d.u32 == nil {
		if n == 0 {
			c.data.Store(&ColumnData{same: id})
			return
		}
		if id == d.same {
			return
		}
		d = d.grow(n, max(id, d.same))
		c.data.Store(d)
	} else if id > d.idMax() || int(n) == d.cap() {
		d = d.grow(n, max(id, d.idMaxOfWidth()))
		c.data.Store(d)
	}
	switch {
	case d.u8 != nil:
		d.u8[:cap(d.u8)][n] = uint8(id)
	case d.u16 != nil:
		d.u16[:cap(d.u16)][n] = uint16(id)
	default:
		d.u32[:cap(d.u32)][n] = id
	}
}

// idMaxOfWidth returns an id that needs the current width, so that grow keeps the width.
func (d *ColumnData) idMaxOfWidth() uint32 { return d.idMax() }

// grow copies n rows to a larger array that is wide enough for id.
func (d *ColumnData) grow(n, id uint32) *ColumnData {
	size := growCap(int(n))
	g := &ColumnData{}
	switch {
	case id < 1<<8:
		g.u8 = make([]uint8, size)
		copyIDs(g.u8, d, n)
	case id < 1<<16:
		g.u16 = make([]uint16, size)
		copyIDs(g.u16, d, n)
	default:
		g.u32 = make([]uint32, size)
		copyIDs(g.u32, d, n)
	}
	return g
}

func copyIDs[T uint8 | uint16 | uint32](dst []T, src *ColumnData, n uint32) {
	for row := range n {
		dst[row] = T(src.At(row))
	}
}

// Filter appends the rows in [from, to) whose id is in the set.
func (d *ColumnData) Filter(dst []uint32, from, to uint32, set *valueid.Set) []uint32 {
	switch {
	case d.u8 != nil:
		return valueid.Filter(dst, d.u8, from, to, set)
	case d.u16 != nil:
		return valueid.Filter(dst, d.u16, from, to, set)
	case d.u32 != nil:
		return valueid.Filter(dst, d.u32, from, to, set)
	}
	if !set.Has(d.same) {
		return dst
	}
	return valueid.AppendRange(dst, from, to)
}

// Keep narrows rows to those whose id is in the set, in place.
func (d *ColumnData) Keep(rows []uint32, set *valueid.Set) []uint32 {
	out := rows[:0]
	for _, row := range rows {
		if set.Has(d.At(row)) {
			out = append(out, row)
		}
	}
	return out
}
