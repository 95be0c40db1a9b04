package daycells

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"halite/storage"
	"halite/storage/pebble/cellkey"
)

// Constants of a day chunk's value. FORMAT.md of package pebble draws it.
const (
	version     = 0x10 // in the high four bits of the first byte
	versionMask = 0xf0
	hoursMask   = 0x03
	hoursWhole  = 0x00 // one cell in each hour of the day
	hoursSome   = 0x01 // one cell in each hour of a three-byte bitmap
	hoursList   = 0x02 // uvarint number of cells, then the hour of each
	qualsMask   = 0x0c
	qualsEqual  = 0x00 // one qualifier
	qualsSerial = 0x04 // one qualifier, then differences: only the last four bytes differ, a big-endian number
	qualsList   = 0x08 // all qualifiers

	DayHours    = 24
	hoursAll    = 1<<DayHours - 1
	serialBytes = 4
	CellsMax    = 256 // cells in a day chunk; other cells stay outside it
)

// NewestHour returns the value of a day's newest hour, which sorts first.
func NewestHour(day int32) uint32 {
	return cellkey.HourValueMax - uint32(day)*DayHours - (DayHours - 1)
}

// Builder collects the cells of one series and day, in key order, for a day chunk.
type Builder struct {
	hours  []uint8  // counted from the newest hour of the day
	Quals  []byte   // all qualifiers
	qualTo []int    // ends of the qualifiers
	Bytes  []byte   // all values
	valTo  []int    // ends of the values
	values [][]byte // scratch
}

func (c *Builder) Count() int { return len(c.hours) }

func (c *Builder) Reset() {
	c.hours, c.Quals, c.qualTo, c.Bytes, c.valTo = c.hours[:0], c.Quals[:0], c.qualTo[:0], c.Bytes[:0], c.valTo[:0]
}

// Add adds a cell. The caller has appended its value to Bytes.
func (c *Builder) Add(hour uint8, qualifier []byte) {
	c.hours = append(c.hours, hour)
	c.Quals = append(c.Quals, qualifier...)
	c.qualTo = append(c.qualTo, len(c.Quals))
	c.valTo = append(c.valTo, len(c.Bytes))
}

func sliceOf(all []byte, ends []int, i int) []byte {
	from := 0
	if i > 0 {
		from = ends[i-1]
	}
	return all[from:ends[i]:ends[i]]
}

func (c *Builder) qualifier(i int) []byte { return sliceOf(c.Quals, c.qualTo, i) }

// AppendValue appends the value of the day chunk.
func (c *Builder) AppendValue(dst []byte, codec *Codec) []byte {
	c.values = c.values[:0]
	for i := range c.hours {
		c.values = append(c.values, sliceOf(c.Bytes, c.valTo, i))
	}
	at := len(dst)
	dst = append(dst, version)
	dst, hours := c.appendHours(dst)
	dst, quals := c.appendQualifiers(dst)
	dst[at] |= hours | quals
	return codec.Append(dst, c.values)
}

func (c *Builder) appendHours(dst []byte) ([]byte, byte) {
	bitmap := uint32(0)
	for _, h := range c.hours {
		bitmap |= 1 << h
	}
	switch {
	case bits.OnesCount32(bitmap) < len(c.hours):
		dst = binary.AppendUvarint(dst, uint64(len(c.hours)))
		return append(dst, c.hours...), hoursList
	case bitmap == hoursAll:
		return dst, hoursWhole
	}
	return append(dst, byte(bitmap), byte(bitmap>>8), byte(bitmap>>16)), hoursSome
}

func (c *Builder) appendQualifiers(dst []byte) ([]byte, byte) {
	first := c.qualifier(0)
	equal, serial := true, len(first) >= serialBytes
	stem := max(len(first)-serialBytes, 0)
	for i := range c.hours {
		q := c.qualifier(i)
		equal = equal && bytes.Equal(q, first)
		serial = serial && len(q) == len(first) && bytes.Equal(q[:stem], first[:stem])
	}
	dst = append(binary.AppendUvarint(dst, uint64(len(first))), first...)
	if equal {
		return dst, qualsEqual
	}
	for i := 1; i < len(c.hours); i++ {
		q := c.qualifier(i)
		if serial {
			before := c.qualifier(i - 1)
			change := int64(binary.BigEndian.Uint32(q[stem:])) - int64(binary.BigEndian.Uint32(before[stem:]))
			dst = binary.AppendVarint(dst, change)
			continue
		}
		dst = append(binary.AppendUvarint(dst, uint64(len(q))), q...)
	}
	if serial {
		return dst, qualsSerial
	}
	return dst, qualsList
}

// Reader decodes a day chunk: hours and qualifiers at once, values on demand.
type Reader struct {
	Codec   *Codec
	decoder Decoder
	split   bool // the decoder has the blob
	Hours   []uint8
	quals   []byte
	qualTo  []int
	blob    []byte
}

func (b *Reader) Count() int { return len(b.Hours) }

func (b *Reader) Qualifier(i int) []byte { return sliceOf(b.quals, b.qualTo, i) }

// Open decodes hours and qualifiers. The value must not change before the last read of a cell's value. Errors wrap
// storage.ErrCorrupt.
func (b *Reader) Open(value []byte) error {
	b.Hours, b.quals, b.qualTo, b.split = b.Hours[:0], b.quals[:0], b.qualTo[:0], false
	if len(value) == 0 || value[0]&versionMask != version {
		return fmt.Errorf("%w: day chunk has an unknown version", storage.ErrCorrupt)
	}
	form := value[0]
	rest, ok := b.parseHours(value[1:], form&hoursMask)
	if ok {
		rest, ok = b.parseQualifiers(rest, form&qualsMask)
	}
	if !ok {
		return fmt.Errorf("%w: bad addresses of a day chunk", storage.ErrCorrupt)
	}
	b.blob = rest
	return nil
}

func (b *Reader) parseHours(src []byte, form byte) (rest []byte, ok bool) {
	bitmap := uint32(hoursAll)
	switch form {
	case hoursList:
		n, size := binary.Uvarint(src)
		if size <= 0 || n == 0 || n > CellsMax || n > uint64(len(src)-size) {
			return nil, false
		}
		b.Hours = append(b.Hours, src[size:size+int(n)]...)
		return src[size+int(n):], b.Hours[n-1] < DayHours && slices.IsSorted(b.Hours)
	case hoursSome:
		if len(src) < 3 {
			return nil, false
		}
		bitmap = uint32(src[0]) | uint32(src[1])<<8 | uint32(src[2])<<16
		src = src[3:]
	case hoursWhole:
	default:
		return nil, false
	}
	for ; bitmap != 0; bitmap &= bitmap - 1 {
		b.Hours = append(b.Hours, uint8(bits.TrailingZeros32(bitmap)))
	}
	return src, len(b.Hours) > 0
}

// parseBytes returns the bytes after their uvarint length, and the rest of src.
func parseBytes(src []byte) (text, rest []byte, ok bool) {
	n, size := binary.Uvarint(src)
	if size <= 0 || n > storage.QualifierBytesMax || n > uint64(len(src)-size) {
		return nil, nil, false
	}
	return src[size : size+int(n)], src[size+int(n):], true
}

func (b *Reader) parseQualifiers(src []byte, form byte) (rest []byte, ok bool) {
	first, src, ok := parseBytes(src)
	if !ok || form == qualsMask || form == qualsSerial && len(first) < serialBytes {
		return nil, false
	}
	b.quals = append(b.quals, first...)
	b.qualTo = append(b.qualTo, len(b.quals))
	if form == qualsEqual {
		for range b.Hours[1:] {
			b.quals = append(b.quals, first...)
			b.qualTo = append(b.qualTo, len(b.quals))
		}
		return src, len(b.quals) <= len(b.Hours)*storage.QualifierBytesMax
	}
	var number uint32
	stem := len(first) - serialBytes
	if form == qualsSerial {
		number = binary.BigEndian.Uint32(first[stem:])
	}
	for range b.Hours[1:] {
		if form == qualsSerial {
			change, size := binary.Varint(src)
			if size <= 0 {
				return nil, false
			}
			src = src[size:]
			number += uint32(change)
			b.quals = binary.BigEndian.AppendUint32(append(b.quals, first[:stem]...), number)
		} else {
			var q []byte
			if q, src, ok = parseBytes(src); !ok {
				return nil, false
			}
			b.quals = append(b.quals, q...)
		}
		b.qualTo = append(b.qualTo, len(b.quals))
	}
	return src, true
}

// AppendValue appends the value of a cell.
func (b *Reader) AppendValue(dst []byte, i int) ([]byte, error) {
	if !b.split {
		if b.decoder == nil {
			b.decoder = b.Codec.NewDecoder()
		}
		if err := b.decoder.Open(b.blob, len(b.Hours)); err != nil {
			return dst, fmt.Errorf("%w: values of a day chunk: %w", storage.ErrCorrupt, err)
		}
		b.split = true
	}
	return b.decoder.Append(dst, i), nil
}

// Without returns the day chunk without the cells that drop selects. The value is empty if no cell remains. changed reports
// whether drop selected any cell.
func (b *Reader) Without(drop func(hour uint8, qualifier []byte) bool) (value []byte, changed bool, err error) {
	var kept Builder
	for i, hour := range b.Hours {
		if drop(hour, b.Qualifier(i)) {
			changed = true
			continue
		}
		if kept.Bytes, err = b.AppendValue(kept.Bytes, i); err != nil {
			return nil, false, err
		}
		kept.Add(hour, b.Qualifier(i))
	}
	if !changed || kept.Count() == 0 {
		return nil, changed, nil
	}
	return kept.AppendValue(nil, b.Codec), true, nil
}
