package daychunk

import (
	"math/bits"
	"slices"

	"halite/keyschema/chunk"
	"halite/keyschema/column"
)

// headers reads headers and columns.
func (d *Decoder) headers(src []byte, flags byte) ([]byte, error) {
	src, err := d.cutHeaders(src, flags)
	if err != nil {
		return nil, err
	}
	if src, err = d.indexes(src, flags); err != nil {
		return nil, err
	}
	columns := false
	for i := range d.valueHeaders {
		columns = columns || d.valueHeaders[i].Mode != column.ModeConst
	}
	if len(src) == 0 || columns && len(src) == 1 {
		return nil, errTruncated
	}
	referenceKind, slopeKind, widthKind := src[0]&0x0f, src[0]>>4, byte(0)
	src = src[1:]
	if columns {
		widthKind, src = src[0], src[1:]
		if src, err = d.widths(src, widthKind); err != nil {
			return nil, err
		}
		if src, err = d.slopes(src, slopeKind, flags&flagSlopeNumbers != 0); err != nil {
			return nil, err
		}
	}
	if !setUnits(d.valueHeaders, flags&flagScaled != 0) {
		return nil, column.Corrupt("references of a day chunk have no common units")
	}
	// The references stay in d.numbers, because the prediction needs the counts of the bodies.
	return d.column(src, referenceKind, d.chunkCount)
}

// cutHeaders reads the time headers and value headers.
func (d *Decoder) cutHeaders(src []byte, flags byte) ([]byte, error) {
	n, src, err := headerCount(src, flags&flagTimeHeaders != 0)
	if err != nil {
		return nil, err
	}
	for range n {
		t, rest, err := chunk.CutTimeHeader(src)
		if err != nil {
			return nil, err
		}
		d.timeHeaders = append(d.timeHeaders, t)
		src = rest
	}
	if n, src, err = headerCount(src, flags&flagValueHeaders != 0); err != nil {
		return nil, err
	}
	for range n {
		v, rest, ok := chunk.CutValueHeader(src)
		if !ok {
			return nil, column.Corrupt("bad value header")
		}
		d.valueHeaders = append(d.valueHeaders, valueHeader{ValueHeader: v})
		src = rest
	}
	return src, nil
}

// headerCount cuts the number of headers off src. The day chunk stores the number only if there are several.
func headerCount(src []byte, several bool) (n int, rest []byte, err error) {
	if !several {
		return 1, src, nil
	}
	if len(src) == 0 || src[0] < 2 {
		return 0, nil, column.Corrupt("bad number of headers")
	}
	return int(src[0]), src[1:], nil
}

// indexes reads the header index of each chunk and whether its first block has exceptions.
func (d *Decoder) indexes(src []byte, flags byte) ([]byte, error) {
	src, err := d.choices(src, len(d.timeHeaders), func(p *part, choice uint8) { p.timeHeader = choice })
	if err != nil {
		return nil, err
	}
	if src, err = d.choices(src, len(d.valueHeaders), func(p *part, choice uint8) { p.valueHeader = choice }); err != nil {
		return nil, err
	}
	if flags&flagExceptions == 0 {
		return src, nil
	}
	return d.choices(src, 2, func(p *part, choice uint8) { p.exceptions = choice != 0 })
}

// choices reads one of n choices for each chunk and calls set. If n is 1, the day chunk stores nothing.
func (d *Decoder) choices(src []byte, n int, set func(p *part, choice uint8)) ([]byte, error) {
	if n <= 1 {
		return src, nil
	}
	src, ok := d.cutPacked(src, d.chunkCount, bits.Len(uint(n-1)))
	if !ok {
		return nil, errTruncated
	}
	at := 0
	for i := range d.parts {
		p := &d.parts[i]
		if p.verbatim {
			continue
		}
		if d.words[at] >= uint64(n) {
			return nil, column.Corrupt("choice %d is not below %d", d.words[at], n)
		}
		set(p, uint8(d.words[at]))
		at++
	}
	return src, nil
}

// cutPacked cuts n numbers of w bits off src into d.words.
func (d *Decoder) cutPacked(src []byte, n, w int) (rest []byte, ok bool) {
	if column.PackedBytes(n, w) > len(src) {
		return nil, false
	}
	d.words = slices.Grow(d.words[:0], n)[:n]
	return d.chunks.Columns().CutPacked(d.words, src, w)
}

// column reads n numbers into d.numbers.
func (d *Decoder) column(src []byte, nibble byte, n int) ([]byte, error) {
	kind := nibble & column.ModeMask
	if nibble&nibbleStep != 0 {
		kind |= column.FlagStep
	}
	columns := d.chunks.Columns()
	c, err := columns.Open(src, kind, n)
	if err != nil {
		return nil, err
	}
	d.numbers = slices.Grow(d.numbers[:0], n)[:n]
	if err := c.Ints(d.numbers); err != nil {
		return nil, err
	}
	return columns.Rest(), nil
}

func (d *Decoder) widths(src []byte, kind byte) ([]byte, error) {
	if kind > 0x0f {
		return nil, column.Corrupt("bad kind of the widths")
	}
	n := 0
	for i := range d.parts {
		if p := &d.parts[i]; !p.verbatim && d.valueHeaders[p.valueHeader].Mode != column.ModeConst {
			n++
		}
	}
	if n == 0 {
		return nil, column.Corrupt("no chunk uses the headers")
	}
	src, err := d.column(src, kind, n)
	if err != nil {
		return nil, err
	}
	return src, d.setWidths()
}

// setWidths sets the widths of the chunks that have blocks. d.numbers holds the numbers of the widths.
func (d *Decoder) setWidths() error {
	at, ok := 0, false
	for i := range d.parts {
		p := &d.parts[i]
		if p.verbatim || d.valueHeaders[p.valueHeader].Mode == column.ModeConst {
			continue
		}
		if p.width, ok = column.WidthOfNumber(d.numbers[at]); !ok || p.exceptions && p.width.Low == 64 {
			return column.Corrupt("bad width %d", d.numbers[at])
		}
		at++
	}
	return nil
}

func (d *Decoder) slopes(src []byte, kind byte, numbered bool) ([]byte, error) {
	n := 0
	for i := range d.parts {
		if p := &d.parts[i]; !p.verbatim && d.valueHeaders[p.valueHeader].HasSlope() {
			n++
		}
	}
	if n == 0 {
		return src, nil
	}
	src, err := d.column(src, kind, n)
	if err != nil {
		return nil, err
	}
	return src, d.setSlopes(numbered)
}

// setSlopes sets the slopes of the chunks that have one. d.numbers holds them, or their slope numbers if numbered is true.
func (d *Decoder) setSlopes(numbered bool) error {
	at, ok := 0, true
	for i := range d.parts {
		p := &d.parts[i]
		if p.verbatim || !d.valueHeaders[p.valueHeader].HasSlope() {
			continue
		}
		p.slope = d.numbers[at]
		if numbered {
			if p.slope, ok = column.SlopeOfNumber(p.slope); !ok {
				return column.Corrupt("bad slope %d", d.numbers[at])
			}
		}
		at++
	}
	return nil
}
