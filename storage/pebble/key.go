package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"halite/storage"
)

// The parts of a physical key; FORMAT.md draws them.
const (
	tableIDBytes   = 2
	dayBytes       = 3
	headerBytes    = tableIDBytes + 1 + dayBytes
	hourBytes      = 3
	clockBytes     = 4
	maxTableID     = 1<<(8*tableIDBytes) - 1
	dayMax         = 1<<(8*dayBytes) - 1
	dayMs          = 24 * hourMs
	hourMs         = 3_600_000
	hourDigits     = 7
	hourValueEnd   = 10_000_000
	hourValueMax   = hourValueEnd - 1
	sentinel       = 0x00
	suffixLongMark = 0x3f
	trailerShort   = 1
	trailerLong    = 3
)

// suffixKind says how a suffix gives the cell's time. It sits in the low bits of the trailer.
type suffixKind uint8

const (
	// kindBefore sorts before every cell with the same hour and qualifier; it occurs in bounds only.
	kindBefore suffixKind = 0
	// kindClock has four bytes with the distance to the end of the day in milliseconds.
	kindClock suffixKind = 1
	// kindHourEnd has none: the cell carries the last millisecond of its row's hour.
	kindHourEnd suffixKind = 2
	// kindDayChunk is all there is of a day chunk's suffix: it sorts before all cells of its prefix.
	kindDayChunk suffixKind = 3

	dayChunkSuffix = trailerShort<<2 | byte(kindDayChunk)
)

// header is the first part of a physical key: table, family and day, newest day first.
type header [headerBytes]byte

func makeHeader(table uint16, family uint8, day int32) header {
	var h header
	binary.BigEndian.PutUint16(h[:], table)
	h[tableIDBytes] = family
	inverted := uint32(dayMax - day)
	h[3], h[4], h[5] = byte(inverted>>16), byte(inverted>>8), byte(inverted)
	return h
}

func (h header) day() int32 {
	return dayMax - (int32(h[3])<<16 | int32(h[4])<<8 | int32(h[5]))
}

// next is the header of the following partition, wrapping into the next family or table.
func (h header) next() header {
	for i := len(h) - 1; i >= 0; i-- {
		h[i]++
		if h[i] != 0 {
			break
		}
	}
	return h
}

// dayOf returns the unix day of a cell timestamp.
func dayOf(tsMs int64) int32 { return int32(tsMs / dayMs) }

// appendCellKey appends the physical key of a cell. key must have passed storage.CheckKey.
func appendCellKey(dst []byte, h header, hourKeys bool, key, qualifier []byte, tsMs int64) []byte {
	dst = append(dst, h[:]...)
	kind := kindClock
	start := 0
	if hourKeys {
		split := len(key) - hourDigits
		hour := parseHour(key[split:])
		dst = append(dst, key[:split]...)
		dst = append(dst, sentinel)
		start = len(dst)
		dst = append(dst, byte(hour>>16), byte(hour>>8), byte(hour))
		if tsMs == hourEndMs(hour) {
			kind = kindHourEnd
		}
	} else {
		dst = append(dst, key...)
		dst = append(dst, sentinel)
		start = len(dst)
	}
	dst = append(dst, qualifier...)
	if kind == kindClock {
		dst = binary.BigEndian.AppendUint32(dst, uint32(dayMs-1-tsMs%dayMs))
	}
	return appendTrailer(dst, start, kind)
}

// cellKeyBytesMax bounds the length of the physical key that appendCellKey makes.
func cellKeyBytesMax(key, qualifier []byte) int {
	return headerBytes + len(key) + 1 + len(qualifier) + clockBytes + trailerLong
}

// appendTrailer closes the suffix that began at start with its own length and kind.
func appendTrailer(dst []byte, start int, kind suffixKind) []byte {
	n := len(dst) - start + trailerShort
	if n < suffixLongMark {
		return append(dst, byte(n)<<2|byte(kind))
	}
	n = len(dst) - start + trailerLong
	return append(dst, byte(n>>8), byte(n), suffixLongMark<<2|byte(kind))
}

// splitKey returns the length of the key's prefix. It never fails: what has no well-formed suffix is all prefix.
func splitKey(key []byte) int {
	if len(key) == 0 || key[len(key)-1] == sentinel {
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

// parseHour reads seven digits.
func parseHour(digits []byte) uint32 {
	var v uint32
	for _, c := range digits {
		v = v*10 + uint32(c-'0')
	}
	return v
}

// hourEndMs returns the last millisecond of the hour that the key's digits name; the digits count back from the
// largest hour so that newer rows sort first.
func hourEndMs(value uint32) int64 { return int64(hourValueEnd-value)*hourMs - 1 }

// cellKey is a physical key taken apart. Its slices alias the key.
type cellKey struct {
	header    header
	row       []byte // row key up to where the hour begins, or all of it
	hour      uint32 // HourKeys tables only
	qualifier []byte
	tsMs      int64
}

// parseCellKey takes a cell's physical key apart; ok is false for anything appendCellKey does not make.
func parseCellKey(key []byte, hourKeys bool) (c cellKey, ok bool) {
	split := splitKey(key)
	if split < headerBytes+2 || split == len(key) || key[split-1] != sentinel {
		return c, false
	}
	copy(c.header[:], key)
	c.row = key[headerBytes : split-1]
	suffix := key[split:]
	body, kind, clock, ok := parseSuffix(suffix)
	if !ok {
		return c, false
	}
	if hourKeys {
		if len(body) < hourBytes {
			return c, false
		}
		c.hour = hourOf(body)
		if c.hour > hourValueMax {
			return c, false
		}
		body = body[hourBytes:]
	}
	c.qualifier = body
	switch {
	case kind == kindClock && clock < dayMs:
		c.tsMs = int64(c.header.day())*dayMs + dayMs - 1 - int64(clock)
	case kind == kindHourEnd && hourKeys:
		c.tsMs = hourEndMs(c.hour)
		if dayOf(c.tsMs) != c.header.day() {
			return c, false
		}
	default:
		return c, false
	}
	return c, true
}

// parseSuffix splits a suffix into hour and qualifier, kind, and the clock bytes of kindClock.
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

func hourOf(body []byte) uint32 { return uint32(body[0])<<16 | uint32(body[1])<<8 | uint32(body[2]) }

// appendRowKey appends the logical row key.
func (c *cellKey) appendRowKey(dst []byte, hourKeys bool) []byte {
	dst = append(dst, c.row...)
	if hourKeys {
		dst = appendHourDigits(dst, c.hour)
	}
	return dst
}

func appendHourDigits(dst []byte, hour uint32) []byte {
	var digits [hourDigits]byte
	for i := hourDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + hour%10)
		hour /= 10
	}
	return append(dst, digits[:]...)
}

// rowBound is the place of a logical key among the rows of any partition: the part of a physical key between header
// and qualifier. Rows compare as their bounds do, bytewise.
type rowBound struct {
	place []byte
	hour  bool // place ends in an hour, so that a seek key needs a trailer
}

// makeRowBound returns the smallest place that a row with a key of at least key can have. The memory comes from arena,
// which is returned.
func makeRowBound(arena []byte, hourKeys bool, key []byte) (rowBound, []byte) {
	start := len(arena)
	if !hourKeys {
		arena = append(append(arena, key...), sentinel)
		return rowBound{place: arena[start:len(arena):len(arena)]}, arena
	}
	split := thirdSeparator(key)
	if split < 0 {
		arena = append(append(arena, key...), sentinel)
		return rowBound{place: arena[start:len(arena):len(arena)]}, arena
	}
	hour := hourCeil(key[split+1:])
	arena = append(append(arena, key[:split+1]...), sentinel, byte(hour>>16), byte(hour>>8), byte(hour))
	return rowBound{place: arena[start:len(arena):len(arena)], hour: true}, arena
}

// rowBoundBytesMax bounds what makeRowBound appends for a key of that length.
func rowBoundBytesMax(keyBytes int) int { return keyBytes + 1 + hourBytes }

// appendSeek appends the physical key that sorts at the bound, before all its cells; at the first hour of all, before
// the day chunk of the row's prefix as well.
func (b rowBound) appendSeek(dst []byte, h header) []byte {
	if b.hour && hourOf(b.place[len(b.place)-hourBytes:]) == 0 {
		return b.appendPrefixSeek(dst, h)
	}
	dst = append(append(dst, h[:]...), b.place...)
	if b.hour {
		dst = appendTrailer(dst, len(dst)-hourBytes, kindBefore)
	}
	return dst
}

// appendPrefixSeek appends the physical key that sorts before all cells of the bound's prefix, and before its day chunk.
func (b rowBound) appendPrefixSeek(dst []byte, h header) []byte {
	return append(append(dst, h[:]...), b.prefix()...)
}

// prefix returns the place without the hour.
func (b rowBound) prefix() []byte {
	if b.hour {
		return b.place[:len(b.place)-hourBytes]
	}
	return b.place
}

// appendDayChunkKey appends the physical key of the day chunk of a prefix, which ends with the sentinel.
func appendDayChunkKey(dst []byte, h header, prefix []byte) []byte {
	return append(append(append(dst, h[:]...), prefix...), dayChunkSuffix)
}

// isDayChunkKey tells whether a key with that Split is a day chunk's.
func isDayChunkKey(key []byte, split int) bool {
	return len(key) == split+1 && key[split] == dayChunkSuffix && split > headerBytes+1
}

// appendPartitionStart appends the bound below all keys of a partition; with h.next() it is the bound above.
func appendPartitionStart(dst []byte, h header) []byte { return append(append(dst, h[:]...), sentinel) }

// placeOf returns the place of the row that a cell's physical key belongs to, comparable with rowBound.place.
func placeOf(key []byte, split int, hourKeys bool) []byte {
	if hourKeys {
		split += hourBytes
	}
	return key[headerBytes:split]
}

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

// hourCeil returns the smallest number whose seven digits sort at or after text; it may be hourValueEnd, past all.
func hourCeil(text []byte) uint32 {
	var v, rest uint32 = 0, hourValueEnd
	for i := range hourDigits {
		if i == len(text) || text[i] < '0' {
			return v * rest
		}
		if text[i] > '9' {
			return (v + 1) * rest
		}
		v = v*10 + uint32(text[i]-'0')
		rest /= 10
	}
	if len(text) > hourDigits {
		v++
	}
	return v
}

// formatCellKey prints a physical key for people.
func formatCellKey(key []byte) string {
	if len(key) < headerBytes {
		return fmt.Sprintf("%q", key)
	}
	var h header
	copy(h[:], key)
	at := fmt.Sprintf("table %d family %d day %d ", binary.BigEndian.Uint16(h[:]), h[tableIDBytes], h.day())
	split := splitKey(key)
	if split == len(key) {
		return at + fmt.Sprintf("row %q", key[headerBytes:])
	}
	body, kind, clock, ok := parseSuffix(key[split:])
	if !ok || split <= headerBytes {
		return at + fmt.Sprintf("row %q damaged", key[headerBytes:])
	}
	return at + fmt.Sprintf("row %q column %q kind %d clock %d", key[headerBytes:split-1], body, kind, clock)
}

// checkKeys turns a key that does not parse into an error that names it.
func damagedKey(key []byte) error {
	return fmt.Errorf("%w: key %s", storage.ErrCorrupt, formatCellKey(key))
}
