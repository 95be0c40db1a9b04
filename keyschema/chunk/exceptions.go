package chunk

import (
	"encoding/binary"
	"math"

	"halite/keyschema/column"
)

// The exception list holds the values that the column omits: NaNs, infinities, −0, and values in a chunk of decimals that
// are not decimals. The list consists of runs of equal values:
//
//	uvarint number of runs
//	for each: uvarint number of column values since the previous run, uvarint (length − 1)·8 + code,
//	      and for exceptionBits 8 bytes, the bit pattern little-endian
const (
	exceptionBits  = 0
	exceptionStale = 1 // the stale marker of Prometheus
	exceptionNaN   = 2
	exceptionInf   = 3
	exceptionMinus = 4 // −Inf
	exceptionZero  = 5 // −0

	codeBits = 3
)

// exceptionPatterns are the bit patterns of the codes; never written to.
var exceptionPatterns = [...]uint64{
	exceptionStale: 0x7ff0000000000002,
	exceptionNaN:   0x7ff8000000000001,
	exceptionInf:   0x7ff0000000000000,
	exceptionMinus: 0xfff0000000000000,
	exceptionZero:  0x8000000000000000,
}

const exponentBits = 0x7ff0000000000000

// isException reports whether v is NaN, infinite or −0.
func isException(v float64) bool {
	pattern := math.Float64bits(v)
	return pattern&exponentBits == exponentBits || pattern == exceptionPatterns[exceptionZero]
}

// run is a run of equal values. gap is the number of column values between it and the previous run.
type run struct {
	gap, length int
	pattern     uint64
}

// appendExceptions appends the list of the values at the indices in left, which ascend and are not empty.
func appendExceptions(dst []byte, values []float64, left []int) []byte {
	runs := 0
	for i := range left {
		if !continues(values, left, i) {
			runs++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(runs))
	before := 0
	for i := 0; i < len(left); {
		end := i + 1
		for end < len(left) && continues(values, left, end) {
			end++
		}
		pattern := math.Float64bits(values[left[i]])
		code := exceptionBits
		for c := exceptionStale; c <= exceptionZero; c++ {
			if exceptionPatterns[c] == pattern {
				code = c
			}
		}
		dst = binary.AppendUvarint(dst, uint64(left[i]-before))
		dst = binary.AppendUvarint(dst, uint64(end-i-1)<<codeBits|uint64(code))
		if code == exceptionBits {
			dst = binary.LittleEndian.AppendUint64(dst, pattern)
		}
		before = left[end-1] + 1
		i = end
	}
	return dst
}

// continues reports whether left[i] belongs to the run of left[i−1].
func continues(values []float64, left []int, i int) bool {
	return i > 0 && left[i] == left[i-1]+1 &&
		math.Float64bits(values[left[i]]) == math.Float64bits(values[left[i-1]])
}

// readExceptions reads the list of a chunk of n samples into d.runs. It returns the rest of src and the number of listed values.
func (d *Decoder) readExceptions(src []byte, n int) (rest []byte, listed int, err error) {
	d.runs = d.runs[:0]
	number, src, ok := column.CutUvarint(src)
	if !ok || number == 0 || number > uint64(len(src))/2 {
		return nil, 0, column.Corrupt("%d runs of exception values in %d bytes", number, len(src))
	}
	free := uint64(n)
	for range number {
		gap, rest, ok1 := column.CutUvarint(src)
		head, rest, ok2 := column.CutUvarint(rest)
		code, more := head&(1<<codeBits-1), head>>codeBits
		if !ok1 || !ok2 || code > exceptionZero || gap >= free || more >= free-gap {
			return nil, 0, column.Corrupt("bad run of exception values")
		}
		s := run{gap: int(gap), length: int(more) + 1, pattern: exceptionPatterns[code]}
		if code == exceptionBits {
			if len(rest) < 8 {
				return nil, 0, column.Corrupt("exception value is truncated")
			}
			s.pattern, rest = binary.LittleEndian.Uint64(rest), rest[8:]
		}
		free -= gap + more + 1
		listed += s.length
		d.runs = append(d.runs, s)
		src = rest
	}
	return src, listed, nil
}

// spread moves the values of the column from the front of values to their places and fills in the exceptions.
func (d *Decoder) spread(values []float64, listed int) {
	to, from := len(values), len(values)-listed
	tail := from
	for i := range d.runs {
		tail -= d.runs[i].gap
	}
	for i := len(d.runs) - 1; i >= 0; i-- {
		copy(values[to-tail:to], values[from-tail:from])
		to, from = to-tail, from-tail
		s := &d.runs[i]
		v := math.Float64frombits(s.pattern)
		for k := to - s.length; k < to; k++ {
			values[k] = v
		}
		to -= s.length
		tail = s.gap
	}
}
