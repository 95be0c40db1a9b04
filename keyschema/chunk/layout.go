package chunk

import (
	"encoding/binary"

	"halite/keyschema/column"
)

// Package daychunk splits chunks, so that it can store the common parts of a day's chunks once. A chunk consists of, in
// this order:
//
//	time header      the format byte and regular timestamps
//	front            irregular timestamps and exception values, if there are any
//	value header     kind, exponent and step of the value column
//	column start     reference, slope and width of the first block
//	blocks           the numbers, and the column of distances of near decimals
//
// The body of a chunk is its front and its blocks.

// TimeHeader is the start of a chunk. For irregular timestamps it holds only the format byte.
type TimeHeader struct {
	// Bytes are the bytes of the header in the chunk.
	Bytes []byte
	header
}

// Irregular reports whether the timestamps are a column in the front of the chunk.
func (t *TimeHeader) Irregular() bool { return t.first&flagIrregular != 0 }

// Partial reports whether the samples leave some times of the hour's grid empty.
func (t *TimeHeader) Partial() bool { return t.first&flagPartial != 0 }

// Missing returns the number of grid times before the first sample and after the last one. The timestamps must be regular.
func (t *TimeHeader) Missing() (before, after uint64) {
	b := t.offsetMs / t.intervalMs
	return uint64(b), uint64(gridCount(t.offsetMs%t.intervalMs, t.intervalMs) - b - int64(t.count))
}

// AppendFull appends the header of a chunk that has a sample at every time of the same grid.
func (t *TimeHeader) AppendFull(dst []byte) []byte {
	grid := t.Bytes
	if t.Partial() {
		before, after := t.Missing()
		grid = grid[:len(grid)-column.UvarintLen(before)-column.UvarintLen(after)]
	}
	return append(append(dst, grid[0]&^flagPartial), grid[1:]...)
}

// AppendPartial appends the header of a chunk that lacks samples at either end of the grid. The receiver is a full header.
func (t *TimeHeader) AppendPartial(dst []byte, before, after uint64) []byte {
	dst = append(append(dst, t.Bytes[0]|flagPartial), t.Bytes[1:]...)
	return binary.AppendUvarint(binary.AppendUvarint(dst, before), after)
}

// CutTimeHeader cuts the time header off src. An error wraps [ErrCorrupt].
func CutTimeHeader(src []byte) (t TimeHeader, rest []byte, err error) {
	if len(src) > 0 && src[0]&flagIrregular != 0 {
		if src[0]&versionMask != version || src[0]&(flagPartial|intervalMask) != 0 {
			return t, nil, column.Corrupt("bad flags of irregular timestamps")
		}
		return TimeHeader{Bytes: src[:1], header: header{first: src[0]}}, src[1:], nil
	}
	h, rest, err := parseHeader(src)
	return TimeHeader{Bytes: src[:len(src)-len(rest)], header: h}, rest, err
}

// ValueHeader is the part of a chunk before the column start.
type ValueHeader struct {
	// Bytes are the bytes of the header in the chunk.
	Bytes []byte
	Mode  column.Mode
	// Raw values are bit patterns. Near values are decimals except for rounding errors.
	Raw, Near bool
	// Exponent is the decimal exponent of the values, unless they are raw.
	Exponent int
	// Step is the common divisor of the differences, 1 if there is none. Divided means that the stored reference is divided
	// by Step.
	Step    int64
	Divided bool
}

// HasSlope reports whether the column start has a slope.
func (v *ValueHeader) HasSlope() bool {
	return v.Mode == column.ModeDelta || v.Mode == column.ModeZigzag2
}

// CutValueHeader cuts the value header off src. ok is false if src does not begin with one.
func CutValueHeader(src []byte) (v ValueHeader, rest []byte, ok bool) {
	if len(src) == 0 {
		return v, nil, false
	}
	all, kind := src, src[0]
	v.Mode, v.Exponent, v.Step = column.Mode(kind&column.ModeMask), int(kind>>scaleShift&scaleMask), 1
	v.Raw, v.Near = v.Exponent == scaleRaw, v.Exponent == scaleNear
	src = src[1:]
	if v.Near || v.Exponent == scaleLong {
		if len(src) == 0 || src[0] > exponentMax {
			return v, nil, false
		}
		v.Exponent, src = int(src[0]), src[1:]
	}
	stepped := kind&column.FlagStep != 0
	if v.Mode > column.ModeXor || v.Mode == column.ModeXor && !v.Raw || v.Mode == column.ModeConst && stepped {
		return v, nil, false
	}
	if stepped {
		if v.Step, v.Divided, src, ok = column.CutStep(src); !ok || v.Divided && (v.Raw || v.Step <= 0) {
			return v, nil, false
		}
	}
	v.Bytes = all[:len(all)-len(src)]
	return v, src, true
}

// SkipFront returns the bytes of src after the front of a chunk, and the number of values in the column. ok is false if src
// does not begin with a front, or if all values are exceptions.
func (d *Decoder) SkipFront(src []byte, t *TimeHeader) (rest []byte, count int, ok bool) {
	count = t.count
	if t.Irregular() {
		if src, count, ok = d.skipTimes(src); !ok {
			return nil, 0, false
		}
	}
	if t.first&flagExceptions != 0 {
		rest, listed, err := d.readExceptions(src, count)
		if err != nil || listed == count {
			return nil, 0, false
		}
		return rest, count - listed, true
	}
	return src, count, true
}

// skipTimes returns the bytes of src after irregular timestamps, and their number.
func (d *Decoder) skipTimes(src []byte) (rest []byte, count int, ok bool) {
	n, src, ok := column.CutUvarint(src)
	if !ok || n == 0 || n > countMax || len(src) == 0 || src[0]&^(column.ModeMask|column.FlagStep|flagGrid) != 0 {
		return nil, 0, false
	}
	kind, src := src[0], src[1:]
	if kind&flagGrid != 0 {
		var err error
		if _, _, src, err = parseGrid(src, int(n)); err != nil {
			return nil, 0, false
		}
	}
	rest, ok = d.columns.Skip(src, kind, int(n))
	return rest, int(n), ok
}

// Body describes the body of a chunk at the start of a slice.
type Body struct {
	FrontBytes int // length of the front
	Bytes      int // length of front and blocks
	Count      int // numbers in the value column
}

// FindBody finds the body at the start of src. w and exceptions describe the first block. ok is false if src does not begin
// with such a body.
func (d *Decoder) FindBody(src []byte, t *TimeHeader, v *ValueHeader, w column.Width, exceptions bool) (b Body, ok bool) {
	rest, count, ok := d.SkipFront(src, t)
	if !ok {
		return b, false
	}
	b.FrontBytes, b.Count = len(src)-len(rest), count
	if v.Mode != column.ModeConst {
		n := count
		if v.Mode != column.ModeFrame {
			n--
		}
		if n <= 0 || count < 2 {
			return b, false
		}
		if rest, ok = column.SkipBlocks(rest, w, exceptions, n); !ok {
			return b, false
		}
	}
	if v.Near {
		if len(rest) == 0 || rest[0]&^(column.ModeMask|column.FlagStep) != 0 {
			return b, false
		}
		if rest, ok = d.columns.Skip(rest[1:], rest[0], count); !ok {
			return b, false
		}
	}
	b.Bytes = len(src) - len(rest)
	return b, true
}
