package chunk

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// BundleFormat names the bytes that [AppendBundle] makes. A store of bundles keeps the name beside them.
const BundleFormat = "halite.daychunk.1"

// The first byte of a bundle.
const (
	bundleVerbatim   = 0x01 // some values are no chunks: a bitmap says which
	bundleTimes      = 0x02 // there are several times entries
	bundleKinds      = 0x04 // there are several kind entries
	bundleExceptions = 0x08 // a bitmap says whose first block has exceptions
	bundleScaled     = 0x10 // leads are in units of the finest exponent, not divided by steps
	bundleModel      = 0x20 // leads are distances from where slopes and shapes lead to
	bundleSlopeLog   = 0x40 // slopes are numbered in the order of their short forms
	bundlePlain      = 0x80 // no chunk is taken apart: the lengths of all values but the last follow, and the values

	bundleEntriesMax = 255
	nibbleStep       = 0x08 // in a column's four bits: a step comes first
)

// part is one value of a bundle, taken apart: what its head says, and where its body lies.
type part struct {
	times, kind uint8 // indexes of entries
	verbatim    bool
	exceptions  bool // of the first block
	shape       shape
	lead, slope int64
	from        int // start of the body in the bundle
	middle      int // where the kind entry goes
	to          int
}

// timesEntry is the start of a chunk up to its special values; irregular timestamps are in the body but for one byte.
type timesEntry struct {
	bytes []byte
	head  header
}

// kindEntry is what stands between special values and the lead: kind, exponent, step.
type kindEntry struct {
	bytes     []byte
	mode      mode
	raw, near bool
	exponent  int
	step      int64
	divided   bool
	lead      int64 // a stored lead times this is a lead in the bundle's units
	model     int64 // a difference in steps times this is one in the bundle's units
}

func (k *kindEntry) hasSlope() bool { return k.mode == modeDelta || k.mode == modeZigzag2 }

// parseTimes cuts a times entry off src.
func parseTimes(src []byte) (e timesEntry, rest []byte, err error) {
	if len(src) > 0 && src[0]&flagIrregular != 0 {
		if src[0]&versionMask != version || src[0]&(flagPartial|intervalMask) != 0 {
			return e, nil, corrupt("irregular timestamps")
		}
		return timesEntry{bytes: src[:1], head: header{first: src[0]}}, src[1:], nil
	}
	head, rest, err := parseHead(src)
	return timesEntry{bytes: src[:len(src)-len(rest)], head: head}, rest, err
}

// parseKind cuts a kind entry off src.
func parseKind(src []byte) (e kindEntry, rest []byte, ok bool) {
	if len(src) == 0 {
		return e, nil, false
	}
	all, kind := src, src[0]
	e.mode, e.exponent, e.step = mode(kind&modeMask), int(kind>>scaleShift&scaleMask), 1
	e.raw, e.near = e.exponent == scaleRaw, e.exponent == scaleNear
	src = src[1:]
	if e.near || e.exponent == scaleLong {
		if len(src) == 0 || src[0] > exponentMax {
			return e, nil, false
		}
		e.exponent, src = int(src[0]), src[1:]
	}
	stepped := kind&flagStep != 0
	if e.mode > modeXor || e.mode == modeXor && !e.raw || e.mode == modeConst && stepped {
		return e, nil, false
	}
	if stepped {
		var r reader
		if e.divided, src, ok = r.cutStep(src); !ok || e.divided && (e.raw || r.step <= 0) {
			return e, nil, false
		}
		e.step = r.step
	}
	e.bytes = all[:len(all)-len(src)]
	return e, src, true
}

// scaleKinds sets the entries' units; false means that they have none in common.
func scaleKinds(kinds []kindEntry, scaled bool) bool {
	finest := 0
	for i := range kinds {
		if k := &kinds[i]; !k.raw {
			finest = max(finest, k.exponent)
		}
	}
	for i := range kinds {
		k := &kinds[i]
		k.lead, k.model = 1, k.step
		if !scaled {
			if k.divided {
				k.model = 1
			}
			continue
		}
		if k.raw {
			continue
		}
		power := finest - k.exponent
		if power > 18 {
			return false
		}
		k.lead = int64(powers[power])
		k.model = k.step * k.lead
		if k.divided {
			high, low := bits.Mul64(uint64(k.lead), uint64(k.step))
			if high != 0 || low >= 1<<62 {
				return false
			}
			k.lead = int64(low)
		}
	}
	return true
}

// stride is about how far it is from a chunk's lead to that of the hour after it, going by the chunk's head.
func (p *part) stride(k *kindEntry, count int) int64 {
	switch k.mode {
	case modeDelta:
		limit, all := p.shape.limit()
		if all {
			return 0
		}
		return int64(count) * (p.slope + int64(limit>>1)) * k.model
	case modeZigzag2:
		return int64(count) * p.slope * k.model
	}
	return 0
}

// Shapes are numbered in the order of their limits: 16 for each power of two.
const (
	shapeSteps = 16
	shapeBits  = 5 // of a base
)

func (s shape) number() int64 {
	length := bits.Len8(s.base)
	top := int(s.base) << (shapeBits - length)
	return int64((int(s.low)+length-1)*shapeSteps + top - shapeSteps)
}

func shapeOfNumber(number int64) (s shape, ok bool) {
	if number < 0 || number > 64*shapeSteps {
		return s, false
	}
	top := uint8(number%shapeSteps) + shapeSteps
	zeros := bits.TrailingZeros8(top)
	low := int(number/shapeSteps) - (shapeBits - 1) + zeros
	s = shape{uint8(low), top >> zeros}
	return s, low >= 0 && (s.base == 1 && low <= 64 || s.base > 1 && low+bits.Len8(s.base) <= 64)
}

// cutShape cuts the shape of a block off src.
func cutShape(src []byte) (s shape, exceptions bool, rest []byte, ok bool) {
	if len(src) == 0 {
		return s, false, nil, false
	}
	s, exceptions = shape{src[0] & widthMask, 1}, src[0]&flagExceptions != 0
	src = src[1:]
	if s.low < radixShape {
		return s, exceptions, src, !exceptions || s.low < 64
	}
	s.low -= radixShape
	if len(src) == 0 {
		return s, exceptions, nil, false
	}
	s.base = src[0]
	ok = s.base >= radixMin && s.base <= radixMax && s.base&1 == 1 && int(s.low)+bits.Len8(s.base) <= 64
	return s, exceptions, src[1:], ok
}

func appendShape(dst []byte, s shape, exceptions bool) []byte {
	flags := byte(0)
	if exceptions {
		flags = flagExceptions
	}
	if s.base == 1 {
		return append(dst, s.low|flags)
	}
	return append(dst, radixShape+s.low|flags, s.base)
}

// Slopes that take at most two bytes are numbered in their order; the number of one with small digits is itself.
func slopeNumber(s int64) (number int64, ok bool) {
	digits, shift, exact := splitSlope(s)
	number = int64(shift)*slopeLead + int64(digits)
	if s < 0 {
		number = -number
	}
	return number, exact && shift <= exponentTop
}

func slopeOfNumber(number int64) (s int64, ok bool) {
	a := uint64(max(number, -number))
	if a >= (exponentTop+2)*slopeLead {
		return 0, false
	}
	if a >= 2*slopeLead {
		shift := a/slopeLead - 1
		a = (a%slopeLead + slopeLead) << shift
	}
	if number < 0 {
		return -int64(a), true
	}
	return int64(a), true
}

// skipBlock returns what a block of n numbers leaves of src, which begins behind its shape.
func skipBlock(src []byte, s shape, exceptions bool, n int) (rest []byte, ok bool) {
	size := 0
	if s.base == 1 {
		size = packedBytes(n, int(s.low))
	} else {
		size = radixBytes(n, uint(s.low), s.base)
	}
	if !exceptions {
		if size > len(src) {
			return nil, false
		}
		return src[size:], true
	}
	bitmapBytes := packedBytes(n, 1)
	if len(src) < 1+size+1 {
		return nil, false
	}
	width, bitmap := int(src[0]&widthMask), src[0]&flagBitmap != 0
	src = src[1+size:]
	count := 0
	if bitmap {
		if len(src) < bitmapBytes {
			return nil, false
		}
		for _, b := range src[:bitmapBytes] {
			count += bits.OnesCount8(b)
		}
		src = src[bitmapBytes:]
	} else {
		count = int(src[0])
		if len(src) < 1+count {
			return nil, false
		}
		src = src[1+count:]
	}
	size = packedBytes(count, width)
	if width > 64 || size > len(src) {
		return nil, false
	}
	return src[size:], true
}

// skipBlocks returns what n numbers leave of src; the first block begins behind its shape.
func skipBlocks(src []byte, s shape, exceptions bool, n int) (rest []byte, ok bool) {
	for {
		k := min(n, blockLen)
		if src, ok = skipBlock(src, s, exceptions, k); !ok {
			return nil, false
		}
		if n -= k; n == 0 {
			return src, true
		}
		if s, exceptions, src, ok = cutShape(src); !ok {
			return nil, false
		}
	}
}

// skipColumn returns what a column of n numbers leaves of src, which begins behind its kind.
func (d *Decoder) skipColumn(src []byte, kind byte, n int) (rest []byte, ok bool) {
	c, err := d.openColumn(src, kind, false, n)
	if err != nil {
		return nil, false
	}
	src = d.blocks.src
	if c.mode == modeConst {
		return src, true
	}
	if c.mode != modeFrame {
		n--
	}
	s, exceptions, src, ok := cutShape(src)
	if !ok {
		return nil, false
	}
	return skipBlocks(src, s, exceptions, n)
}

// skipFront returns what irregular timestamps and special values leave of a body, and the number of values left.
func (d *Decoder) skipFront(src []byte, t *timesEntry) (rest []byte, count int, ok bool) {
	count = t.head.count
	if t.head.first&flagIrregular != 0 {
		n, src2, ok := cutUvarint(src)
		if !ok || n == 0 || n > countMax || len(src2) == 0 || src2[0]&^(modeMask|flagStep|flagGrid) != 0 {
			return nil, 0, false
		}
		count = int(n)
		kind, src2 := src2[0], src2[1:]
		if kind&flagGrid != 0 {
			var err error
			if _, _, src2, err = parseGrid(src2, count); err != nil {
				return nil, 0, false
			}
		}
		if src, ok = d.skipColumn(src2, kind, count); !ok {
			return nil, 0, false
		}
	}
	if t.head.first&flagSpecials != 0 {
		rest, listed, err := d.specials(src, count)
		if err != nil || listed == count {
			return nil, 0, false
		}
		return rest, count - listed, true
	}
	return src, count, true
}

// body finds the end of a part's body in src, which begins with it, and where the kind entry goes.
func (d *Decoder) body(src []byte, p *part, t *timesEntry, k *kindEntry) (middle, end, count int, ok bool) {
	rest := src
	if rest, count, ok = d.skipFront(src, t); !ok {
		return 0, 0, 0, false
	}
	middle = len(src) - len(rest)
	if k.mode != modeConst {
		n := count
		if k.mode != modeFrame {
			n--
		}
		if n <= 0 || count < 2 {
			return 0, 0, 0, false
		}
		if rest, ok = skipBlocks(rest, p.shape, p.exceptions, n); !ok {
			return 0, 0, 0, false
		}
	}
	if k.near {
		if len(rest) == 0 || rest[0]&^(modeMask|flagStep) != 0 {
			return 0, 0, 0, false
		}
		if rest, ok = d.skipColumn(rest[1:], rest[0], count); !ok {
			return 0, 0, 0, false
		}
	}
	return middle, len(src) - len(rest), count, true
}

// appendHead appends what a chunk has between its kind entry and the rest of its body.
func (p *part) appendHead(dst []byte, k *kindEntry) []byte {
	dst = append(dst, k.bytes...)
	if k.raw {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.lead))
	} else {
		dst = binary.AppendVarint(dst, p.lead)
	}
	if k.mode == modeConst {
		return dst
	}
	if k.hasSlope() {
		dst = appendSlope(dst, p.slope)
	}
	return appendShape(dst, p.shape, p.exceptions)
}

// The pool holds scratch space only.
var packers = sync.Pool{New: func() any { return new(packer) }}

// AppendBundle appends one blob with all the values, of which a [Splitter] makes the identical bytes again. Values may
// be anything, but only chunks of consecutive hours of one series, in order, get smaller by it. It is safe for
// concurrent use.
func AppendBundle(dst []byte, values [][]byte) []byte {
	p := packers.Get().(*packer)
	defer packers.Put(p)
	return p.append(dst, values)
}
