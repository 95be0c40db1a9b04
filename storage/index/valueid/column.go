package valueid

import (
	"encoding/binary"
	"math/bits"

	"halite/storage/index/envelope"
)

// Column is a bit-packed column of ids. The id of a row in [first, first+count) is base plus a code of width
// bits. All other ids are 0. data is little-endian, with the least significant bit first. Padding permits loads
// of eight bytes at every row.
type Column struct {
	first, count uint32
	base         uint32
	width        uint8
	data         []byte
}

const PadBytes = 8

func packedBytes(count uint32, width uint8) int { return int((uint64(count)*uint64(width) + 7) / 8) }

// Pack encodes a column. Leading and trailing zeros take no space.
func Pack(ids []uint32) Column {
	lo, hi := 0, len(ids)
	for lo < hi && ids[lo] == 0 {
		lo++
	}
	for hi > lo && ids[hi-1] == 0 {
		hi--
	}
	if lo == hi {
		return Column{}
	}
	low, high := ids[lo], ids[lo]
	for _, id := range ids[lo:hi] {
		low, high = min(low, id), max(high, id)
	}
	p := Column{first: uint32(lo), count: uint32(hi - lo), base: low, width: uint8(bits.Len32(high - low))}
	if p.width == 0 {
		return p
	}
	p.data = make([]byte, packedBytes(p.count, p.width)+PadBytes)
	bit := uint64(0)
	for _, id := range ids[lo:hi] {
		at := p.data[bit>>3:]
		v := binary.LittleEndian.Uint64(at) | uint64(id-low)<<(bit&7)
		binary.LittleEndian.PutUint64(at, v)
		bit += uint64(p.width)
	}
	return p
}

// RawBytes is the length of the stored bytes.
func (p *Column) RawBytes() int { return packedBytes(p.count, p.width) }

// Raw returns the stored bytes, without the padding.
func (p *Column) Raw() []byte { return p.data[:packedBytes(p.count, p.width)] }

// setRaw copies the stored bytes.
func (p *Column) setRaw(raw []byte) {
	if p.width == 0 {
		return
	}
	p.data = make([]byte, len(raw)+PadBytes)
	copy(p.data, raw)
}

// RefRaw is setRaw without a copy if the memory after raw is large enough for the padding. The content of that memory
// does not matter.
func (p *Column) RefRaw(raw []byte) {
	switch {
	case p.width == 0:
	case cap(raw) >= len(raw)+PadBytes:
		p.data = raw[: len(raw)+PadBytes : len(raw)+PadBytes]
	default:
		p.setRaw(raw)
	}
}

func (p *Column) SizeBytes() int64 { return int64(cap(p.data)) + 32 }

// At returns the id of a row. It returns 0 outside the stored rows.
func (p *Column) At(row uint32) uint32 {
	i := row - p.first
	if i >= p.count { // also row < first: the difference wraps around
		return 0
	}
	if p.width == 0 {
		return p.base
	}
	bit := uint64(i) * uint64(p.width)
	v := binary.LittleEndian.Uint64(p.data[bit>>3:]) >> (bit & 7)
	return p.base + uint32(v&(1<<p.width-1))
}

// AppendHeader writes all fields except the data.
func (p *Column) AppendHeader(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.first))
	dst = binary.AppendUvarint(dst, uint64(p.count))
	dst = binary.AppendUvarint(dst, uint64(p.base))
	return append(dst, p.width)
}

// ReadHeader reads the header of a column with that number of rows.
func ReadHeader(c *envelope.Decoder, rows uint32) Column {
	p := Column{first: c.Number(uint64(rows))}
	p.count = c.Number(uint64(rows - p.first))
	p.base = c.Number(1<<32 - 1)
	p.width = c.Byte()
	if p.width > 32 {
		c.Fail(envelope.ErrRange)
		return Column{}
	}
	return p
}

// ReadData reads the data that belongs to the header.
func ReadData(c *envelope.Decoder, p *Column) { p.setRaw(c.Bytes(packedBytes(p.count, p.width))) }

// RefData is ReadData without a copy: the column refers to the payload.
func RefData(c *envelope.Decoder, p *Column) {
	n := packedBytes(p.count, p.width)
	if n > len(c.Rest) {
		c.Fail(envelope.ErrTruncated)
		return
	}
	p.RefRaw(c.Rest[:n])
	c.Rest = c.Rest[n:]
}

// Filter appends the rows in [from, to) whose id is in the set.
func (p *Column) Filter(dst []uint32, from, to uint32, set *Set) []uint32 {
	lo, hi := max(from, p.first), min(to, p.first+p.count)
	if lo >= hi {
		return appendIf(dst, from, to, set.Has(0))
	}
	dst = appendIf(dst, from, lo, set.Has(0))
	if p.width == 0 {
		dst = appendIf(dst, lo, hi, set.Has(p.base))
		return appendIf(dst, hi, to, set.Has(0))
	}
	width, mask := uint64(p.width), uint64(1)<<p.width-1
	bit := uint64(lo-p.first) * width
	if want, one := set.Single(); one {
		if code := uint64(want - p.base); code <= mask {
			dst = p.filterOne(dst, lo, hi, code)
		}
	} else {
		for row := lo; row < hi; row++ {
			if set.Has(p.base + uint32(binary.LittleEndian.Uint64(p.data[bit>>3:])>>(bit&7)&mask)) {
				dst = append(dst, row)
			}
			bit += width
		}
	}
	return appendIf(dst, hi, to, set.Has(0))
}

// appendIf appends the rows [from, to) if they match.
func appendIf(dst []uint32, from, to uint32, match bool) []uint32 {
	if !match {
		return dst
	}
	return AppendRange(dst, from, to)
}

// filterOne appends the rows in [lo, hi) with the given code, which is the id minus the base. All these rows are stored. It
// compares several codes at once: the codes that eight bytes hold completely.
func (p *Column) filterOne(dst []uint32, lo, hi uint32, code uint64) []uint32 {
	width, mask := uint64(p.width), uint64(1)<<p.width-1
	lanes := uint32((64 - 7) / width)
	ones := uint64(0) // lowest bit of each lane
	for i := range uint64(lanes) {
		ones |= 1 << (i * width)
	}
	tops, pattern := ones<<(width-1), ones*code
	for row := lo; row < hi; row += lanes {
		bit := uint64(row-p.first) * width
		codes := binary.LittleEndian.Uint64(p.data[bit>>3:]) >> (bit & 7)
		// x has a lane of 0 where a code matches. Subtracting 1 from such a lane sets its top bit, which was clear.
		if x := codes ^ pattern; (x-ones)&^x&tops == 0 {
			continue
		}
		for at := row; at < min(hi, row+lanes); at++ {
			if codes&mask == code {
				dst = append(dst, at)
			}
			codes >>= width
		}
	}
	return dst
}

// Keep narrows rows to those whose id is in the set, in place.
func (p *Column) Keep(rows []uint32, set *Set) []uint32 {
	out := rows[:0]
	for _, row := range rows {
		if set.Has(p.At(row)) {
			out = append(out, row)
		}
	}
	return out
}
