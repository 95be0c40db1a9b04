package daychunk

import (
	"slices"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// Decoder returns the values of day chunks. It keeps its scratch space between calls, so after the first few it allocates
// nothing. It is not for concurrent use; the zero value is ready.
type Decoder struct {
	chunks       chunk.Decoder
	blob         []byte
	parts        []part
	chunkCount   int // number of parts that are not verbatim
	timeHeaders  []chunk.TimeHeader
	valueHeaders []valueHeader
	counts       []int
	numbers      []int64
	words        []uint64
	edgeHeaders  []byte // time headers in the short form
}

var errTruncated = column.Corrupt("day chunk is truncated")

// Open opens a day chunk of count values and keeps blob until the next call. For bytes that Append did not make, Open
// returns an error that wraps [column.ErrCorrupt], or the Decoder returns some values. count and the length of blob bound
// the allocated memory.
func (d *Decoder) Open(blob []byte, count int) error {
	d.blob = blob
	d.parts = slices.Grow(d.parts[:0], count)[:count]
	d.counts = slices.Grow(d.counts[:0], count)[:count]
	clear(d.parts)
	if len(blob) == 0 {
		return column.Corrupt("day chunk is empty")
	}
	flags, src := blob[0], blob[1:]
	if flags == flagPlain {
		return d.plain(src)
	}
	if flags&flagPlain != 0 {
		src, err := d.short(src, flags)
		if err != nil {
			return err
		}
		return d.findBodies(src, flags)
	}
	d.chunkCount = count
	if flags&flagVerbatim != 0 {
		var ok bool
		if src, ok = d.cutPacked(src, count, 1); !ok {
			return errTruncated
		}
		for i, word := range d.words {
			d.parts[i].verbatim = word != 0
			d.chunkCount -= int(word)
		}
	}
	d.timeHeaders, d.valueHeaders = d.timeHeaders[:0], d.valueHeaders[:0]
	if d.chunkCount > 0 {
		var err error
		if src, err = d.headers(src, flags); err != nil {
			return err
		}
	} else if flags&^flagVerbatim != 0 {
		return column.Corrupt("day chunk without chunks has flags %#x", flags)
	}
	return d.findBodies(src, flags)
}

// plain finds the values of a day chunk with only verbatim values.
func (d *Decoder) plain(src []byte) error {
	n := len(d.parts)
	if n == 0 && len(src) > 0 {
		return column.Corrupt("day chunk has bytes but no values")
	}
	sum := 0
	for i := range d.parts {
		d.parts[i].verbatim = true
		if i+1 == n {
			break
		}
		size, rest, ok := column.CutUvarint(src)
		if !ok || size > uint64(len(rest)) {
			return column.Corrupt("bad length of a value")
		}
		d.parts[i].to = int(size)
		sum += int(size)
		src = rest
	}
	if sum > len(src) {
		return errTruncated
	}
	from := len(d.blob) - len(src)
	for i := range d.parts {
		p := &d.parts[i]
		p.from = from
		from += p.to
		p.to = from
	}
	if n > 0 {
		d.parts[n-1].to = len(d.blob)
	}
	return nil
}

// findBodies finds the body of each part and its reference.
func (d *Decoder) findBodies(src []byte, flags byte) error {
	for i := range d.parts {
		if !d.parts[i].verbatim {
			continue
		}
		size, rest, ok := column.CutUvarint(src)
		if !ok || size > uint64(len(rest)) {
			return column.Corrupt("bad length of a value")
		}
		d.counts[i], src = int(size), rest
	}
	at, predicted := 0, int64(0)
	from := len(d.blob) - len(src)
	for i := range d.parts {
		p := &d.parts[i]
		p.from = from
		if p.verbatim {
			if d.counts[i] > len(d.blob)-from {
				return errTruncated
			}
			from += d.counts[i]
			p.to = from
			continue
		}
		v := &d.valueHeaders[p.valueHeader]
		body, ok := d.chunks.FindBody(d.blob[from:], &d.timeHeaders[p.timeHeader], &v.ValueHeader, p.width, p.exceptions)
		if !ok {
			return column.Corrupt("bad body %d of a day chunk", i)
		}
		p.middle = from + body.FrontBytes
		from += body.Bytes
		p.to = from
		p.reference = d.numbers[at]
		if flags&flagPredicted != 0 {
			predicted += p.stride(v, body.Count)
			p.reference -= predicted
		}
		if v.referenceUnit != 1 {
			p.reference /= v.referenceUnit
		}
		at++
	}
	if from != len(d.blob) {
		return column.Corrupt("day chunk has %d trailing bytes", len(d.blob)-from)
	}
	return nil
}

// Append appends value i of the open day chunk.
func (d *Decoder) Append(dst []byte, i int) []byte {
	p := &d.parts[i]
	if p.verbatim {
		return append(dst, d.blob[p.from:p.to]...)
	}
	dst = append(dst, d.timeHeaders[p.timeHeader].Bytes...)
	dst = append(dst, d.blob[p.from:p.middle]...)
	dst = p.appendStart(dst, &d.valueHeaders[p.valueHeader])
	return append(dst, d.blob[p.middle:p.to]...)
}
