package chunk

import (
	"encoding/binary"
	"slices"
)

// The short form of a bundle, for a few chunks on one grid of timestamps that fill their hours but for the
// beginning of the oldest and the end of the newest: a series that has just begun, or a day that is not over. Columns
// and entries would take more than they save there. It shares bundlePlain, which no other flag may accompany, and
// bundleExceptions, bundleModel and bundleSlopeLog with their meaning.
const (
	bundleShort  = bundlePlain | 0x01
	shortAfter   = 0x02 // the newest chunk lacks samples after its last: uvarint
	shortBefore  = 0x04 // the oldest chunk lacks samples before its first: uvarint
	shortKinds   = 0x10 // each chunk has a kind entry of its own
	shortFlags   = shortAfter | shortBefore | shortKinds | bundleExceptions | bundleModel | bundleSlopeLog
	shortRunsMax = 8 // from here on columns are smaller
)

// appendShort appends the short form of the values that have been taken apart; ok tells whether they have one.
func (p *packer) appendShort(dst []byte) (_ []byte, ok bool) {
	if n := len(p.parts); n == 0 || n > shortRunsMax {
		return dst, false
	}
	for i := range p.parts {
		if part := &p.parts[i]; part.verbatim || p.kinds[part.kind].raw != p.kinds[0].raw {
			return dst, false
		}
	}
	edges, ok := p.shortEdges()
	if !ok {
		return dst, false
	}
	at, flags := len(dst), byte(bundleShort)
	dst = append(append(dst, 0), edges.grid...)
	if edges.after > 0 {
		flags |= shortAfter
		dst = binary.AppendUvarint(dst, edges.after)
	}
	if edges.before > 0 {
		flags |= shortBefore
		dst = binary.AppendUvarint(dst, edges.before)
	}
	if len(p.kinds) > 1 {
		flags |= shortKinds
	}
	exceptions := false
	for i := range p.parts {
		if i == 0 || len(p.kinds) > 1 {
			dst = append(dst, p.kinds[p.parts[i].kind].bytes...)
		}
		exceptions = exceptions || p.parts[i].exceptions
	}
	if exceptions {
		flags |= bundleExceptions
		dst = p.appendBits(dst, func(part *part) bool { return part.exceptions }, false)
	}
	dst = p.appendShortShapes(dst)
	dst, numbered := p.appendShortSlopes(dst)
	dst, model := p.appendShortLeads(dst)
	dst[at] = flags | numbered | model
	for i := range p.bodies {
		dst = append(append(dst, p.bodies[i][0]...), p.bodies[i][1]...)
	}
	return dst, true
}

// shortEdges are the timestamps of chunks that have a short form.
type shortEdges struct {
	grid          []byte // times entry of an hour that is filled
	before, after uint64 // grid times that the oldest chunk lacks before its first, and the newest after its last
}

// shortEdges finds what the chunks' timestamps have in common; ok tells whether it is enough.
func (p *packer) shortEdges() (e shortEdges, ok bool) {
	last := len(p.parts) - 1
	for i := range p.parts {
		t := &p.times[p.parts[i].times]
		h := t.head
		if h.first&flagIrregular != 0 {
			return e, false
		}
		phase := h.offsetMs % h.intervalMs
		before := uint64(h.offsetMs / h.intervalMs)
		after := uint64(gridCount(phase, h.intervalMs)) - before - uint64(h.count)
		if before > 0 && i < last || after > 0 && i > 0 {
			return e, false
		}
		if i == 0 {
			e.after = after
		}
		if i == last {
			e.before = before
		}
		grid := t.bytes
		if h.first&flagPartial != 0 {
			grid = grid[:len(grid)-uvarintLen(before)-uvarintLen(after)]
		}
		if i == 0 {
			p.grid = append(append(p.grid[:0], grid[0]&^flagPartial), grid[1:]...)
			e.grid = p.grid
		} else if len(grid) != len(e.grid) || grid[0]&^flagPartial != e.grid[0] || string(grid[1:]) != string(e.grid[1:]) {
			return e, false
		}
	}
	return e, true
}

// appendList appends the first number, and how the others differ from those before them.
func appendList(dst []byte, x []int64) []byte {
	former := int64(0)
	for _, v := range x {
		dst = binary.AppendVarint(dst, v-former)
		former = v
	}
	return dst
}

func listBytes(x []int64) (size int) {
	former := int64(0)
	for _, v := range x {
		size += uvarintLen(zigzag(v - former))
		former = v
	}
	return size
}

func (p *packer) appendShortShapes(dst []byte) []byte {
	p.x = p.x[:0]
	for i := range p.parts {
		if part := &p.parts[i]; p.kinds[part.kind].mode != modeConst {
			p.x = append(p.x, part.shape.number())
		}
	}
	return appendList(dst, p.x)
}

func (p *packer) appendShortSlopes(dst []byte) (_ []byte, flag byte) {
	p.x, p.y = p.x[:0], p.y[:0]
	numbered := true
	for i := range p.parts {
		part := &p.parts[i]
		if !p.kinds[part.kind].hasSlope() {
			continue
		}
		number, ok := slopeNumber(part.slope)
		numbered = numbered && ok
		p.x, p.y = append(p.x, part.slope), append(p.y, number)
	}
	if numbered && listBytes(p.y) < listBytes(p.x) {
		return appendList(dst, p.y), bundleSlopeLog
	}
	return appendList(dst, p.x), 0
}

// appendShortLeads appends the leads; the first of bit patterns in 8 bytes.
func (p *packer) appendShortLeads(dst []byte) (_ []byte, flag byte) {
	scaleKinds(p.kinds, false)
	p.x, p.y = p.x[:0], p.y[:0]
	way := int64(0)
	for i := range p.parts {
		part := &p.parts[i]
		way += part.stride(&p.kinds[part.kind], p.counts[i])
		p.x, p.y = append(p.x, part.lead), append(p.y, part.lead+way)
	}
	if p.kinds[0].raw {
		first := p.x[0]
		for i := range p.x {
			p.x[i] -= first
		}
		return appendList(binary.LittleEndian.AppendUint64(dst, uint64(first)), p.x[1:]), 0
	}
	if listBytes(p.y) < listBytes(p.x) {
		return appendList(dst, p.y), bundleModel
	}
	return appendList(dst, p.x), 0
}

// short reads a bundle of the short form up to the bodies.
func (s *Splitter) short(src []byte, flags byte) ([]byte, error) {
	n := len(s.parts)
	if flags&^shortFlags != bundleShort || n == 0 || n > shortRunsMax {
		return nil, corrupt("flags %#x of a bundle of %d values", flags, n)
	}
	s.chunks = n
	src, err := s.shortTimes(src, flags)
	if err != nil {
		return nil, err
	}
	if src, err = s.shortEntries(src, flags); err != nil {
		return nil, err
	}
	if flags&bundleExceptions != 0 {
		src, err = s.choices(src, 2, func(p *part, entry uint8) { p.exceptions = entry != 0 })
		if err != nil {
			return nil, err
		}
	}
	blocks, slopes := 0, 0
	for i := range s.parts {
		k := &s.kinds[s.parts[i].kind]
		if k.mode != modeConst {
			blocks++
		} else if s.parts[i].exceptions {
			return nil, corrupt("exceptions of a constant")
		}
		if k.hasSlope() {
			slopes++
		}
	}
	if src, err = s.list(src, blocks, 0); err != nil {
		return nil, err
	}
	if err := s.setShapes(); err != nil {
		return nil, err
	}
	if src, err = s.list(src, slopes, 0); err != nil {
		return nil, err
	}
	if err := s.setSlopes(flags&bundleSlopeLog != 0); err != nil {
		return nil, err
	}
	return s.shortLeads(src, flags)
}

// shortEntries reads the kind entries.
func (s *Splitter) shortEntries(src []byte, flags byte) ([]byte, error) {
	s.kinds = s.kinds[:0]
	for i := range s.parts {
		if i > 0 && flags&shortKinds == 0 {
			break
		}
		kind, rest, ok := parseKind(src)
		if !ok || i > 0 && kind.raw != s.kinds[0].raw {
			return nil, corrupt("kind entry")
		}
		s.parts[i].kind = uint8(i)
		s.kinds = append(s.kinds, kind)
		src = rest
	}
	scaleKinds(s.kinds, false)
	return src, nil
}

// shortLeads reads the leads, which wait in numbers.
func (s *Splitter) shortLeads(src []byte, flags byte) ([]byte, error) {
	if !s.kinds[0].raw {
		return s.list(src, len(s.parts), 0)
	}
	if len(src) < 8 || flags&bundleModel != 0 {
		return nil, corrupt("leads of bit patterns")
	}
	first := int64(binary.LittleEndian.Uint64(src))
	src, err := s.list(src[8:], len(s.parts)-1, first)
	s.numbers = slices.Insert(s.numbers, 0, first)
	return src, err
}

// shortTimes makes the times entries of the newest chunk, the oldest, and those between.
func (s *Splitter) shortTimes(src []byte, flags byte) ([]byte, error) {
	full, rest, err := parseTimes(src)
	if err != nil {
		return nil, err
	}
	if full.head.first&(flagIrregular|flagPartial) != 0 {
		return nil, corrupt("times entry of a bundle")
	}
	s.times = append(s.times[:0], full)
	edges, ok := [2]uint64{}, true // before, after
	for i, flag := range [2]byte{shortAfter, shortBefore} {
		if flags&flag == 0 {
			continue
		}
		if edges[1-i], rest, ok = cutUvarint(rest); !ok || edges[1-i] == 0 {
			return nil, corrupt("samples that are missing")
		}
	}
	last := len(s.parts) - 1
	s.made = s.made[:0]
	for _, i := range [2]int{0, last} {
		before, after := uint64(0), uint64(0)
		if i == 0 {
			after = edges[1]
		}
		if i == last {
			before = edges[0]
		}
		if before+after == 0 {
			continue
		}
		from := len(s.made)
		s.made = append(append(s.made, full.bytes[0]|flagPartial), full.bytes[1:]...)
		s.made = binary.AppendUvarint(binary.AppendUvarint(s.made, before), after)
		e, left, err := parseTimes(s.made[from:len(s.made):len(s.made)])
		if err != nil || len(left) > 0 {
			return nil, corrupt("samples that are missing")
		}
		s.parts[i].times = uint8(len(s.times))
		s.times = append(s.times, e)
		if last == 0 {
			break
		}
	}
	return rest, nil
}

// list reads n numbers into numbers, of which the first is told by how it differs from at.
func (s *Splitter) list(src []byte, n int, at int64) ([]byte, error) {
	s.numbers = s.numbers[:0]
	for range n {
		change, rest, ok := cutVarint(src)
		if !ok {
			return nil, corrupt("bundle is cut off")
		}
		at += change
		s.numbers = append(s.numbers, at)
		src = rest
	}
	return src, nil
}
