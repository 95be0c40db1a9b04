package daychunk

import (
	"bytes"
	"encoding/binary"
)

// appendShort appends the short form of the split values. ok is false if the values have no short form.
func (e *encoder) appendShort(dst []byte) (_ []byte, ok bool) {
	if n := len(e.parts); n == 0 || n > shortChunksMax {
		return dst, false
	}
	for i := range e.parts {
		if part := &e.parts[i]; part.verbatim || e.valueHeaders[part.valueHeader].Raw != e.valueHeaders[0].Raw {
			return dst, false
		}
	}
	edges, ok := e.findEdges()
	if !ok {
		return dst, false
	}
	at, flags := len(dst), byte(shortForm)
	dst = append(append(dst, 0), e.grid...)
	if edges.after > 0 {
		flags |= shortAfter
		dst = binary.AppendUvarint(dst, edges.after)
	}
	if edges.before > 0 {
		flags |= shortBefore
		dst = binary.AppendUvarint(dst, edges.before)
	}
	if len(e.valueHeaders) > 1 {
		flags |= shortValueHeaders
	}
	exceptions := false
	for i := range e.parts {
		if i == 0 || len(e.valueHeaders) > 1 {
			dst = append(dst, e.valueHeaders[e.parts[i].valueHeader].Bytes...)
		}
		exceptions = exceptions || e.parts[i].exceptions
	}
	if exceptions {
		flags |= flagExceptions
		dst = e.appendBits(dst, func(part *part) bool { return part.exceptions }, false)
	}
	e.collectWidths()
	dst = appendList(dst, e.x)
	dst, numbered := e.appendShortSlopes(dst)
	dst, predicted := e.appendShortReferences(dst)
	dst[at] = flags | numbered | predicted
	for i := range e.bodies {
		dst = append(append(dst, e.bodies[i][0]...), e.bodies[i][1]...)
	}
	return dst, true
}

// edges counts the grid times without a sample: before the first sample of the oldest chunk, and after the last sample of
// the newest.
type edges struct{ before, after uint64 }

// findEdges sets grid to the time header of a full hour and finds the edges. ok is false if the chunks have different grids
// or lack samples elsewhere.
func (e *encoder) findEdges() (found edges, ok bool) {
	last := len(e.parts) - 1
	for i := range e.parts {
		t := &e.timeHeaders[e.parts[i].timeHeader]
		if t.Irregular() {
			return found, false
		}
		before, after := t.Missing()
		if before > 0 && i < last || after > 0 && i > 0 {
			return found, false
		}
		if i == last {
			found.before = before
		}
		if i == 0 {
			found.after = after
			e.grid = t.AppendFull(e.grid[:0])
		} else if e.scratch = t.AppendFull(e.scratch[:0]); !bytes.Equal(e.scratch, e.grid) {
			return found, false
		}
	}
	return found, true
}

// appendShortSlopes appends the smaller of two forms: the slopes or their numbers.
func (e *encoder) appendShortSlopes(dst []byte) (_ []byte, flag byte) {
	if numbered := e.collectSlopes(); numbered && listBytes(e.y) < listBytes(e.x) {
		return appendList(dst, e.y), flagSlopeNumbers
	}
	return appendList(dst, e.x), 0
}

// appendShortReferences appends the smaller of two forms: the references or their distances from the predictions. The
// first reference of bit patterns takes 8 bytes.
func (e *encoder) appendShortReferences(dst []byte) (_ []byte, flag byte) {
	setUnits(e.valueHeaders, false)
	e.collectReferences()
	if e.valueHeaders[0].Raw {
		first := e.x[0]
		for i := range e.x {
			e.x[i] -= first
		}
		return appendList(binary.LittleEndian.AppendUint64(dst, uint64(first)), e.x[1:]), 0
	}
	if listBytes(e.y) < listBytes(e.x) {
		return appendList(dst, e.y), flagPredicted
	}
	return appendList(dst, e.x), 0
}
