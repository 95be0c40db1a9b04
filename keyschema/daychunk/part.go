package daychunk

import (
	"encoding/binary"
	"math/bits"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// part is one split value of a day chunk.
type part struct {
	verbatim                bool // the value is not a chunk
	timeHeader, valueHeader uint8
	// The contents of the chunk's column start.
	reference, slope int64
	width            column.Width // of the first block
	exceptions       bool         // of the first block
	// Positions in the day chunk: [from, to) is the body or the verbatim value. The value header and the column start belong
	// at middle.
	from, middle, to int
}

// stride predicts the difference between the next hour's reference and this chunk's reference.
func (p *part) stride(v *valueHeader, count int) int64 {
	switch v.Mode {
	case column.ModeDelta:
		limit, all := p.width.Limit()
		if all {
			return 0
		}
		return int64(count) * (p.slope + int64(limit>>1)) * v.slopeUnit
	case column.ModeZigzag2:
		return int64(count) * p.slope * v.slopeUnit
	}
	return 0
}

// appendStart appends the value header and the column start of a chunk.
func (p *part) appendStart(dst []byte, v *valueHeader) []byte {
	dst = append(dst, v.Bytes...)
	if v.Raw {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.reference))
	} else {
		dst = binary.AppendVarint(dst, p.reference)
	}
	if v.Mode == column.ModeConst {
		return dst
	}
	if v.HasSlope() {
		dst = column.AppendSlope(dst, p.slope)
	}
	return column.AppendWidth(dst, p.width, p.exceptions)
}

// cutStart is the inverse of appendStart after the value header.
func (p *part) cutStart(src []byte, v *valueHeader) (rest []byte, ok bool) {
	if v.Raw {
		if len(src) < 8 {
			return nil, false
		}
		p.reference, src = int64(binary.LittleEndian.Uint64(src)), src[8:]
	} else if p.reference, src, ok = column.CutVarint(src); !ok {
		return nil, false
	}
	if v.HasSlope() {
		if p.slope, src, ok = column.CutSlope(src); !ok {
			return nil, false
		}
	}
	if v.Mode != column.ModeConst {
		if p.width, p.exceptions, src, ok = column.CutWidth(src); !ok {
			return nil, false
		}
	}
	return src, true
}

// valueHeader is a value header and the units of its chunks in the day chunk.
type valueHeader struct {
	chunk.ValueHeader
	referenceUnit int64 // factor from a stored reference to units of the day chunk
	slopeUnit     int64 // factor from a difference in steps to units of the day chunk
}

// setUnits sets the units of the headers. scaled asks for one unit in all headers; ok is false if there is none.
func setUnits(headers []valueHeader, scaled bool) (ok bool) {
	finest := 0
	for i := range headers {
		if v := &headers[i]; !v.Raw {
			finest = max(finest, v.Exponent)
		}
	}
	for i := range headers {
		v := &headers[i]
		v.referenceUnit, v.slopeUnit = 1, v.Step
		switch {
		case !scaled && v.Divided:
			v.slopeUnit = 1
		case scaled && !v.Raw:
			if !v.scale(finest - v.Exponent) {
				return false
			}
		}
	}
	return true
}

// scale sets the units. The exponent is power below the finest exponent.
func (v *valueHeader) scale(power int) (ok bool) {
	if power > 18 {
		return false
	}
	unit := int64(1)
	for range power {
		unit *= 10
	}
	v.referenceUnit, v.slopeUnit = unit, v.Step*unit
	if v.Divided {
		high, low := bits.Mul64(uint64(unit), uint64(v.Step))
		if high != 0 || low >= 1<<62 {
			return false
		}
		v.referenceUnit = int64(low)
	}
	return true
}
