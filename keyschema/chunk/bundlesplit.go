package chunk

import (
	"math/bits"
	"slices"
)

// Splitter makes values of a bundle again. It keeps its scratch space between bundles, so that after the first few
// nothing is allocated. It is not for concurrent use; the zero value is ready.
type Splitter struct {
	d       Decoder
	blob    []byte
	parts   []part
	times   []timesEntry
	kinds   []kindEntry
	counts  []int
	numbers []int64
	words   []uint64
	made    []byte // times entries of the short form
	chunks  int
}

// Open takes a bundle of count values apart; it keeps blob until the next call. Bytes that AppendBundle did not make
// give an error that wraps [ErrCorrupt], or values that it might have been given. What is allocated is bounded by
// count and the length of blob.
func (s *Splitter) Open(blob []byte, count int) error {
	s.blob = blob
	s.parts = slices.Grow(s.parts[:0], count)[:count]
	s.counts = slices.Grow(s.counts[:0], count)[:count]
	clear(s.parts)
	if len(blob) == 0 {
		return corrupt("bundle of no bytes")
	}
	flags, src := blob[0], blob[1:]
	if flags == bundlePlain {
		return s.plain(src)
	}
	if flags&bundlePlain != 0 {
		src, err := s.short(src, flags)
		if err != nil {
			return err
		}
		return s.findBodies(src, flags)
	}
	s.chunks = count
	if flags&bundleVerbatim != 0 {
		var ok bool
		if src, ok = s.cutPacked(src, count, 1); !ok {
			return corrupt("bundle is cut off")
		}
		for i, word := range s.words {
			s.parts[i].verbatim = word != 0
			s.chunks -= int(word)
		}
	}
	s.times, s.kinds = s.times[:0], s.kinds[:0]
	if s.chunks > 0 {
		var err error
		if src, err = s.heads(src, flags); err != nil {
			return err
		}
	} else if flags&^bundleVerbatim != 0 {
		return corrupt("flags %#x of a bundle without chunks", flags)
	}
	return s.findBodies(src, flags)
}

// plain finds the values of a bundle without heads.
func (s *Splitter) plain(src []byte) error {
	n := len(s.parts)
	if n == 0 && len(src) > 0 {
		return corrupt("bundle of no values")
	}
	sum := 0
	for i := range s.parts {
		s.parts[i].verbatim = true
		if i+1 == n {
			break
		}
		size, rest, ok := cutUvarint(src)
		if !ok || size > uint64(len(rest)) {
			return corrupt("length of a value")
		}
		s.parts[i].to = int(size)
		sum += int(size)
		src = rest
	}
	if sum > len(src) {
		return corrupt("bundle is cut off")
	}
	from := len(s.blob) - len(src)
	for i := range s.parts {
		p := &s.parts[i]
		p.from = from
		from += p.to
		p.to = from
	}
	if n > 0 {
		s.parts[n-1].to = len(s.blob)
	}
	return nil
}

// heads reads entries and columns.
func (s *Splitter) heads(src []byte, flags byte) ([]byte, error) {
	src, err := s.entries(src, flags)
	if err != nil {
		return nil, err
	}
	if src, err = s.indexes(src, flags); err != nil {
		return nil, err
	}
	columns := false
	for i := range s.kinds {
		columns = columns || s.kinds[i].mode != modeConst
	}
	if len(src) == 0 || columns && len(src) == 1 {
		return nil, corrupt("bundle is cut off")
	}
	leadKind, slopeKind, shapeKind := src[0]&0x0f, src[0]>>4, byte(0)
	src = src[1:]
	if columns {
		shapeKind, src = src[0], src[1:]
		if src, err = s.shapes(src, shapeKind); err != nil {
			return nil, err
		}
		if src, err = s.slopes(src, slopeKind, flags&bundleSlopeLog != 0); err != nil {
			return nil, err
		}
	}
	if !scaleKinds(s.kinds, flags&bundleScaled != 0) {
		return nil, corrupt("leads of a bundle have no common units")
	}
	// The leads wait in numbers: with the model they need counts, which the bodies have.
	return s.column(src, leadKind, s.chunks)
}

// entries reads the entries of times and kinds.
func (s *Splitter) entries(src []byte, flags byte) ([]byte, error) {
	for n := 1; n > 0; {
		if len(s.times) == 0 && flags&bundleTimes != 0 {
			if len(src) == 0 || src[0] < 2 {
				return nil, corrupt("times entries")
			}
			n, src = int(src[0]), src[1:]
		}
		e, rest, err := parseTimes(src)
		if err != nil {
			return nil, err
		}
		s.times = append(s.times, e)
		src = rest
		n--
	}
	for n := 1; n > 0; {
		if len(s.kinds) == 0 && flags&bundleKinds != 0 {
			if len(src) == 0 || src[0] < 2 {
				return nil, corrupt("kind entries")
			}
			n, src = int(src[0]), src[1:]
		}
		e, rest, ok := parseKind(src)
		if !ok {
			return nil, corrupt("kind entry")
		}
		s.kinds = append(s.kinds, e)
		src = rest
		n--
	}
	return src, nil
}

// indexes reads which entries the chunks have, and whose first block has exceptions.
func (s *Splitter) indexes(src []byte, flags byte) ([]byte, error) {
	src, err := s.choices(src, len(s.times), func(p *part, entry uint8) { p.times = entry })
	if err != nil {
		return nil, err
	}
	if src, err = s.choices(src, len(s.kinds), func(p *part, entry uint8) { p.kind = entry }); err != nil {
		return nil, err
	}
	if flags&bundleExceptions == 0 {
		return src, nil
	}
	return s.choices(src, 2, func(p *part, entry uint8) { p.exceptions = entry != 0 })
}

// choices reads for each chunk which of n things it has, and sets it. Where there is no choice nothing is stored.
func (s *Splitter) choices(src []byte, n int, set func(p *part, entry uint8)) ([]byte, error) {
	if n <= 1 {
		return src, nil
	}
	src, ok := s.cutPacked(src, s.chunks, bits.Len(uint(n-1)))
	if !ok {
		return nil, corrupt("bundle is cut off")
	}
	at := 0
	for i := range s.parts {
		p := &s.parts[i]
		if p.verbatim {
			continue
		}
		if s.words[at] >= uint64(n) {
			return nil, corrupt("entry %d of %d", s.words[at], n)
		}
		set(p, uint8(s.words[at]))
		at++
	}
	return src, nil
}

// cutPacked cuts n numbers of w bits off src into words.
func (s *Splitter) cutPacked(src []byte, n, w int) (rest []byte, ok bool) {
	size := packedBytes(n, w)
	if size > len(src) {
		return nil, false
	}
	s.words = slices.Grow(s.words[:0], n)[:n]
	for from := 0; from < n; from += blockLen { // a block's bits fill whole bytes
		to := min(from+blockLen, n)
		s.d.blocks.src = src[from*w/8:]
		if !s.d.blocks.packed(s.words[from:to], uint(w)) {
			return nil, false
		}
	}
	return src[size:], true
}

// column reads n numbers into numbers.
func (s *Splitter) column(src []byte, nibble byte, n int) ([]byte, error) {
	kind := nibble & modeMask
	if nibble&nibbleStep != 0 {
		kind |= flagStep
	}
	c, err := s.d.openColumn(src, kind, false, n)
	if err != nil {
		return nil, err
	}
	s.numbers = slices.Grow(s.numbers[:0], n)[:n]
	if c.mode == modeConst {
		for i := range s.numbers {
			s.numbers[i] = c.lead
		}
		return s.d.blocks.src, nil
	}
	at, slope, from := c.lead, c.slope, 0
	if c.mode != modeFrame {
		s.numbers[0], from = at, 1
	}
	for from < n {
		k := min(n-from, blockLen)
		u := s.d.numbers[:k]
		if !s.d.blocks.block(u) {
			return nil, corrupt("block of %d numbers", k)
		}
		at, slope = c.undo(s.numbers[from:from+k], u, at, slope)
		from += k
	}
	return s.d.blocks.src, nil
}

func (s *Splitter) shapes(src []byte, kind byte) ([]byte, error) {
	if kind > 0x0f {
		return nil, corrupt("kind of the shapes")
	}
	n := 0
	for i := range s.parts {
		if p := &s.parts[i]; !p.verbatim && s.kinds[p.kind].mode != modeConst {
			n++
		}
	}
	if n == 0 {
		return nil, corrupt("entry of no chunk")
	}
	src, err := s.column(src, kind, n)
	if err != nil {
		return nil, err
	}
	return src, s.setShapes()
}

// setShapes gives the chunks that have blocks their shapes, which are in numbers.
func (s *Splitter) setShapes() error {
	at, ok := 0, false
	for i := range s.parts {
		p := &s.parts[i]
		if p.verbatim || s.kinds[p.kind].mode == modeConst {
			continue
		}
		if p.shape, ok = shapeOfNumber(s.numbers[at]); !ok || p.exceptions && p.shape.low == 64 {
			return corrupt("shape %d", s.numbers[at])
		}
		at++
	}
	return nil
}

func (s *Splitter) slopes(src []byte, kind byte, log bool) ([]byte, error) {
	n := 0
	for i := range s.parts {
		if p := &s.parts[i]; !p.verbatim && s.kinds[p.kind].hasSlope() {
			n++
		}
	}
	if n == 0 {
		return src, nil
	}
	src, err := s.column(src, kind, n)
	if err != nil {
		return nil, err
	}
	return src, s.setSlopes(log)
}

// setSlopes gives the chunks that have slopes theirs, which are in numbers.
func (s *Splitter) setSlopes(log bool) error {
	at, ok := 0, true
	for i := range s.parts {
		p := &s.parts[i]
		if p.verbatim || !s.kinds[p.kind].hasSlope() {
			continue
		}
		p.slope = s.numbers[at]
		if log {
			if p.slope, ok = slopeOfNumber(p.slope); !ok {
				return corrupt("slope %d", s.numbers[at])
			}
		}
		at++
	}
	return nil
}

// findBodies finds where each part's body lies, and its lead.
func (s *Splitter) findBodies(src []byte, flags byte) error {
	for i := range s.parts {
		if !s.parts[i].verbatim {
			continue
		}
		size, rest, ok := cutUvarint(src)
		if !ok || size > uint64(len(rest)) {
			return corrupt("length of a value")
		}
		s.counts[i], src = int(size), rest
	}
	at, way := 0, int64(0)
	from := len(s.blob) - len(src)
	for i := range s.parts {
		p := &s.parts[i]
		p.from = from
		if p.verbatim {
			if s.counts[i] > len(s.blob)-from {
				return corrupt("bundle is cut off")
			}
			from += s.counts[i]
			p.to = from
			continue
		}
		k := &s.kinds[p.kind]
		middle, size, count, ok := s.d.body(s.blob[from:], p, &s.times[p.times], k)
		if !ok {
			return corrupt("body %d of a bundle", i)
		}
		p.middle = from + middle
		from += size
		p.to = from
		p.lead = s.numbers[at]
		if flags&bundleModel != 0 {
			way += p.stride(k, count)
			p.lead -= way
		}
		if k.lead != 1 {
			p.lead /= k.lead
		}
		at++
	}
	if from != len(s.blob) {
		return corrupt("%d bytes too many in a bundle", len(s.blob)-from)
	}
	return nil
}

// Append appends value i of the open bundle.
func (s *Splitter) Append(dst []byte, i int) []byte {
	p := &s.parts[i]
	if p.verbatim {
		return append(dst, s.blob[p.from:p.to]...)
	}
	dst = append(dst, s.times[p.times].bytes...)
	dst = append(dst, s.blob[p.from:p.middle]...)
	dst = p.appendHead(dst, &s.kinds[p.kind])
	return append(dst, s.blob[p.middle:p.to]...)
}
