package index

import (
	"encoding/binary"
	"math/bits"
)

// packed is a column of ids in bits: rows [first, first+count) hold base plus width bits each, all others hold 0.
// data is little-endian, least significant bit first, padded so that eight bytes can be loaded at every row.
type packed struct {
	first, count uint32
	base         uint32
	width        uint8
	data         []byte
}

const packedPad = 8

func packedBytes(count uint32, width uint8) int { return int((uint64(count)*uint64(width) + 7) / 8) }

// pack encodes a column; leading and trailing zeros cost nothing.
func pack(ids []uint32) packed {
	lo, hi := 0, len(ids)
	for lo < hi && ids[lo] == 0 {
		lo++
	}
	for hi > lo && ids[hi-1] == 0 {
		hi--
	}
	if lo == hi {
		return packed{}
	}
	low, high := ids[lo], ids[lo]
	for _, id := range ids[lo:hi] {
		low, high = min(low, id), max(high, id)
	}
	p := packed{first: uint32(lo), count: uint32(hi - lo), base: low, width: uint8(bits.Len32(high - low))}
	if p.width == 0 {
		return p
	}
	p.data = make([]byte, packedBytes(p.count, p.width)+packedPad)
	bit := uint64(0)
	for _, id := range ids[lo:hi] {
		at := p.data[bit>>3:]
		v := binary.LittleEndian.Uint64(at) | uint64(id-low)<<(bit&7)
		binary.LittleEndian.PutUint64(at, v)
		bit += uint64(p.width)
	}
	return p
}

// raw returns the stored bytes, without the padding.
func (p *packed) raw() []byte { return p.data[:packedBytes(p.count, p.width)] }

// setRaw takes the stored bytes, copying them.
func (p *packed) setRaw(raw []byte) {
	if p.width == 0 {
		return
	}
	p.data = make([]byte, len(raw)+packedPad)
	copy(p.data, raw)
}

// refRaw is setRaw without a copy, if enough bytes to load from lie behind raw; whatever they are, they are masked off.
func (p *packed) refRaw(raw []byte) {
	switch {
	case p.width == 0:
	case cap(raw) >= len(raw)+packedPad:
		p.data = raw[: len(raw)+packedPad : len(raw)+packedPad]
	default:
		p.setRaw(raw)
	}
}

func (p *packed) sizeBytes() int64 { return int64(cap(p.data)) + 32 }

// at returns the id of a row, 0 outside the stored rows.
func (p *packed) at(row uint32) uint32 {
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

// appendHeader writes everything but the data.
func (p *packed) appendHeader(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.first))
	dst = binary.AppendUvarint(dst, uint64(p.count))
	dst = binary.AppendUvarint(dst, uint64(p.base))
	return append(dst, p.width)
}

// readPackedHeader reads a header of a column of that many rows.
func readPackedHeader(c *cursor, rows uint32) packed {
	p := packed{first: c.number(uint64(rows))}
	p.count = c.number(uint64(rows - p.first))
	p.base = c.number(1<<32 - 1)
	p.width = c.byte()
	if p.width > 32 {
		c.fail(errRange)
		return packed{}
	}
	return p
}

// readPackedData reads the data that belongs to the header.
func readPackedData(c *cursor, p *packed) { p.setRaw(c.bytes(packedBytes(p.count, p.width))) }

// refPackedData is readPackedData without a copy: the column refers to the payload.
func refPackedData(c *cursor, p *packed) {
	n := packedBytes(p.count, p.width)
	if n > len(c.b) {
		c.fail(errTruncated)
		return
	}
	p.refRaw(c.b[:n])
	c.b = c.b[n:]
}

// filter appends the rows in [from, to) whose id is in the set.
func (p *packed) filter(dst []uint32, from, to uint32, set *idSet) []uint32 {
	lo, hi := max(from, p.first), min(to, p.first+p.count)
	if lo >= hi {
		return appendRange(dst, from, to, set.has(0))
	}
	dst = appendRange(dst, from, lo, set.has(0))
	if p.width == 0 {
		dst = appendRange(dst, lo, hi, set.has(p.base))
		return appendRange(dst, hi, to, set.has(0))
	}
	width, mask := uint64(p.width), uint64(1)<<p.width-1
	bit := uint64(lo-p.first) * width
	if want, one := set.single(); one {
		if code := uint64(want - p.base); code <= mask {
			dst = p.filterOne(dst, lo, hi, code)
		}
	} else {
		for row := lo; row < hi; row++ {
			if set.has(p.base + uint32(binary.LittleEndian.Uint64(p.data[bit>>3:])>>(bit&7)&mask)) {
				dst = append(dst, row)
			}
			bit += width
		}
	}
	return appendRange(dst, hi, to, set.has(0))
}

// filterOne appends the rows in [lo, hi), all of them stored, that have one code: their id less the base. It looks at as
// many codes at a time as are whole in eight bytes from any bit on.
func (p *packed) filterOne(dst []uint32, lo, hi uint32, code uint64) []uint32 {
	width, mask := uint64(p.width), uint64(1)<<p.width-1
	lanes := uint32((64 - 7) / width)
	ones := uint64(0) // the lowest bit of each
	for i := range uint64(lanes) {
		ones |= 1 << (i * width)
	}
	tops, pattern := ones<<(width-1), ones*code
	for row := lo; row < hi; row += lanes {
		bit := uint64(row-p.first) * width
		codes := binary.LittleEndian.Uint64(p.data[bit>>3:]) >> (bit & 7)
		// A lane that is 0 borrows into its top bit, which it had not.
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

// keep narrows rows to those whose id is in the set, in place.
func (p *packed) keep(rows []uint32, set *idSet) []uint32 {
	out := rows[:0]
	for _, row := range rows {
		if set.has(p.at(row)) {
			out = append(out, row)
		}
	}
	return out
}

func appendRange(dst []uint32, from, to uint32, yes bool) []uint32 {
	if yes {
		for row := from; row < to; row++ {
			dst = append(dst, row)
		}
	}
	return dst
}
