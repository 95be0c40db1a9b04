package cell

import (
	"encoding/binary"
	"fmt"

	"halite/keyschema"
	"halite/keyschema/column"
	"halite/keyschema/histchunk"
)

// histogramsVersion is the first byte of a cell of histograms. It is stored: never change it.
const histogramsVersion = 1

// HistogramEncoder encodes cells of histograms and keeps its scratch space between them. It is not for concurrent use; the zero
// value is ready.
type HistogramEncoder struct {
	chunks  histchunk.Encoder
	times   column.TaggedEncoder
	samples []histchunk.Sample
	offsets []int64
	chunk   []byte
}

// Append appends the cell that stores histograms of one day in a row and qualifier of a table. There is at least one, and times
// ascend strictly from dayStartMs on. On an error, which wraps [ErrInvalidStates], dst is unchanged.
func (e *HistogramEncoder) Append(
	dst, row, qualifier []byte, dayStartMs int64, samples []histchunk.Sample,
) ([]byte, error) {
	e.samples, e.offsets = append(e.samples[:0], samples...), e.offsets[:0]
	defer func() { clear(e.samples) }()
	before := int64(-1)
	for i := range e.samples {
		offset := samples[i].TsMs - dayStartMs
		if offset <= before || offset >= keyschema.DayMs {
			return dst, fmt.Errorf("%w: histogram at %d ms follows %d ms in the day that starts at %d ms", ErrInvalidStates,
				samples[i].TsMs,
				dayStartMs+before, dayStartMs)
		}
		before = offset
		e.offsets, e.samples[i].TsMs = append(e.offsets, offset), int64(i)
	}
	var err error
	if e.chunk, err = e.chunks.Append(e.chunk[:0], 0, e.samples); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrInvalidStates, err)
	}
	start := len(dst)
	dst = binary.AppendUvarint(append(dst, histogramsVersion), uint64(len(e.chunk)))
	dst = e.times.Append(append(dst, e.chunk...), 0, e.offsets)
	return binary.LittleEndian.AppendUint32(dst, checksum(row, qualifier, dst[start:])), nil
}

// HistogramDecoder decodes cells of histograms and keeps its scratch space between them. It is not for concurrent use; the zero
// value is ready.
type HistogramDecoder struct {
	chunks  histchunk.Decoder
	times   column.TaggedDecoder
	offsets []int64
}

// Decode appends the histograms of a cell to dst. They share memory, see [histchunk.Decoder.Decode]. An error wraps
// [ErrCorrupt] and leaves dst unchanged.
func (d *HistogramDecoder) Decode(
	row, qualifier, cell []byte, dayStartMs int64, dst []histchunk.Sample,
) ([]histchunk.Sample, error) {
	end := len(cell) - checksumBytes
	if end < 1 {
		return dst, corrupt("the cell has only %d bytes", len(cell))
	}
	if got := binary.LittleEndian.Uint32(cell[end:]); got != checksum(row, qualifier, cell[:end]) {
		return dst, corrupt("checksum mismatch")
	}
	if cell[0] != histogramsVersion {
		return dst, corrupt("version %d of histograms is unknown", cell[0])
	}
	size, src, ok := column.CutUvarint(cell[1:end])
	if !ok || size > uint64(len(src)) {
		return dst, corrupt("the chunk needs %d bytes, only %d follow", size, len(src))
	}
	start := len(dst)
	dst, err := d.chunks.Decode(src[:size], 0, dst)
	if err == nil {
		err = d.setTimes(dst[start:], src[size:], dayStartMs)
	}
	if err != nil {
		clear(dst[start:])
		return dst[:start], fmt.Errorf("%w: histograms: %w", ErrCorrupt, err)
	}
	return dst, nil
}

// In the chunk, the times are the numbers of the histograms. setTimes replaces them by the times in src.
func (d *HistogramDecoder) setTimes(samples []histchunk.Sample, src []byte, dayStartMs int64) error {
	d.offsets = append(d.offsets[:0], make([]int64, len(samples))...)
	_, rest, err := d.times.Decode(d.offsets, src)
	if err != nil {
		return fmt.Errorf("times: %w", err)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d trailing bytes", len(rest))
	}
	before := int64(-1)
	for i, offset := range d.offsets {
		if samples[i].TsMs != int64(i) || offset <= before || offset >= keyschema.DayMs {
			return fmt.Errorf("histogram %d of the chunk at %d has time %d after %d", i, samples[i].TsMs, offset, before)
		}
		samples[i].TsMs, before = dayStartMs+offset, offset
	}
	return nil
}
