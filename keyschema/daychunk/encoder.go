package daychunk

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// encoder makes day chunks. A pool keeps it as scratch space.
type encoder struct {
	chunks       chunk.Decoder
	parts        []part
	bodies       [][2][]byte // for each part, the front of its chunk and the blocks
	counts       []int       // for each part, the numbers in its value column
	timeHeaders  []chunk.TimeHeader
	valueHeaders []valueHeader
	references   column.Encoder
	others       [2]column.Encoder
	x, y         []int64
	words        []uint64
	grid         []byte // for the short form
	short        []byte
	check        Decoder
	scratch      []byte
}

// append packs the values and checks the result. It stores them verbatim if packing does not make them smaller or does not
// restore them exactly.
func (e *encoder) append(dst []byte, values [][]byte) []byte {
	start, plain := len(dst), 1
	for i, value := range values {
		plain += len(value)
		if i+1 < len(values) {
			plain += column.UvarintLen(uint64(len(value)))
		}
	}
	e.split(values)
	dst = e.write(dst, values)
	if short, ok := e.appendShort(e.short[:0]); ok {
		e.short = short
		if len(short) <= len(dst)-start {
			dst = append(dst[:start], short...)
		}
	}
	if len(dst)-start < plain && e.roundTrips(dst[start:], values) {
		return dst
	}
	return appendPlain(dst[:start], values)
}

// appendPlain appends a day chunk without headers.
func appendPlain(dst []byte, values [][]byte) []byte {
	dst = append(dst, flagPlain)
	for _, value := range values[:max(len(values)-1, 0)] {
		dst = binary.AppendUvarint(dst, uint64(len(value)))
	}
	for _, value := range values {
		dst = append(dst, value...)
	}
	return dst
}

// roundTrips reports whether a day chunk decodes to its values.
func (e *encoder) roundTrips(blob []byte, values [][]byte) bool {
	if e.check.Open(blob, len(values)) != nil {
		return false
	}
	for i, value := range values {
		if e.scratch = e.check.Append(e.scratch[:0], i); !bytes.Equal(e.scratch, value) {
			return false
		}
	}
	return true
}

// split fills parts, bodies, counts and headers.
func (e *encoder) split(values [][]byte) {
	n := len(values)
	e.parts = slices.Grow(e.parts[:0], n)[:n]
	e.bodies = slices.Grow(e.bodies[:0], n)[:n]
	e.counts = slices.Grow(e.counts[:0], n)[:n]
	e.timeHeaders, e.valueHeaders = e.timeHeaders[:0], e.valueHeaders[:0]
	for i, value := range values {
		e.parts[i] = part{}
		if !e.splitChunk(i, value) {
			e.parts[i] = part{verbatim: true}
		}
	}
}

// splitChunk splits one chunk. It returns false if the current encoder would not make this value.
func (e *encoder) splitChunk(i int, value []byte) bool {
	part := &e.parts[i]
	t, front, err := chunk.CutTimeHeader(value)
	if err != nil {
		return false
	}
	rest, _, ok := e.chunks.SkipFront(front, &t)
	if !ok {
		return false
	}
	front = front[:len(front)-len(rest)]
	v := valueHeader{}
	if v.ValueHeader, rest, ok = chunk.CutValueHeader(rest); !ok {
		return false
	}
	if rest, ok = part.cutStart(rest, &v); !ok {
		return false
	}
	e.bodies[i] = [2][]byte{front, rest}
	e.scratch = append(append(e.scratch[:0], front...), rest...)
	body, ok := e.chunks.FindBody(e.scratch, &t, &v.ValueHeader, part.width, part.exceptions)
	if !ok || body.Bytes != len(e.scratch) {
		return false
	}
	e.counts[i] = body.Count
	if part.timeHeader, ok = e.timeHeaderIndex(&t); !ok {
		return false
	}
	part.valueHeader, ok = e.valueHeaderIndex(&v)
	return ok
}

// timeHeaderIndex returns the index of a header and adds the header if it is new. ok is false if there are too many.
func (e *encoder) timeHeaderIndex(t *chunk.TimeHeader) (uint8, bool) {
	for i := range e.timeHeaders {
		if bytes.Equal(e.timeHeaders[i].Bytes, t.Bytes) {
			return uint8(i), true
		}
	}
	if len(e.timeHeaders) == headersMax {
		return 0, false
	}
	e.timeHeaders = append(e.timeHeaders, *t)
	return uint8(len(e.timeHeaders) - 1), true
}

// valueHeaderIndex returns the index of a header and adds the header if it is new. ok is false if there are too many.
func (e *encoder) valueHeaderIndex(v *valueHeader) (uint8, bool) {
	for i := range e.valueHeaders {
		if bytes.Equal(e.valueHeaders[i].Bytes, v.Bytes) {
			return uint8(i), true
		}
	}
	if len(e.valueHeaders) == headersMax {
		return 0, false
	}
	e.valueHeaders = append(e.valueHeaders, *v)
	return uint8(len(e.valueHeaders) - 1), true
}

// write appends the day chunk of the parts.
func (e *encoder) write(dst []byte, values [][]byte) []byte {
	start := len(dst)
	dst = append(dst, 0)
	flags, chunks := byte(0), 0
	for i := range e.parts {
		if e.parts[i].verbatim {
			flags |= flagVerbatim
		} else {
			chunks++
		}
	}
	if flags&flagVerbatim != 0 {
		dst = e.appendBits(dst, func(part *part) bool { return part.verbatim }, true)
	}
	if chunks > 0 {
		var more byte
		dst, more = e.appendHeaders(dst)
		flags |= more
	}
	for i := range e.parts {
		if e.parts[i].verbatim {
			dst = binary.AppendUvarint(dst, uint64(len(values[i])))
		}
	}
	for i := range e.parts {
		if e.parts[i].verbatim {
			dst = append(dst, values[i]...)
		} else {
			dst = append(append(dst, e.bodies[i][0]...), e.bodies[i][1]...)
		}
	}
	dst[start] = flags
	return dst
}

// appendHeaders appends headers and columns. It returns the flags of the parts that it wrote.
func (e *encoder) appendHeaders(dst []byte) ([]byte, byte) {
	flags, columns, exceptions := byte(0), false, false
	for i := range e.parts {
		if part := &e.parts[i]; !part.verbatim {
			columns = columns || e.valueHeaders[part.valueHeader].Mode != column.ModeConst
			exceptions = exceptions || part.exceptions
		}
	}
	if len(e.timeHeaders) > 1 {
		flags |= flagTimeHeaders
		dst = append(dst, byte(len(e.timeHeaders)))
	}
	for i := range e.timeHeaders {
		dst = append(dst, e.timeHeaders[i].Bytes...)
	}
	if len(e.valueHeaders) > 1 {
		flags |= flagValueHeaders
		dst = append(dst, byte(len(e.valueHeaders)))
	}
	for i := range e.valueHeaders {
		dst = append(dst, e.valueHeaders[i].Bytes...)
	}
	if len(e.timeHeaders) > 1 {
		dst = e.appendIndexes(dst, len(e.timeHeaders), func(part *part) uint8 { return part.timeHeader })
	}
	if len(e.valueHeaders) > 1 {
		dst = e.appendIndexes(dst, len(e.valueHeaders), func(part *part) uint8 { return part.valueHeader })
	}
	if exceptions {
		flags |= flagExceptions
		dst = e.appendBits(dst, func(part *part) bool { return part.exceptions }, false)
	}
	at := len(dst)
	dst = append(dst, 0)
	if columns {
		dst = append(dst, 0)
		var width, slope, log byte
		dst, width = e.appendWidths(dst)
		dst, slope, log = e.appendSlopes(dst)
		dst[at] |= slope << 4
		dst[at+1] = width
		flags |= log
	}
	dst, reference, how := e.appendReferences(dst)
	dst[at] |= reference
	return dst, flags | how
}

// appendBits appends one bit for each part if all is true, otherwise one bit for each chunk.
func (e *encoder) appendBits(dst []byte, bit func(*part) bool, all bool) []byte {
	e.words = e.words[:0]
	for i := range e.parts {
		if part := &e.parts[i]; all || !part.verbatim {
			word := uint64(0)
			if bit(part) {
				word = 1
			}
			e.words = append(e.words, word)
		}
	}
	return column.AppendPacked(dst, e.words, 1)
}

// appendIndexes appends the index of each chunk's header.
func (e *encoder) appendIndexes(dst []byte, headers int, index func(*part) uint8) []byte {
	e.words = e.words[:0]
	for i := range e.parts {
		if part := &e.parts[i]; !part.verbatim {
			e.words = append(e.words, uint64(index(part)))
		}
	}
	return column.AppendPacked(dst, e.words, uint(bits.Len(uint(headers-1))))
}

// nibble packs the kind of a column into four bits.
func nibble(c *column.Encoder) byte {
	kind := c.Kind()
	if kind&column.FlagStep != 0 {
		return kind&column.ModeMask | nibbleStep
	}
	return kind
}

// collectWidths sets x to the numbers of the first blocks' widths.
func (e *encoder) collectWidths() {
	e.x = e.x[:0]
	for i := range e.parts {
		if part := &e.parts[i]; !part.verbatim && e.valueHeaders[part.valueHeader].Mode != column.ModeConst {
			e.x = append(e.x, part.width.Number())
		}
	}
}

func (e *encoder) appendWidths(dst []byte) ([]byte, byte) {
	e.collectWidths()
	if len(e.x) == 0 {
		return dst, 0
	}
	c := &e.others[0]
	c.Plan(e.x)
	return c.Append(dst), nibble(c)
}

// collectSlopes sets x to the slopes. If all slopes have a number, it sets y to the numbers and returns true.
func (e *encoder) collectSlopes() (numbered bool) {
	e.x, e.y = e.x[:0], e.y[:0]
	numbered = true
	for i := range e.parts {
		part := &e.parts[i]
		if part.verbatim || !e.valueHeaders[part.valueHeader].HasSlope() {
			continue
		}
		number, ok := column.SlopeNumber(part.slope)
		numbered = numbered && ok
		e.x, e.y = append(e.x, part.slope), append(e.y, number)
	}
	return numbered
}

// appendSlopes appends the smaller of two forms: the slopes or their numbers.
func (e *encoder) appendSlopes(dst []byte) (_ []byte, kind, flag byte) {
	numbered := e.collectSlopes()
	if len(e.x) == 0 {
		return dst, 0, 0
	}
	c := &e.others[0]
	c.Plan(e.x)
	if numbered {
		numbers := &e.others[1]
		numbers.Plan(e.y)
		if numbers.SizeBytes() < c.SizeBytes() {
			c, flag = numbers, flagSlopeNumbers
		}
	}
	return c.Append(dst), nibble(c), flag
}

// appendReferences appends the smaller of two forms: the references or their distances from the predictions. They are in
// common units if possible.
func (e *encoder) appendReferences(dst []byte) (_ []byte, kind, flags byte) {
	if len(e.valueHeaders) > 1 && setUnits(e.valueHeaders, true) && e.fitUnits() {
		flags = flagScaled
	} else {
		setUnits(e.valueHeaders, false)
	}
	moving := e.collectReferences()
	c := &e.references
	c.Plan(e.x)
	if moving {
		distances := &e.others[0]
		distances.Plan(e.y)
		if distances.SizeBytes() < c.SizeBytes() {
			c, flags = distances, flags|flagPredicted
		}
	}
	return c.Append(dst), nibble(c), flags
}

// collectReferences sets x to the references in their units and y to their distances from the predictions. moving is false
// if both are equal.
func (e *encoder) collectReferences() (moving bool) {
	e.x, e.y = e.x[:0], e.y[:0]
	predicted := int64(0)
	for i := range e.parts {
		part := &e.parts[i]
		if part.verbatim {
			continue
		}
		v := &e.valueHeaders[part.valueHeader]
		stride := part.stride(v, e.counts[i])
		predicted += stride
		moving = moving || stride != 0
		x := part.reference * v.referenceUnit
		e.x, e.y = append(e.x, x), append(e.y, x+predicted)
	}
	return moving
}

// fitUnits reports whether no reference overflows in the common units.
func (e *encoder) fitUnits() bool {
	for i := range e.parts {
		if part := &e.parts[i]; !part.verbatim {
			v := &e.valueHeaders[part.valueHeader]
			if part.reference*v.referenceUnit/v.referenceUnit != part.reference {
				return false
			}
		}
	}
	return true
}
