package chunk

import (
	"encoding/binary"
	"math"
)

// Values that no column of numbers should hold are listed instead: NaNs, infinities, −0, and values that are no
// decimals in a chunk of decimals. The list consists of stretches of equal values:
//
//	uvarint number of stretches
//	each: uvarint number of column values since the stretch before, uvarint (length − 1)·8 + code,
//	      and for specialBits 8 bytes, the bit pattern little-endian
const (
	specialBits  = 0
	specialStale = 1 // the stale marker of Prometheus
	specialNaN   = 2
	specialInf   = 3
	specialMinus = 4 // −Inf
	specialZero  = 5 // −0

	codeBits = 3
)

// specialPatterns are the bit patterns of the codes; never written to.
var specialPatterns = [...]uint64{
	specialStale: 0x7ff0000000000002,
	specialNaN:   0x7ff8000000000001,
	specialInf:   0x7ff0000000000000,
	specialMinus: 0xfff0000000000000,
	specialZero:  0x8000000000000000,
}

const exponentBits = 0x7ff0000000000000

// isSpecial reports whether v is NaN, infinite or −0.
func isSpecial(v float64) bool {
	pattern := math.Float64bits(v)
	return pattern&exponentBits == exponentBits || pattern == specialPatterns[specialZero]
}

// stretch is a number of equal values that stand after gap values of the column.
type stretch struct {
	gap, length int
	pattern     uint64
}

// appendSpecials appends the list of the values at the ascending indices in left, of which there is at least one.
func appendSpecials(dst []byte, values []float64, left []int) []byte {
	stretches := 0
	for i := range left {
		if !continues(values, left, i) {
			stretches++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(stretches))
	before := 0
	for i := 0; i < len(left); {
		end := i + 1
		for end < len(left) && continues(values, left, end) {
			end++
		}
		pattern := math.Float64bits(values[left[i]])
		code := specialBits
		for c := specialStale; c <= specialZero; c++ {
			if specialPatterns[c] == pattern {
				code = c
			}
		}
		dst = binary.AppendUvarint(dst, uint64(left[i]-before))
		dst = binary.AppendUvarint(dst, uint64(end-i-1)<<codeBits|uint64(code))
		if code == specialBits {
			dst = binary.LittleEndian.AppendUint64(dst, pattern)
		}
		before = left[end-1] + 1
		i = end
	}
	return dst
}

// continues reports whether left[i] belongs to the stretch of left[i−1].
func continues(values []float64, left []int, i int) bool {
	return i > 0 && left[i] == left[i-1]+1 &&
		math.Float64bits(values[left[i]]) == math.Float64bits(values[left[i-1]])
}

// specials reads a list for a chunk of n samples into d.stretches, and returns the rest of src and the number of values
// that are listed.
func (d *Decoder) specials(src []byte, n int) (rest []byte, listed int, err error) {
	d.stretches = d.stretches[:0]
	number, src, ok := cutUvarint(src)
	if !ok || number == 0 || number > uint64(len(src))/2 {
		return nil, 0, corrupt("%d stretches of special values in %d bytes", number, len(src))
	}
	free := uint64(n)
	for range number {
		gap, rest, ok1 := cutUvarint(src)
		head, rest, ok2 := cutUvarint(rest)
		code, more := head&(1<<codeBits-1), head>>codeBits
		if !ok1 || !ok2 || code > specialZero || gap >= free || more >= free-gap {
			return nil, 0, corrupt("stretch of special values")
		}
		s := stretch{gap: int(gap), length: int(more) + 1, pattern: specialPatterns[code]}
		if code == specialBits {
			if len(rest) < 8 {
				return nil, 0, corrupt("special value is cut off")
			}
			s.pattern, rest = binary.LittleEndian.Uint64(rest), rest[8:]
		}
		free -= gap + more + 1
		listed += s.length
		d.stretches = append(d.stretches, s)
		src = rest
	}
	return src, listed, nil
}

// spread moves the column's values, which stand at the front of values, to their places and fills in the special
// ones.
func (d *Decoder) spread(values []float64, listed int) {
	to, from := len(values), len(values)-listed
	tail := from
	for i := range d.stretches {
		tail -= d.stretches[i].gap
	}
	for i := len(d.stretches) - 1; i >= 0; i-- {
		copy(values[to-tail:to], values[from-tail:from])
		to, from = to-tail, from-tail
		s := &d.stretches[i]
		v := math.Float64frombits(s.pattern)
		for k := to - s.length; k < to; k++ {
			values[k] = v
		}
		to -= s.length
		tail = s.gap
	}
}

// cutUvarint cuts a uvarint in its shortest form off src.
func cutUvarint(src []byte) (x uint64, rest []byte, ok bool) {
	if len(src) > 0 && src[0] < 0x80 {
		return uint64(src[0]), src[1:], true
	}
	x, n := binary.Uvarint(src)
	if n <= 0 || src[n-1] == 0 {
		return 0, src, false
	}
	return x, src[n:], true
}

// cutVarint cuts a zigzag varint in its shortest form off src.
func cutVarint(src []byte) (x int64, rest []byte, ok bool) {
	u, rest, ok := cutUvarint(src)
	return unzigzag(u), rest, ok
}
