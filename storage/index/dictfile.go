package index

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"halite/storage/index/envelope"
	"halite/storage/index/presence"
	"halite/storage/index/valueid"
)

// A segment's dictionary of one label name: its distinct values sorted, numbered from 1, in chunks of up to a cell's
// size, each value with the set of blocks in which it occurs and with the hours, or days, in which series that have it
// were touched. The header tells which chunk can hold a value, so that looking one up reads a single chunk.

type dictHeader struct {
	values uint32
	chunks []chunkRef
	sets   uint32
	// setChunks is the first set of each chunk of sets; sets are numbered from 0.
	setChunks []uint32
}

// chunkRef: values [first, next chunk's first).
type chunkRef struct {
	first uint32
	value string // the first value
}

func appendDictHeader(dst []byte, h *dictHeader) []byte {
	dst = binary.AppendUvarint(dst, uint64(h.values))
	dst = binary.AppendUvarint(dst, uint64(len(h.chunks)))
	for i, c := range h.chunks {
		dst = binary.AppendUvarint(dst, uint64(h.chunkEnd(i)-c.first))
		dst = envelope.AppendText(dst, c.value)
	}
	dst = binary.AppendUvarint(dst, uint64(h.sets))
	dst = binary.AppendUvarint(dst, uint64(len(h.setChunks)))
	for i, first := range h.setChunks {
		dst = binary.AppendUvarint(dst, uint64(h.setChunkEnd(i)-first))
	}
	return dst
}

func parseDictHeader(payload []byte) (*dictHeader, error) {
	c := &envelope.Decoder{Rest: payload}
	h := &dictHeader{values: c.Number(1<<32 - 2)}
	chunks, next := c.Count(2), uint64(1)
	for i := 0; i < chunks && c.Err == nil; i++ {
		ref := chunkRef{first: uint32(next)}
		n := c.Uvarint()
		ref.value = string(c.Text())
		if n == 0 || n > uint64(h.values)-(next-1) || i > 0 && h.chunks[i-1].value >= ref.value {
			return nil, fmt.Errorf("%w: chunk %d", envelope.ErrOrder, i)
		}
		next += n
		h.chunks = append(h.chunks, ref)
	}
	if c.Err == nil && next != uint64(h.values)+1 {
		c.Fail(envelope.ErrRange)
	}
	h.sets = c.Number(1<<32 - 1)
	sets, first := c.Count(1), uint64(0)
	for i := 0; i < sets && c.Err == nil; i++ {
		n := c.Uvarint()
		if n == 0 || n > uint64(h.sets)-first {
			return nil, fmt.Errorf("%w: chunk %d of sets", envelope.ErrOrder, i)
		}
		h.setChunks = append(h.setChunks, uint32(first))
		first += n
	}
	if c.Err == nil && first != uint64(h.sets) {
		c.Fail(envelope.ErrRange)
	}
	return h, c.End()
}

// chunkEnd is the id behind a chunk's last.
func (h *dictHeader) chunkEnd(i int) uint32 {
	if i+1 < len(h.chunks) {
		return h.chunks[i+1].first
	}
	return h.values + 1
}

func (h *dictHeader) setChunkEnd(i int) uint32 {
	if i+1 < len(h.setChunks) {
		return h.setChunks[i+1]
	}
	return h.sets
}

// chunkOfValue is the only chunk that can hold the value, −1 if none can.
func (h *dictHeader) chunkOfValue(value string) int {
	return sort.Search(len(h.chunks), func(i int) bool { return h.chunks[i].value > value }) - 1
}

// chunkOfID is the chunk of an id in [1, values].
func (h *dictHeader) chunkOfID(id uint32) int {
	return sort.Search(len(h.chunks), func(i int) bool { return h.chunks[i].first > id }) - 1
}

func (h *dictHeader) chunkOfSet(set uint32) int {
	return sort.Search(len(h.setChunks), func(i int) bool { return h.setChunks[i] > set }) - 1
}

func (h *dictHeader) SizeBytes() int64 {
	n := int64(96 + 4*len(h.setChunks))
	for _, c := range h.chunks {
		n += int64(len(c.value)) + 24
	}
	return n
}

// valueChunk holds consecutive values of a dictionary.
type valueChunk struct {
	first   uint32 // id of the first value
	count   uint32
	offsets []byte // 2 or 4 bytes each, little-endian: the end of each value in text
	wide    bool
	text    string
	sets    valueid.Column // set of each value, plus one
	// masks are the distinct masks of hours of a day, or days of a month; touched gives each value one. Empty in format 1.
	masks   []uint32
	touched valueid.Column
}

// appendValueChunk writes values with their sets, plus one, and the masks in which they were touched.
func appendValueChunk(dst []byte, values []string, sets, touched []uint32) []byte {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	wide := size >= 1<<16
	dst = append(dst, boolByte(wide))
	end := 0
	for _, v := range values {
		end += len(v)
		if wide {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(end))
		} else {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(end))
		}
	}
	dst = binary.AppendUvarint(dst, uint64(size))
	for _, v := range values {
		dst = append(dst, v...)
	}
	p := valueid.Pack(sets)
	dst = append(p.AppendHeader(dst), p.Raw()...)
	return appendMasks(dst, touched)
}

func appendMasks(dst []byte, touched []uint32) []byte {
	masks := slices.Clone(touched)
	slices.Sort(masks)
	masks = slices.Compact(masks)
	ids := make([]uint32, len(touched))
	for i, mask := range touched {
		n, _ := slices.BinarySearch(masks, mask)
		ids[i] = uint32(n)
	}
	dst = binary.AppendUvarint(dst, uint64(len(masks)))
	for _, mask := range masks {
		dst = binary.AppendUvarint(dst, uint64(mask))
	}
	p := valueid.Pack(ids)
	return append(p.AppendHeader(dst), p.Raw()...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// parseValueChunk reads a chunk that the header says holds the ids [first, end) out of so many sets. The result refers
// to the payload.
func parseValueChunk(payload []byte, format byte, first, end, sets uint32) (*valueChunk, error) {
	c := &envelope.Decoder{Rest: payload}
	v := &valueChunk{first: first, count: c.Number(1<<32 - 2)}
	if c.Err == nil && v.count != end-first {
		return nil, fmt.Errorf("%w: %d values, the header says %d", envelope.ErrRange, v.count, end-first)
	}
	v.wide = c.Byte() != 0
	width := 2
	if v.wide {
		width = 4
	}
	v.offsets = c.Bytes(int(v.count) * width)
	text := c.Text()
	v.text = unsafe.String(unsafe.SliceData(text), len(text))
	v.sets = valueid.ReadHeader(c, v.count)
	valueid.ReadData(c, &v.sets)
	if format != envelope.FormatV1 {
		v.readMasks(c)
	}
	if err := c.End(); err != nil {
		return nil, err
	}
	last := ""
	for i, end := uint32(0), 0; i < v.count; i++ {
		next := v.end(i)
		if next <= end || next > len(v.text) || v.text[end:next] <= last {
			return nil, fmt.Errorf("%w: value %d", envelope.ErrOrder, i)
		}
		last, end = v.text[end:next], next
		if v.sets.At(i) > sets {
			return nil, fmt.Errorf("%w: set of value %d", envelope.ErrRange, i)
		}
		if format != envelope.FormatV1 && int(v.touched.At(i)) >= len(v.masks) {
			return nil, fmt.Errorf("%w: mask of value %d", envelope.ErrRange, i)
		}
	}
	return v, nil
}

func (v *valueChunk) readMasks(c *envelope.Decoder) {
	masks := c.Count(1)
	for i := 0; i < masks && c.Err == nil; i++ {
		v.masks = append(v.masks, c.Number(1<<presence.MonthDaysMax-1))
	}
	v.touched = valueid.ReadHeader(c, v.count)
	valueid.ReadData(c, &v.touched)
}

// appendTouched appends the values that were touched in one of the hours, or days, of mask.
func (v *valueChunk) appendTouched(dst []string, mask uint32) []string {
	all, none := true, true
	for _, m := range v.masks {
		all, none = all && m&mask != 0, none && m&mask == 0
	}
	if none {
		return dst
	}
	for id := v.first; id < v.first+v.count; id++ {
		if all || v.masks[v.touched.At(id-v.first)]&mask != 0 {
			dst = append(dst, v.value(id))
		}
	}
	return dst
}

func (v *valueChunk) end(i uint32) int {
	if v.wide {
		return int(binary.LittleEndian.Uint32(v.offsets[4*i:]))
	}
	return int(binary.LittleEndian.Uint16(v.offsets[2*i:]))
}

// value returns the value of an id in the chunk; it keeps the chunk's memory alive.
func (v *valueChunk) value(id uint32) string {
	i, start := id-v.first, 0
	if i > 0 {
		start = v.end(i - 1)
	}
	return v.text[start:v.end(i)]
}

// set returns the set of blocks of an id in the chunk; ok is false if none is recorded (metric names).
func (v *valueChunk) set(id uint32) (set uint32, ok bool) {
	n := v.sets.At(id - v.first)
	return n - 1, n != 0
}

// lookup returns the id of a value, 0 if the chunk lacks it.
func (v *valueChunk) lookup(value string) uint32 {
	if i := v.seek(value); i < v.first+v.count && v.value(i) == value {
		return i
	}
	return 0
}

// seek returns the first id whose value is not less, the id behind the last if there is none.
func (v *valueChunk) seek(value string) uint32 {
	return v.first + uint32(sort.Search(int(v.count), func(i int) bool { return v.value(v.first+uint32(i)) >= value }))
}

func (v *valueChunk) SizeBytes() int64 {
	return int64(len(v.text)+len(v.offsets)+4*cap(v.masks)) + v.sets.SizeBytes() + v.touched.SizeBytes() + 128
}

// setChunk holds consecutive sets of blocks.
type setChunk struct {
	first uint32
	sets  [][]uint32 // ascending block numbers
}

func appendSetChunk(dst []byte, sets [][]uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(sets)))
	for _, set := range sets {
		dst = appendSet(dst, set)
	}
	return dst
}

func appendSet(dst []byte, set []uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(set)))
	next := uint32(0)
	for _, b := range set {
		dst = binary.AppendUvarint(dst, uint64(b-next))
		next = b + 1
	}
	return dst
}

// parseSetChunk reads sets [first, end) of blocks numbered below blocks.
func parseSetChunk(payload []byte, first, end uint32, blocks int) (*setChunk, error) {
	c := &envelope.Decoder{Rest: payload}
	n := c.Count(1)
	if c.Err == nil && uint32(n) != end-first {
		return nil, fmt.Errorf("%w: %d sets, the header says %d", envelope.ErrRange, n, end-first)
	}
	s := &setChunk{first: first, sets: make([][]uint32, 0, n)}
	for range n {
		size, next := c.Count(1), uint64(0)
		set := make([]uint32, 0, size)
		for i := 0; i < size && c.Err == nil; i++ {
			b := next + c.Uvarint()
			if b >= uint64(blocks) || b < next {
				c.Fail(envelope.ErrRange)
			}
			set = append(set, uint32(b))
			next = b + 1
		}
		s.sets = append(s.sets, set)
	}
	return s, c.End()
}

func (s *setChunk) SizeBytes() int64 {
	n := int64(64)
	for _, set := range s.sets {
		n += int64(4*cap(set)) + 24
	}
	return n
}
