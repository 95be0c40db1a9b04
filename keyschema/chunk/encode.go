package chunk

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"halite/keyschema"
	"halite/keyschema/column"
)

// Encoder packs chunks. It keeps its scratch space between calls: a few dozen bytes for each sample of the longest chunk. It
// is not for concurrent use; the zero value is ready.
type Encoder struct {
	offsets   []int64
	jumps     []jump
	grid      []int64
	plain     column.Encoder
	gridded   column.Encoder
	decimal   decimals
	values    column.Encoder
	patterns  []int64
	left      []int
	near      nearDecimals
	mantissas column.Encoder
	ulps      column.Encoder
	other     []byte // scratch: an alternative encoding
}

// Append packs 1 to 3.6 million samples of one hour onto dst. Timestamps ascend strictly and lie in [hourStartMs,
// hourStartMs + HourMs). Each timestamp has one value of any bit pattern. An error wraps [ErrBadColumns] and leaves dst
// unchanged.
func (e *Encoder) Append(dst []byte, hourStartMs int64, tsMs []int64, values []float64) ([]byte, error) {
	if len(tsMs) == 0 || len(tsMs) != len(values) {
		return dst, fmt.Errorf("%w: %d timestamps and %d values", ErrBadColumns, len(tsMs), len(values))
	}
	regular, err := checkTimes(hourStartMs, tsMs)
	if err != nil {
		return dst, err
	}
	head := len(dst)
	if regular {
		dst = appendRegular(append(dst, version), hourStartMs, tsMs)
	} else {
		dst = binary.AppendUvarint(append(dst, version|flagIrregular), uint64(len(tsMs)))
		dst = e.appendTimes(dst, hourStartMs, tsMs)
	}
	return e.appendValues(dst, head, values), nil
}

// checkTimes reports whether all intervals are equal. The error says why a chunk cannot hold these timestamps.
func checkTimes(hourStartMs int64, tsMs []int64) (regular bool, err error) {
	n := len(tsMs)
	if first, last := tsMs[0], tsMs[n-1]; first < hourStartMs || uint64(last)-uint64(hourStartMs) >= keyschema.HourMs {
		return false, fmt.Errorf("%w: timestamps %d..%d are outside the hour that starts at %d", ErrBadColumns, first, last,
			hourStartMs)
	}
	if n == 1 {
		return true, nil
	}
	interval := tsMs[1] - tsMs[0]
	same := true
	before := tsMs[0]
	for i, ts := range tsMs[1:] {
		if ts <= before {
			return false, fmt.Errorf("%w: timestamp %d of sample %d is not above its predecessor", ErrBadColumns, ts, i+1)
		}
		same = same && ts-before == interval
		before = ts
	}
	return same, nil
}

// appendValues appends the exception values and the value column, and completes the first byte of the chunk at dst[head].
func (e *Encoder) appendValues(dst []byte, head int, values []float64) []byte {
	if pattern := math.Float64bits(values[0]); isConst(values, pattern) {
		return e.appendConst(dst, values[0])
	}
	start, first := len(dst), dst[head]
	if !e.decimal.scale(values) {
		return e.appendBits(dst, head, values)
	}
	d := &e.decimal
	dst = appendLeft(dst, head, values, d.left)
	if len(d.mantissas) > 0 {
		e.values.Plan(d.mantissas)
		dst = appendScale(dst, &e.values, d.exponent)
		dst = e.values.Append(dst)
	}
	if size := len(dst) - start; d.failed == 0 && size <= 4*len(values) {
		return dst
	}
	// With exceptions or long mantissas, bit patterns may be smaller.
	e.other = append(e.other[:0], dst[head:]...)
	dst[head] = first
	if dst = e.appendBits(dst[:start], head, values); len(dst)-head <= len(e.other) {
		return dst
	}
	return append(dst[:head], e.other...)
}

// isConst reports whether all values have this bit pattern.
func isConst(values []float64, pattern uint64) bool {
	for _, v := range values {
		if math.Float64bits(v) != pattern {
			return false
		}
	}
	return true
}

// appendConst appends the value of a chunk whose values are all equal. It writes a decimal if that is shorter than the bit
// pattern.
func (e *Encoder) appendConst(dst []byte, v float64) []byte {
	if m, exponent, ok := smallestExponent(v, 0); ok && column.VarintLen(m) < 8 {
		e.patterns = append(e.patterns[:0], m)
		e.values.Plan(e.patterns)
		return e.values.Append(appendScale(dst, &e.values, exponent))
	}
	return binary.LittleEndian.AppendUint64(append(dst, scaleRaw<<scaleShift), uint64(ordered(v)))
}

// ordered maps a bit pattern to a whole number: the magnitude, then the sign in the lowest bit. So values of similar
// magnitude are near each other, even if their signs differ. Values of one sign differ by even numbers.
func ordered(v float64) int64 {
	return int64(bits.RotateLeft64(math.Float64bits(v), 1) ^ 1<<63)
}

// unordered is the inverse of ordered.
func unordered(x int64) float64 {
	return math.Float64frombits(bits.RotateLeft64(uint64(x)^1<<63, -1))
}

// appendBits appends values that are not decimals. It writes bit patterns, or near decimals if these are shorter.
func (e *Encoder) appendBits(dst []byte, head int, values []float64) []byte {
	e.left = e.left[:0]
	e.patterns = slices.Grow(e.patterns[:0], len(values))
	for i, v := range values {
		if isException(v) {
			e.left = append(e.left, i)
		} else {
			e.patterns = append(e.patterns, ordered(v))
		}
	}
	dst = appendLeft(dst, head, values, e.left)
	if len(e.patterns) == 0 {
		return dst
	}
	e.values.PlanBits(e.patterns)
	if e.near.find(e.patterns) {
		e.mantissas.Plan(e.near.mantissas)
		e.ulps.Plan(e.near.ulps)
		if e.mantissas.SizeBytes()+1+e.ulps.SizeBytes() < e.values.SizeBytes() {
			dst = append(dst, e.mantissas.Kind()|scaleNear<<scaleShift, byte(e.near.exponent))
			dst = e.mantissas.Append(dst)
			return e.ulps.Append(append(dst, e.ulps.Kind()))
		}
	}
	return e.values.Append(append(dst, e.values.Kind()|scaleRaw<<scaleShift))
}

// appendLeft appends the list of the values that the column omits, if there are any, and sets the flag of the chunk.
func appendLeft(dst []byte, head int, values []float64, left []int) []byte {
	if len(left) == 0 {
		return dst
	}
	dst[head] |= flagExceptions
	return appendExceptions(dst, values, left)
}

// appendScale appends the bytes before a column of decimals.
func appendScale(dst []byte, c *column.Encoder, exponent int) []byte {
	if exponent < scaleRaw {
		return append(dst, c.Kind()|byte(exponent)<<scaleShift)
	}
	return append(dst, c.Kind()|scaleLong<<scaleShift, byte(exponent))
}
