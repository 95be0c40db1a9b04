package chunk

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"halite/keyschema"
	"halite/keyschema/column"
)

// header is the start of a chunk, including regular timestamps.
type header struct {
	first byte
	count int
	// Regular timestamps only: the first one, from the start of the hour, and the distance to the next.
	offsetMs, intervalMs int64
}

// phaseBytes is the size in bytes of a grid's phase, its offset within the interval.
func phaseBytes(intervalMs int64) int { return (bits.Len64(uint64(intervalMs-1)) + 7) / 8 }

// gridCount is the number of timestamps of an hour on a grid.
func gridCount(phaseMs, intervalMs int64) int64 { return (keyschema.HourMs-1-phaseMs)/intervalMs + 1 }

// appendRegular appends timestamps at equal intervals and completes the format byte, the last byte of dst. A single
// timestamp lies on a grid with the interval of an hour.
//
//	uvarint interval, if it has no code
//	phase: the first timestamp of the grid in the hour, as many bytes as the interval may need
//	if the samples do not fill the hour: uvarint grid timestamps before the first, uvarint after the last
func appendRegular(dst []byte, hourStartMs int64, tsMs []int64) []byte {
	head, offset, interval := len(dst)-1, tsMs[0]-hourStartMs, int64(keyschema.HourMs)
	if len(tsMs) > 1 {
		interval = tsMs[1] - tsMs[0]
	}
	if code := slices.Index(intervals[:], interval); code > 0 {
		dst[head] |= byte(code)
	} else {
		dst = binary.AppendUvarint(dst, uint64(interval))
	}
	phase, before := offset%interval, offset/interval
	var bytes [8]byte
	binary.LittleEndian.PutUint64(bytes[:], uint64(phase))
	dst = append(dst, bytes[:phaseBytes(interval)]...)
	after := gridCount(phase, interval) - before - int64(len(tsMs))
	if before == 0 && after == 0 {
		return dst
	}
	dst[head] |= flagPartial
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(before)), uint64(after))
}

// parseHeader reads the bytes before the exception values or the column of irregular timestamps.
func parseHeader(src []byte) (h header, rest []byte, err error) {
	if len(src) == 0 {
		return h, nil, column.Corrupt("the chunk is empty")
	}
	h.first, src = src[0], src[1:]
	if h.first&versionMask != version {
		return h, nil, column.Corrupt("version %d is unknown", h.first>>6)
	}
	if h.first&flagIrregular == 0 {
		return h.parseRegular(src)
	}
	count, src, ok := column.CutUvarint(src)
	if !ok || count == 0 || count > countMax || h.first&(flagPartial|intervalMask) != 0 {
		return h, nil, column.Corrupt("bad sample count %d", count)
	}
	h.count = int(count)
	return h, src, nil
}

// parseRegular reads timestamps at equal intervals.
func (h header) parseRegular(src []byte) (header, []byte, error) {
	h.intervalMs = intervals[h.first&intervalMask]
	if h.intervalMs == 0 {
		interval, rest, ok := column.CutUvarint(src)
		if !ok || interval == 0 || interval >= keyschema.HourMs {
			return h, nil, column.Corrupt("bad interval")
		}
		h.intervalMs, src = int64(interval), rest
	}
	size := phaseBytes(h.intervalMs)
	if len(src) < size {
		return h, nil, column.Corrupt("first timestamp is truncated")
	}
	phase := int64(0)
	for i, b := range src[:size] {
		phase |= int64(b) << (8 * i)
	}
	src = src[size:]
	if phase >= h.intervalMs {
		return h, nil, column.Corrupt("phase %d ms is not below the interval %d ms", phase, h.intervalMs)
	}
	count := uint64(gridCount(phase, h.intervalMs))
	h.offsetMs = phase
	if h.first&flagPartial != 0 {
		before, rest, ok1 := column.CutUvarint(src)
		after, rest, ok2 := column.CutUvarint(rest)
		if !ok1 || !ok2 || before >= count || after >= count-before || before+after == 0 {
			return h, nil, column.Corrupt("%d of the %d samples of an hour are missing at the start and %d at the end", before,
				count, after)
		}
		h.offsetMs += int64(before) * h.intervalMs
		count, src = count-before-after, rest
	}
	h.count = int(count)
	return h, src, nil
}
