package segment

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

// The dictionary of a label name in a segment holds its distinct values, sorted and numbered from 1. They are split into
// chunks, one in each cell. Each value has the set of blocks that contain it, and the hours or days in which its series were
// active. The header names the first value of each chunk, so a look-up reads a single chunk.

type dictHeader struct {
	Values uint32
	Chunks []chunkRef
	sets   uint32
	// setChunks holds the first set of each chunk of sets. Sets are numbered from 0.
	setChunks []uint32
}

// chunkRef names a chunk with the values from first up to the next chunk's first.
type chunkRef struct {
	first uint32
	Value string // the first value
}

func AppendDictHeader(dst []byte, h *dictHeader) []byte {
	dst = binary.AppendUvarint(dst, uint64(h.Values))
	dst = binary.AppendUvarint(dst, uint64(len(h.Chunks)))
	for i, c := range h.Chunks {
		dst = binary.AppendUvarint(dst, uint64(h.chunkEnd(i)-c.first))
		dst = envelope.AppendText(dst, c.Value)
	}
	dst = binary.AppendUvarint(dst, uint64(h.sets))
	dst = binary.AppendUvarint(dst, uint64(len(h.setChunks)))
	for i, first := range h.setChunks {
		dst = binary.AppendUvarint(dst, uint64(h.setChunkEnd(i)-first))
	}
	return dst
}

func ParseDictHeader(payload []byte) (*dictHeader, error) {
	c := &envelope.Decoder{Rest: payload}
	h := &dictHeader{Values: c.Number(1<<32 - 2)}
	chunks, next := c.Count(2), uint64(1)
	for i := 0; i < chunks && c.Err == nil; i++ {
		ref := chunkRef{first: uint32(next)}
		n := c.Uvarint()
		ref.Value = string(c.Text())
		if n == 0 || n > uint64(h.Values)-(next-1) || i > 0 && h.Chunks[i-1].Value >= ref.Value {
			return nil, fmt.Errorf("%w: chunk %d", envelope.ErrOrder, i)
		}
		next += n
		h.Chunks = append(h.Chunks, ref)
	}
	if c.Err == nil && next != uint64(h.Values)+1 {
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

// chunkEnd is the end of the ids of a chunk.
func (h *dictHeader) chunkEnd(i int) uint32 {
	if i+1 < len(h.Chunks) {
		return h.Chunks[i+1].first
	}
	return h.Values + 1
}

func (h *dictHeader) setChunkEnd(i int) uint32 {
	if i+1 < len(h.setChunks) {
		return h.setChunks[i+1]
	}
	return h.sets
}

// ChunkOfValue returns the only chunk that can hold the value, or −1 if no chunk can.
func (h *dictHeader) ChunkOfValue(value string) int {
	return sort.Search(len(h.Chunks), func(i int) bool { return h.Chunks[i].Value > value }) - 1
}

// chunkOfID returns the chunk of an id in [1, values].
func (h *dictHeader) chunkOfID(id uint32) int {
	return sort.Search(len(h.Chunks), func(i int) bool { return h.Chunks[i].first > id }) - 1
}

func (h *dictHeader) chunkOfSet(set uint32) int {
	return sort.Search(len(h.setChunks), func(i int) bool { return h.setChunks[i] > set }) - 1
}

func (h *dictHeader) SizeBytes() int64 {
	n := int64(96 + 4*len(h.setChunks))
	for _, c := range h.Chunks {
		n += int64(len(c.Value)) + 24
	}
	return n
}

// ValueChunk holds consecutive values of a dictionary.
type ValueChunk struct {
	First   uint32 // id of the first value
	Count   uint32
	offsets []byte // 2 or 4 bytes each, little-endian: the end of each value in text
	wide    bool
	text    string
	Sets    valueid.Column // set of each value, plus one
	// Masks are the distinct masks of hours of a day, or of days of a month. Touched holds the mask of each value.
	Masks   []uint32
	Touched valueid.Column
}

// AppendValueChunk writes values. sets has the set of each value plus one. touched has the mask of its active hours or days.
func AppendValueChunk(dst []byte, values []string, sets, touched []uint32) []byte {
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

// ParseValueChunk reads a chunk with the ids [first, end), which the header names. sets is the number of sets of the
// dictionary. The result refers to the payload.
func ParseValueChunk(payload []byte, first, end, sets uint32) (*ValueChunk, error) {
	c := &envelope.Decoder{Rest: payload}
	v := &ValueChunk{First: first, Count: c.Number(1<<32 - 2)}
	if c.Err == nil && v.Count != end-first {
		return nil, fmt.Errorf("%w: %d values, the header says %d", envelope.ErrRange, v.Count, end-first)
	}
	v.wide = c.Byte() != 0
	width := 2
	if v.wide {
		width = 4
	}
	v.offsets = c.Bytes(int(v.Count) * width)
	text := c.Text()
	v.text = unsafe.String(unsafe.SliceData(text), len(text))
	v.Sets = valueid.ReadHeader(c, v.Count)
	valueid.ReadData(c, &v.Sets)
	v.readMasks(c)
	if err := c.End(); err != nil {
		return nil, err
	}
	last := ""
	for i, end := uint32(0), 0; i < v.Count; i++ {
		next := v.end(i)
		if next <= end || next > len(v.text) || v.text[end:next] <= last {
			return nil, fmt.Errorf("%w: value %d", envelope.ErrOrder, i)
		}
		last, end = v.text[end:next], next
		if v.Sets.At(i) > sets {
			return nil, fmt.Errorf("%w: set of value %d", envelope.ErrRange, i)
		}
		if int(v.Touched.At(i)) >= len(v.Masks) {
			return nil, fmt.Errorf("%w: mask of value %d", envelope.ErrRange, i)
		}
	}
	return v, nil
}

func (v *ValueChunk) readMasks(c *envelope.Decoder) {
	masks := c.Count(1)
	for i := 0; i < masks && c.Err == nil; i++ {
		v.Masks = append(v.Masks, c.Number(1<<presence.MonthDaysMax-1))
	}
	v.Touched = valueid.ReadHeader(c, v.Count)
	valueid.ReadData(c, &v.Touched)
}

// AppendTouched appends the values whose series were active in one of the hours, or days, of mask.
func (v *ValueChunk) AppendTouched(dst []string, mask uint32) []string {
	all, none := true, true
	for _, m := range v.Masks {
		all, none = all && m&mask != 0, none && m&mask == 0
	}
	if none {
		return dst
	}
	for id := v.First; id < v.First+v.Count; id++ {
		if all || v.Masks[v.Touched.At(id-v.First)]&mask != 0 {
			dst = append(dst, v.Value(id))
		}
	}
	return dst
}

func (v *ValueChunk) end(i uint32) int {
	if v.wide {
		return int(binary.LittleEndian.Uint32(v.offsets[4*i:]))
	}
	return int(binary.LittleEndian.Uint16(v.offsets[2*i:]))
}

// Value returns the value of an id in the chunk. The value keeps the chunk's memory alive.
func (v *ValueChunk) Value(id uint32) string {
	i, start := id-v.First, 0
	if i > 0 {
		start = v.end(i - 1)
	}
	return v.text[start:v.end(i)]
}

// set returns the set of blocks of an id in the chunk. ok is false for metric names, which have no sets.
func (v *ValueChunk) set(id uint32) (set uint32, ok bool) {
	n := v.Sets.At(id - v.First)
	return n - 1, n != 0
}

// lookup returns the id of a value, 0 if the chunk lacks it.
func (v *ValueChunk) lookup(value string) uint32 {
	if i := v.Seek(value); i < v.First+v.Count && v.Value(i) == value {
		return i
	}
	return 0
}

// Seek returns the first id whose value is not less, or the end of the ids if there is none.
func (v *ValueChunk) Seek(value string) uint32 {
	return v.First + uint32(sort.Search(int(v.Count), func(i int) bool { return v.Value(v.First+uint32(i)) >= value }))
}

func (v *ValueChunk) SizeBytes() int64 {
	return int64(len(v.text)+len(v.offsets)+4*cap(v.Masks)) + v.Sets.SizeBytes() + v.Touched.SizeBytes() + 128
}

// setChunk holds consecutive sets of blocks.
type setChunk struct {
	first uint32
	Sets  [][]uint32 // ascending block numbers
}

func AppendSetChunk(dst []byte, sets [][]uint32) []byte {
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

// ParseSetChunk reads sets [first, end) of blocks numbered below blocks.
func ParseSetChunk(payload []byte, first, end uint32, blocks int) (*setChunk, error) {
	c := &envelope.Decoder{Rest: payload}
	n := c.Count(1)
	if c.Err == nil && uint32(n) != end-first {
		return nil, fmt.Errorf("%w: %d sets, the header says %d", envelope.ErrRange, n, end-first)
	}
	s := &setChunk{first: first, Sets: make([][]uint32, 0, n)}
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
		s.Sets = append(s.Sets, set)
	}
	return s, c.End()
}

func (s *setChunk) SizeBytes() int64 {
	n := int64(64)
	for _, set := range s.Sets {
		n += int64(4*cap(set)) + 24
	}
	return n
}
