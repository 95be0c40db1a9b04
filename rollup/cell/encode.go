package cell

import (
	"encoding/binary"
	"fmt"
	"math"

	"halite/keyschema/column"
	"halite/rollup"
)

// Encoder encodes cells and keeps its scratch space between them. It is not for concurrent use; the zero value is
// ready.
type Encoder struct {
	table     table
	integers  column.TaggedEncoder
	residuals [BucketsMax]int64
	columns   [2][]byte // a column with either prediction
}

// Append appends the cell that stores states of consecutive buckets, 1 to BucketsMax, in a row and qualifier of a table.
// Each bucket is bucketMs long, and the first begins at fromMs. The cell holds only the given fields. From a state without
// samples it keeps only Stale. An error wraps [ErrInvalidStates] and leaves dst unchanged.
func (e *Encoder) Append(
	dst, row, qualifier []byte, fromMs, bucketMs int64, fields rollup.Fields, states []rollup.State,
) ([]byte, error) {
	if len(states) == 0 || len(states) > BucketsMax || fields&^rollup.FieldsAll != 0 {
		return dst, fmt.Errorf("%w: bad number of buckets %d or bad fields %#x", ErrInvalidStates, len(states), uint16(fields))
	}
	present, stale, err := e.load(fromMs, bucketMs, fields, states)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = e.appendHead(dst, fields, present, stale)
	if e.table.rows > 0 {
		dst = e.appendColumns(dst, fields)
	}
	return binary.LittleEndian.AppendUint32(dst, checksum(row, qualifier, dst[start:])), nil
}

// load spreads the states over the columns. It returns bitmaps of the buckets with samples and of the buckets that end with
// a stale marker.
func (e *Encoder) load(
	fromMs, bucketMs int64, fields rollup.Fields, states []rollup.State,
) (present, stale uint32, err error) {
	t, fieldOf := &e.table, columnFields()
	t.buckets, t.rows, t.bucketMs = len(states), 0, bucketMs
	for b := range states {
		s := &states[b]
		if s.Stale {
			stale |= 1 << b
		}
		if s.Count == 0 {
			continue
		}
		from := fromMs + int64(b)*bucketMs
		first, last := s.FirstMs-from, s.LastMs-from
		if s.Count < 0 || first < 0 || last < first || last >= bucketMs || s.Count > last-first+1 ||
			min(s.NaNs, s.Resets, s.Changes) < 0 || max(s.NaNs, s.Resets, s.Changes) > s.Count {
			return 0, 0, fmt.Errorf("%w: bucket %d cannot have %d samples from %d to %d ms", ErrInvalidStates, b, s.Count, first,
				last)
		}
		present |= 1 << b
		i := t.rows
		t.bucketOf[i] = b
		t.rows++
		for c, x := range [...]int64{s.Count, first, last, s.NaNs, s.Resets, s.Changes} {
			t.ints[c][i] = x
		}
		for c, v := range [columnCount]float64{
			colFirst: s.First, colLast: s.Last, colMin: s.Min, colMax: s.Max, colSum: s.Sum,
			colCorrection: s.Correction, colSumLow: s.SumLow, colMean: s.Mean, colM2: s.M2,
		} {
			t.floats[c][i] = v
		}
	}
	for c := range columnCount {
		if !fields.Has(fieldOf[c]) { // the decoder does not have it, so nothing may be predicted from it
			clear(t.ints[c][:t.rows])
			clear(t.floats[c][:t.rows])
		}
	}
	return present, stale, nil
}

// appendHead appends everything before the columns.
func (e *Encoder) appendHead(dst []byte, fields rollup.Fields, present, stale uint32) []byte {
	t, at := &e.table, len(dst)
	dst = append(dst, version)
	if fields != rollup.FieldsAll {
		dst[at] |= flagFields
		dst = binary.LittleEndian.AppendUint16(dst, uint16(fields))
	}
	if present != 1<<t.buckets-1 {
		dst[at] |= flagGaps
		dst = appendBitmap(dst, present, t.buckets)
	}
	if stale != 0 && fields.Has(rollup.FieldStale) {
		dst[at] |= flagStale
		dst = appendBitmap(dst, stale, t.buckets)
	}
	t.exponent = -1
	if t.rows > 0 && fields.Has(rollup.FieldEdges|rollup.FieldMin|rollup.FieldMax) && e.findExponent() {
		dst[at] |= flagDecimals
		dst = append(dst, byte(t.exponent))
	}
	return dst
}

func appendBitmap(dst []byte, bitmap uint32, n int) []byte {
	for ; n > 0; n -= 8 {
		dst = append(dst, byte(bitmap))
		bitmap >>= 8
	}
	return dst
}

// findExponent finds the smallest decimal exponent that makes all edges and extremes integers. It reports false if
// there is none.
func (e *Encoder) findExponent() bool {
	t, exponent, p := &e.table, 0, 1.0
	for c := colFirst; c <= colMax; c++ {
		for _, v := range t.floats[c][:t.rows] {
			for {
				if _, ok := mantissa(v, p); ok {
					break
				}
				if exponent == exponentMax || !(math.Abs(v)*p < 1<<53) {
					return false
				}
				exponent++
				p = powerOfTen(exponent)
			}
		}
	}
	for c := colFirst; c <= colMax; c++ {
		if !e.toMantissas(c, p) { // a larger exponent may not fit a value that a smaller one did
			return false
		}
	}
	t.exponent = exponent
	return true
}

// toMantissas makes the values of a column integers if that is exact.
func (e *Encoder) toMantissas(c columnID, p float64) bool {
	for i, v := range e.table.floats[c][:e.table.rows] {
		m, ok := mantissa(v, p)
		if !ok {
			return false
		}
		e.table.ints[c][i] = m
	}
	return true
}

// appendColumns appends the mask of the stored columns, then the columns.
func (e *Encoder) appendColumns(dst []byte, fields rollup.Fields) []byte {
	at, mask, fieldOf := len(dst), uint16(0), columnFields()
	dst = append(dst, 0, 0)
	for c := range columnCount {
		e.table.encodings[c] = e.toIntegers(c)
		if !fields.Has(fieldOf[c]) {
			continue
		}
		if column := e.encode(c); column != nil {
			mask |= 1 << c
			dst = append(dst, column...)
		}
	}
	binary.LittleEndian.PutUint16(dst[at:], mask)
	return dst
}

// encode encodes a column. It returns nil if the column is exactly as predicted.
func (e *Encoder) encode(c columnID) []byte {
	t := &e.table
	if c == colM2Error && t.encodings[colM2] != asInteger {
		return nil
	}
	if e.subtract(c, false) && t.encodings[c] == t.defaultEncoding(c) {
		return nil
	}
	tag, rows := byte(t.encodings[c])<<tagEncoding, t.rows
	e.columns[0] = e.integers.Append(e.columns[0][:0], tag, e.residuals[:rows])
	if !c.hasSecondPrediction() {
		return e.columns[0]
	}
	e.subtract(c, true)
	e.columns[1] = e.integers.Append(e.columns[1][:0], tag|tagSecond, e.residuals[:rows])
	if len(e.columns[1]) < len(e.columns[0]) {
		return e.columns[1]
	}
	return e.columns[0]
}

// subtract sets the residuals of a column: its integers minus the predictions. It reports whether all are 0.
func (e *Encoder) subtract(c columnID, second bool) (zero bool) {
	t := &e.table
	t.predict(c, second)
	zero = true
	for i, x := range t.ints[c][:t.rows] {
		e.residuals[i] = x - t.predicted[i]
		zero = zero && e.residuals[i] == 0
	}
	return zero
}

// toIntegers makes a column integers in the shortest encoding that is exact.
func (e *Encoder) toIntegers(c columnID) encoding {
	t := &e.table
	switch {
	case c < colFirst || c == colM2Error || t.exponent >= 0 && c <= colMax:
		return asInteger
	case t.exponent >= 0 && c <= colCorrection && e.toMantissas(c, powerOfTen(t.exponent)):
		return asInteger
	case c == colSumLow && e.lowsToIntegers():
		return asInteger
	case c == colM2 && e.toShortBits(c):
		if e.m2ToIntegers() {
			return asInteger
		}
		e.toShortBits(c)
		return asShortBits
	}
	for i, v := range t.floats[c][:t.rows] {
		t.ints[c][i] = orderedBits(v)
	}
	return asBits
}

// lowsToIntegers makes SumLow integers in units that follow from the sums.
func (e *Encoder) lowsToIntegers() bool {
	t := &e.table
	for i, low := range t.floats[colSumLow][:t.rows] {
		unit := rollup.SumLowUnit(t.floats[colSum][i])
		x := low / unit
		if !(math.Abs(x) <= 1<<53) || math.Float64bits(float64(int64(x))*unit) != math.Float64bits(low) {
			return false
		}
		t.ints[colSumLow][i] = int64(x)
	}
	return true
}

// toShortBits converts a column to bit patterns without their low bits, if all low bits are 0.
func (e *Encoder) toShortBits(c columnID) bool {
	t := &e.table
	for i, v := range t.floats[c][:t.rows] {
		x := orderedBits(v)
		if x&(1<<droppedBits-1) != 0 {
			return false
		}
		t.ints[c][i] = x >> droppedBits
	}
	return true
}

// m2ToIntegers makes M2 its integer parts and sets colM2Error. The values have no dropped bits.
func (e *Encoder) m2ToIntegers() bool {
	const integerMax = 1 << rollup.MomentBits // from here on, bit patterns are shorter
	t := &e.table
	clear(t.ints[colM2Error][:t.rows])
	if t.exponent < 0 || t.encodings[colSum] != asInteger {
		return false
	}
	t.findDivisor()
	unit := t.unit()
	for i, v := range t.floats[colM2][:t.rows] {
		count, sum := t.ints[colCount][i], t.ints[colSum][i]
		if sum%t.divisor != 0 {
			return false
		}
		fraction := float64(squaresFraction(count, sum/t.divisor)) / float64(count)
		x := math.Round(float64(v*float64(unit*unit)) - fraction)
		if !(math.Abs(x) < integerMax) {
			return false
		}
		t.ints[colM2][i] = int64(x)
		t.ints[colM2Error][i] = (orderedBits(v) - orderedBits(t.m2FromInteger(i, int64(x), unit))) >> droppedBits
	}
	return true
}
