package chunk

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// packer makes bundles; it is scratch space that AppendBundle keeps.
type packer struct {
	d      Decoder
	parts  []part
	bodies [][2][]byte // of each part, what comes before and after its head
	counts []int       // values in the column of each part
	times  []timesEntry
	kinds  []kindEntry
	leads  column
	others [2]column
	x, y   []int64
	words  []uint64
	grid   []byte // of the short form
	short  []byte
	check  Splitter
	again  []byte
}

// append packs the values and looks at the result: what would not come back as it was, or would be no smaller, is taken
// along as it is.
func (p *packer) append(dst []byte, values [][]byte) []byte {
	start, plain := len(dst), 1
	for i, value := range values {
		plain += len(value)
		if i+1 < len(values) {
			plain += uvarintLen(uint64(len(value)))
		}
	}
	p.takeApart(values)
	dst = p.write(dst, values)
	if short, ok := p.appendShort(p.short[:0]); ok {
		p.short = short
		if len(short) <= len(dst)-start {
			dst = append(dst[:start], short...)
		}
	}
	if len(dst)-start < plain && p.comesBack(dst[start:], values) {
		return dst
	}
	return appendPlain(dst[:start], values)
}

// appendPlain appends a bundle without any heads.
func appendPlain(dst []byte, values [][]byte) []byte {
	dst = append(dst, bundlePlain)
	for _, value := range values[:max(len(values)-1, 0)] {
		dst = binary.AppendUvarint(dst, uint64(len(value)))
	}
	for _, value := range values {
		dst = append(dst, value...)
	}
	return dst
}

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

func (p *packer) comesBack(blob []byte, values [][]byte) bool {
	if p.check.Open(blob, len(values)) != nil {
		return false
	}
	for i, value := range values {
		if p.again = p.check.Append(p.again[:0], i); !bytes.Equal(p.again, value) {
			return false
		}
	}
	return true
}

// takeApart fills parts, bodies, counts and entries.
func (p *packer) takeApart(values [][]byte) {
	n := len(values)
	p.parts = slices.Grow(p.parts[:0], n)[:n]
	p.bodies = slices.Grow(p.bodies[:0], n)[:n]
	p.counts = slices.Grow(p.counts[:0], n)[:n]
	p.times, p.kinds = p.times[:0], p.kinds[:0]
	for i, value := range values {
		p.parts[i] = part{}
		if !p.takeChunk(i, value) {
			p.parts[i] = part{verbatim: true}
		}
	}
}

// takeChunk takes one chunk apart; false means that it is none, or a rare one that is taken along as it is.
func (p *packer) takeChunk(i int, value []byte) bool {
	part := &p.parts[i]
	t, front, err := parseTimes(value)
	if err != nil {
		return false
	}
	rest, _, ok := p.d.skipFront(front, &t)
	if !ok {
		return false
	}
	front = front[:len(front)-len(rest)]
	k, rest, ok := parseKind(rest)
	if !ok {
		return false
	}
	if k.raw {
		if len(rest) < 8 {
			return false
		}
		part.lead, rest = int64(binary.LittleEndian.Uint64(rest)), rest[8:]
	} else if part.lead, rest, ok = cutVarint(rest); !ok {
		return false
	}
	if k.hasSlope() {
		if part.slope, rest, ok = cutSlope(rest); !ok {
			return false
		}
	}
	if k.mode != modeConst {
		if part.shape, part.exceptions, rest, ok = cutShape(rest); !ok {
			return false
		}
	}
	p.bodies[i] = [2][]byte{front, rest}
	p.again = append(append(p.again[:0], front...), rest...)
	_, end, count, ok := p.d.body(p.again, part, &t, &k)
	if !ok || end != len(p.again) {
		return false
	}
	p.counts[i] = count
	part.times, ok = p.timesIndex(&t)
	if !ok {
		return false
	}
	part.kind, ok = p.kindIndex(&k)
	return ok
}

func (p *packer) timesIndex(t *timesEntry) (uint8, bool) {
	for i := range p.times {
		if bytes.Equal(p.times[i].bytes, t.bytes) {
			return uint8(i), true
		}
	}
	if len(p.times) == bundleEntriesMax {
		return 0, false
	}
	p.times = append(p.times, *t)
	return uint8(len(p.times) - 1), true
}

func (p *packer) kindIndex(k *kindEntry) (uint8, bool) {
	for i := range p.kinds {
		if bytes.Equal(p.kinds[i].bytes, k.bytes) {
			return uint8(i), true
		}
	}
	if len(p.kinds) == bundleEntriesMax {
		return 0, false
	}
	p.kinds = append(p.kinds, *k)
	return uint8(len(p.kinds) - 1), true
}

// write appends the blob of the parts.
func (p *packer) write(dst []byte, values [][]byte) []byte {
	start := len(dst)
	dst = append(dst, 0)
	flags, chunks := byte(0), 0
	for i := range p.parts {
		if p.parts[i].verbatim {
			flags |= bundleVerbatim
		} else {
			chunks++
		}
	}
	if flags&bundleVerbatim != 0 {
		dst = p.appendBits(dst, func(part *part) bool { return part.verbatim }, true)
	}
	if chunks > 0 {
		var more byte
		dst, more = p.appendHeads(dst)
		flags |= more
	}
	for i := range p.parts {
		if p.parts[i].verbatim {
			dst = binary.AppendUvarint(dst, uint64(len(values[i])))
		}
	}
	for i := range p.parts {
		if p.parts[i].verbatim {
			dst = append(dst, values[i]...)
		} else {
			dst = append(append(dst, p.bodies[i][0]...), p.bodies[i][1]...)
		}
	}
	dst[start] = flags
	return dst
}

// appendHeads appends entries and columns, and returns the flags that tell about them.
func (p *packer) appendHeads(dst []byte) ([]byte, byte) {
	flags, columns, exceptions := byte(0), false, false
	for i := range p.parts {
		if part := &p.parts[i]; !part.verbatim {
			columns = columns || p.kinds[part.kind].mode != modeConst
			exceptions = exceptions || part.exceptions
		}
	}
	if len(p.times) > 1 {
		flags |= bundleTimes
		dst = append(dst, byte(len(p.times)))
	}
	for i := range p.times {
		dst = append(dst, p.times[i].bytes...)
	}
	if len(p.kinds) > 1 {
		flags |= bundleKinds
		dst = append(dst, byte(len(p.kinds)))
	}
	for i := range p.kinds {
		dst = append(dst, p.kinds[i].bytes...)
	}
	if len(p.times) > 1 {
		dst = p.appendIndexes(dst, len(p.times), func(part *part) uint8 { return part.times })
	}
	if len(p.kinds) > 1 {
		dst = p.appendIndexes(dst, len(p.kinds), func(part *part) uint8 { return part.kind })
	}
	if exceptions {
		flags |= bundleExceptions
		dst = p.appendBits(dst, func(part *part) bool { return part.exceptions }, false)
	}
	at := len(dst)
	dst = append(dst, 0)
	if columns {
		dst = append(dst, 0)
		var shape, slope, log byte
		dst, shape = p.appendShapes(dst)
		dst, slope, log = p.appendSlopes(dst)
		dst[at] |= slope << 4
		dst[at+1] = shape
		flags |= log
	}
	dst, lead, how := p.appendLeads(dst)
	dst[at] |= lead
	return dst, flags | how
}

// appendBits appends one bit for each part, or for each chunk.
func (p *packer) appendBits(dst []byte, bit func(*part) bool, all bool) []byte {
	p.words = p.words[:0]
	for i := range p.parts {
		if part := &p.parts[i]; all || !part.verbatim {
			word := uint64(0)
			if bit(part) {
				word = 1
			}
			p.words = append(p.words, word)
		}
	}
	return appendPacked(dst, p.words, 1)
}

func (p *packer) appendIndexes(dst []byte, entries int, index func(*part) uint8) []byte {
	p.words = p.words[:0]
	for i := range p.parts {
		if part := &p.parts[i]; !part.verbatim {
			p.words = append(p.words, uint64(index(part)))
		}
	}
	return appendPacked(dst, p.words, uint(bits.Len(uint(entries-1))))
}

// nibble packs a column's kind into four bits.
func (c *column) nibble() byte {
	if c.step > 1 {
		return byte(c.mode) | nibbleStep
	}
	return byte(c.mode)
}

func (p *packer) appendShapes(dst []byte) ([]byte, byte) {
	p.x = p.x[:0]
	for i := range p.parts {
		if part := &p.parts[i]; !part.verbatim && p.kinds[part.kind].mode != modeConst {
			p.x = append(p.x, part.shape.number())
		}
	}
	if len(p.x) == 0 {
		return dst, 0
	}
	c := &p.others[0]
	c.plan(p.x, false)
	return c.append(dst), c.nibble()
}

// appendSlopes appends the slopes as they are or by their numbers, whichever is smaller.
func (p *packer) appendSlopes(dst []byte) (_ []byte, nibble, flag byte) {
	p.x, p.y = p.x[:0], p.y[:0]
	numbered := true
	for i := range p.parts {
		part := &p.parts[i]
		if part.verbatim || !p.kinds[part.kind].hasSlope() {
			continue
		}
		number, ok := slopeNumber(part.slope)
		numbered = numbered && ok
		p.x, p.y = append(p.x, part.slope), append(p.y, number)
	}
	if len(p.x) == 0 {
		return dst, 0, 0
	}
	c := &p.others[0]
	c.plan(p.x, false)
	if numbered {
		if log := &p.others[1]; true {
			log.plan(p.y, false)
			if log.sizeBytes() < c.sizeBytes() {
				c, flag = log, bundleSlopeLog
			}
		}
	}
	return c.append(dst), c.nibble(), flag
}

// appendLeads appends the leads in units that they have in common, as they are or as distances from where the chunks
// before lead to, whichever is smaller.
func (p *packer) appendLeads(dst []byte) (_ []byte, nibble, flags byte) {
	if len(p.kinds) > 1 && scaleKinds(p.kinds, true) && p.scaledFit() {
		flags = bundleScaled
	} else {
		scaleKinds(p.kinds, false)
	}
	p.x, p.y = p.x[:0], p.y[:0]
	way, moving := int64(0), false
	for i := range p.parts {
		part := &p.parts[i]
		if part.verbatim {
			continue
		}
		k := &p.kinds[part.kind]
		stride := part.stride(k, p.counts[i])
		way += stride
		moving = moving || stride != 0
		x := part.lead * k.lead
		p.x, p.y = append(p.x, x), append(p.y, x+way)
	}
	c := &p.leads
	c.plan(p.x, false)
	if moving {
		model := &p.others[0]
		model.plan(p.y, false)
		if model.sizeBytes() < c.sizeBytes() {
			c, flags = model, flags|bundleModel
		}
	}
	return c.append(dst), c.nibble(), flags
}

// scaledFit tells whether all leads can be had in the common units.
func (p *packer) scaledFit() bool {
	for i := range p.parts {
		if part := &p.parts[i]; !part.verbatim {
			if k := &p.kinds[part.kind]; part.lead*k.lead/k.lead != part.lead {
				return false
			}
		}
	}
	return true
}
