package daychunk

import (
	"encoding/binary"
	"slices"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// short reads a day chunk of the short form up to the bodies.
func (d *Decoder) short(src []byte, flags byte) ([]byte, error) {
	n := len(d.parts)
	if flags&^shortFlags != shortForm || n == 0 || n > shortChunksMax {
		return nil, column.Corrupt("bad flags %#x of a day chunk with %d values", flags, n)
	}
	d.chunkCount = n
	src, err := d.shortTimeHeaders(src, flags)
	if err != nil {
		return nil, err
	}
	if src, err = d.shortValueHeaders(src, flags); err != nil {
		return nil, err
	}
	if flags&flagExceptions != 0 {
		src, err = d.choices(src, 2, func(p *part, choice uint8) { p.exceptions = choice != 0 })
		if err != nil {
			return nil, err
		}
	}
	widths, slopes := 0, 0
	for i := range d.parts {
		v := &d.valueHeaders[d.parts[i].valueHeader]
		if v.Mode != column.ModeConst {
			widths++
		} else if d.parts[i].exceptions {
			return nil, column.Corrupt("a constant has exceptions")
		}
		if v.HasSlope() {
			slopes++
		}
	}
	if src, err = d.list(src, widths, 0); err != nil {
		return nil, err
	}
	if err := d.setWidths(); err != nil {
		return nil, err
	}
	if src, err = d.list(src, slopes, 0); err != nil {
		return nil, err
	}
	if err := d.setSlopes(flags&flagSlopeNumbers != 0); err != nil {
		return nil, err
	}
	return d.shortReferences(src, flags)
}

func (d *Decoder) shortValueHeaders(src []byte, flags byte) ([]byte, error) {
	d.valueHeaders = d.valueHeaders[:0]
	for i := range d.parts {
		if i > 0 && flags&shortValueHeaders == 0 {
			break
		}
		v, rest, ok := chunk.CutValueHeader(src)
		if !ok || i > 0 && v.Raw != d.valueHeaders[0].Raw {
			return nil, column.Corrupt("bad value header")
		}
		d.parts[i].valueHeader = uint8(i)
		d.valueHeaders = append(d.valueHeaders, valueHeader{ValueHeader: v})
		src = rest
	}
	setUnits(d.valueHeaders, false)
	return src, nil
}

// shortReferences reads the references into d.numbers.
func (d *Decoder) shortReferences(src []byte, flags byte) ([]byte, error) {
	if !d.valueHeaders[0].Raw {
		return d.list(src, len(d.parts), 0)
	}
	if len(src) < 8 || flags&flagPredicted != 0 {
		return nil, column.Corrupt("bad references of bit patterns")
	}
	first := int64(binary.LittleEndian.Uint64(src))
	src, err := d.list(src[8:], len(d.parts)-1, first)
	d.numbers = slices.Insert(d.numbers, 0, first)
	return src, err
}

// shortTimeHeaders reads the time header of full hours and makes the headers of the newest and oldest chunks.
func (d *Decoder) shortTimeHeaders(src []byte, flags byte) ([]byte, error) {
	full, rest, err := chunk.CutTimeHeader(src)
	if err != nil {
		return nil, err
	}
	if full.Irregular() || full.Partial() {
		return nil, column.Corrupt("bad time header of a day chunk")
	}
	d.timeHeaders = append(d.timeHeaders[:0], full)
	var found edges
	for _, edge := range []struct {
		flag    byte
		missing *uint64
	}{{shortAfter, &found.after}, {shortBefore, &found.before}} {
		ok := true
		if flags&edge.flag == 0 {
			continue
		}
		if *edge.missing, rest, ok = column.CutUvarint(rest); !ok || *edge.missing == 0 {
			return nil, column.Corrupt("bad number of missing samples")
		}
	}
	d.edgeHeaders = d.edgeHeaders[:0]
	last := len(d.parts) - 1
	if last == 0 {
		return rest, d.addEdge(&full, 0, found)
	}
	if err := d.addEdge(&full, 0, edges{after: found.after}); err != nil {
		return nil, err
	}
	return rest, d.addEdge(&full, last, edges{before: found.before})
}

// addEdge gives part i its own time header if the part lacks samples at an edge.
func (d *Decoder) addEdge(full *chunk.TimeHeader, i int, missing edges) error {
	if missing == (edges{}) {
		return nil
	}
	from := len(d.edgeHeaders)
	d.edgeHeaders = full.AppendPartial(d.edgeHeaders, missing.before, missing.after)
	t, rest, err := chunk.CutTimeHeader(d.edgeHeaders[from:len(d.edgeHeaders):len(d.edgeHeaders)])
	if err != nil || len(rest) > 0 {
		return column.Corrupt("bad number of missing samples")
	}
	d.parts[i].timeHeader = uint8(len(d.timeHeaders))
	d.timeHeaders = append(d.timeHeaders, t)
	return nil
}

// list reads n numbers into d.numbers. Each is stored as the distance from its predecessor, and the first as the distance
// from at.
func (d *Decoder) list(src []byte, n int, at int64) ([]byte, error) {
	d.numbers = d.numbers[:0]
	for range n {
		change, rest, ok := column.CutVarint(src)
		if !ok {
			return nil, errTruncated
		}
		at += change
		d.numbers = append(d.numbers, at)
		src = rest
	}
	return src, nil
}
