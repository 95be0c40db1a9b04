package cellkey

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"halite/storage"
)

// The parts of a physical key; FORMAT.md draws them.
const (
	TableIDBytes   = 2
	dayBytes       = 3
	HeaderBytes    = TableIDBytes + 1 + dayBytes
	HourBytes      = 3
	clockBytes     = 4
	MaxTableID     = 1<<(8*TableIDBytes) - 1
	DayMax         = 1<<(8*dayBytes) - 1
	DayMs          = 24 * hourMs
	hourMs         = 3_600_000
	HourDigits     = 7
	hourValueEnd   = 10_000_000
	HourValueMax   = hourValueEnd - 1
	Sentinel       = 0x00
	suffixLongMark = 0x3f
	trailerShort   = 1
	trailerLong    = 3
)

// suffixKind is the encoding of a cell's time. It is in the low bits of the trailer.
type suffixKind uint8

const (
	// kindBefore sorts before every cell with the same hour and qualifier. It occurs only in bounds.
	kindBefore suffixKind = 0
	// kindClock has four bytes: the distance from the timestamp to the end of its day in milliseconds.
	kindClock suffixKind = 1
	// KindHourEnd has no bytes: the cell's timestamp is the last millisecond of its row's hour.
	KindHourEnd suffixKind = 2
	// The suffix of kindDayChunk is the trailer alone. It sorts before all cells of its prefix.
	kindDayChunk suffixKind = 3

	DayChunkSuffix = trailerShort<<2 | byte(kindDayChunk)
)

// Header is the first part of a key: table, family and day, newest day first.
type Header [HeaderBytes]byte

func NewHeader(table uint16, family uint8, day int32) Header {
	var h Header
	binary.BigEndian.PutUint16(h[:], table)
	h[TableIDBytes] = family
	inverted := uint32(DayMax - day)
	h[3], h[4], h[5] = byte(inverted>>16), byte(inverted>>8), byte(inverted)
	return h
}

func (h Header) Day() int32 {
	return DayMax - (int32(h[3])<<16 | int32(h[4])<<8 | int32(h[5]))
}

// Next returns the header of the following partition. It wraps into the next family or table.
func (h Header) Next() Header {
	for i := len(h) - 1; i >= 0; i-- {
		h[i]++
		if h[i] != 0 {
			break
		}
	}
	return h
}

// DayOf returns the unix day of a cell timestamp.
func DayOf(tsMs int64) int32 { return int32(tsMs / DayMs) }

// Layout is the layout of a table's keys.
type Layout struct {
	// HourKeys is storage.TableSchema.HourKeys: each row key ends in an hour.
	HourKeys bool
}

// Append appends the key of a cell. key must have passed storage.CheckKey.
func (l Layout) Append(dst []byte, h Header, key, qualifier []byte, tsMs int64) []byte {
	dst = append(dst, h[:]...)
	kind := kindClock
	start := 0
	if l.HourKeys {
		split := len(key) - HourDigits
		hour := ParseHour(key[split:])
		dst = append(dst, key[:split]...)
		dst = append(dst, Sentinel)
		start = len(dst)
		dst = append(dst, byte(hour>>16), byte(hour>>8), byte(hour))
		if tsMs == HourEndMs(hour) {
			kind = KindHourEnd
		}
	} else {
		dst = append(dst, key...)
		dst = append(dst, Sentinel)
		start = len(dst)
	}
	dst = append(dst, qualifier...)
	if kind == kindClock {
		dst = binary.BigEndian.AppendUint32(dst, uint32(DayMs-1-tsMs%DayMs))
	}
	return AppendTrailer(dst, start, kind)
}

// AppendTrailer closes the suffix that begins at start with its length and kind.
func AppendTrailer(dst []byte, start int, kind suffixKind) []byte {
	n := len(dst) - start + trailerShort
	if n < suffixLongMark {
		return append(dst, byte(n)<<2|byte(kind))
	}
	n = len(dst) - start + trailerLong
	return append(dst, byte(n>>8), byte(n), suffixLongMark<<2|byte(kind))
}

// Split returns the length of the key's prefix. It never fails: a key without a well-formed suffix is all prefix.
func Split(key []byte) int {
	if len(key) == 0 || key[len(key)-1] == Sentinel {
		return len(key)
	}
	n := int(key[len(key)-1] >> 2)
	if n == suffixLongMark && len(key) >= trailerLong {
		n = int(key[len(key)-3])<<8 | int(key[len(key)-2])
		if n < suffixLongMark {
			return len(key)
		}
	}
	if n == 0 || n > len(key) {
		return len(key)
	}
	return len(key) - n
}

// ParseHour parses seven digits.
func ParseHour(digits []byte) uint32 {
	var v uint32
	for _, c := range digits {
		v = v*10 + uint32(c-'0')
	}
	return v
}

// HourEndMs returns the last millisecond of the hour that the key's digits name. The digits count back from the largest hour,
// so newer rows sort first.
func HourEndMs(value uint32) int64 { return int64(hourValueEnd-value)*hourMs - 1 }

// Key is a parsed key of a cell. Its slices alias the key.
type Key struct {
	Header    Header
	Row       []byte // row key up to the start of the hour, or all of it
	Hour      uint32 // only if Layout.HourKeys
	Qualifier []byte
	TsMs      int64
}

// Parse parses the key of a cell. ok is false for a key that Append cannot produce.
func (l Layout) Parse(key []byte) (c Key, ok bool) {
	split := Split(key)
	if split < HeaderBytes+2 || split == len(key) || key[split-1] != Sentinel {
		return c, false
	}
	copy(c.Header[:], key)
	c.Row = key[HeaderBytes : split-1]
	suffix := key[split:]
	body, kind, clock, ok := parseSuffix(suffix)
	if !ok {
		return c, false
	}
	if l.HourKeys {
		if len(body) < HourBytes {
			return c, false
		}
		c.Hour = HourOf(body)
		if c.Hour > HourValueMax {
			return c, false
		}
		body = body[HourBytes:]
	}
	c.Qualifier = body
	switch {
	case kind == kindClock && clock < DayMs:
		c.TsMs = int64(c.Header.Day())*DayMs + DayMs - 1 - int64(clock)
	case kind == KindHourEnd && l.HourKeys:
		c.TsMs = HourEndMs(c.Hour)
		if DayOf(c.TsMs) != c.Header.Day() {
			return c, false
		}
	default:
		return c, false
	}
	return c, true
}

// parseSuffix splits a suffix into body (hour and qualifier), kind, and the clock of kindClock.
func parseSuffix(suffix []byte) (body []byte, kind suffixKind, clock uint32, ok bool) {
	n := len(suffix)
	if n == 0 {
		return nil, kindBefore, 0, false
	}
	kind = suffixKind(suffix[n-1] & 3)
	end := n - trailerShort
	if suffix[n-1]>>2 == suffixLongMark {
		end = n - trailerLong
	}
	if kind == kindClock {
		end -= clockBytes
		if end < 0 {
			return nil, kind, 0, false
		}
		clock = binary.BigEndian.Uint32(suffix[end:])
	}
	if end < 0 {
		return nil, kind, 0, false
	}
	return suffix[:end], kind, clock, true
}

func HourOf(body []byte) uint32 { return uint32(body[0])<<16 | uint32(body[1])<<8 | uint32(body[2]) }

// AppendRowKey appends the row key of a parsed key.
func (l Layout) AppendRowKey(dst []byte, c *Key) []byte {
	dst = append(dst, c.Row...)
	if l.HourKeys {
		dst = AppendHourDigits(dst, c.Hour)
	}
	return dst
}

func AppendHourDigits(dst []byte, hour uint32) []byte {
	var digits [HourDigits]byte
	for i := HourDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + hour%10)
		hour /= 10
	}
	return append(dst, digits[:]...)
}

// Bound is an encoded row key that need not exist: the part of a key between header and qualifier. Rows compare bytewise
// like their bounds.
type Bound struct {
	Row        []byte
	EndsInHour bool // place ends in an hour, so that a seek key needs a trailer
}

// NewBound returns the smallest encoded row of a row key ≥ key. Its memory comes from arena, which NewBound returns.
func (l Layout) NewBound(arena, key []byte) (Bound, []byte) {
	start := len(arena)
	if !l.HourKeys {
		arena = append(append(arena, key...), Sentinel)
		return Bound{Row: arena[start:len(arena):len(arena)]}, arena
	}
	split := thirdSeparator(key)
	if split < 0 {
		arena = append(append(arena, key...), Sentinel)
		return Bound{Row: arena[start:len(arena):len(arena)]}, arena
	}
	hour := hourCeil(key[split+1:])
	arena = append(append(arena, key[:split+1]...), Sentinel, byte(hour>>16), byte(hour>>8), byte(hour))
	return Bound{Row: arena[start:len(arena):len(arena)], EndsInHour: true}, arena
}

// BoundBytesMax bounds the bytes that NewBound appends for a key of that length.
func BoundBytesMax(keyBytes int) int { return keyBytes + 1 + HourBytes }

// AppendSeek appends the key that sorts at the bound, before all its cells. At the first hour of a prefix, it sorts before
// the prefix's day chunk as well.
func (b Bound) AppendSeek(dst []byte, h Header) []byte {
	if b.EndsInHour && HourOf(b.Row[len(b.Row)-HourBytes:]) == 0 {
		return b.appendPrefixSeek(dst, h)
	}
	dst = append(append(dst, h[:]...), b.Row...)
	if b.EndsInHour {
		dst = AppendTrailer(dst, len(dst)-HourBytes, kindBefore)
	}
	return dst
}

// appendPrefixSeek appends the key that sorts before the day chunk and all cells of the bound's prefix.
func (b Bound) appendPrefixSeek(dst []byte, h Header) []byte {
	return append(append(dst, h[:]...), b.Prefix()...)
}

// Prefix returns the encoded row without the hour.
func (b Bound) Prefix() []byte {
	if b.EndsInHour {
		return b.Row[:len(b.Row)-HourBytes]
	}
	return b.Row
}

// AppendDayChunk appends the key of a prefix's day chunk. The prefix ends with the sentinel.
func AppendDayChunk(dst []byte, h Header, prefix []byte) []byte {
	return append(append(append(dst, h[:]...), prefix...), DayChunkSuffix)
}

// IsDayChunk reports whether a key with that Split is the key of a day chunk.
func IsDayChunk(key []byte, split int) bool {
	return len(key) == split+1 && key[split] == DayChunkSuffix && split > HeaderBytes+1
}

// AppendPartitionStart appends the bound below all keys of a partition. With h.Next() it appends the bound above them.
func AppendPartitionStart(dst []byte, h Header) []byte { return append(append(dst, h[:]...), Sentinel) }

// thirdSeparator returns the index of the third '#', or -1.
func thirdSeparator(key []byte) int {
	at := -1
	for range 3 {
		i := bytes.IndexByte(key[at+1:], '#')
		if i < 0 {
			return -1
		}
		at += 1 + i
	}
	return at
}

// hourCeil returns the smallest number with seven digits that sort at or after text. It returns hourValueEnd if there is
// none.
func hourCeil(text []byte) uint32 {
	var v, rest uint32 = 0, hourValueEnd
	for i := range HourDigits {
		if i == len(text) || text[i] < '0' {
			return v * rest
		}
		if text[i] > '9' {
			return (v + 1) * rest
		}
		v = v*10 + uint32(text[i]-'0')
		rest /= 10
	}
	if len(text) > HourDigits {
		v++
	}
	return v
}

// Format returns a key as text for reports.
func Format(key []byte) string {
	if len(key) < HeaderBytes {
		return fmt.Sprintf("%q", key)
	}
	var h Header
	copy(h[:], key)
	at := fmt.Sprintf("table %d family %d day %d ", binary.BigEndian.Uint16(h[:]), h[TableIDBytes], h.Day())
	split := Split(key)
	if split == len(key) {
		return at + fmt.Sprintf("row %q", key[HeaderBytes:])
	}
	body, kind, clock, ok := parseSuffix(key[split:])
	if !ok || split <= HeaderBytes {
		return at + fmt.Sprintf("row %q damaged", key[HeaderBytes:])
	}
	return at + fmt.Sprintf("row %q column %q kind %d clock %d", key[HeaderBytes:split-1], body, kind, clock)
}

// Damaged returns an error for a key that does not parse. The error names the key.
func Damaged(key []byte) error {
	return fmt.Errorf("%w: key %s", storage.ErrCorrupt, Format(key))
}

// AppendEncodedRow appends the row key of an encoded row.
func (l Layout) AppendEncodedRow(dst, place []byte) []byte {
	if !l.HourKeys {
		return append(dst, place[:len(place)-1]...)
	}
	split := len(place) - HourBytes
	return AppendHourDigits(append(dst, place[:split-1]...), HourOf(place[split:]))
}
